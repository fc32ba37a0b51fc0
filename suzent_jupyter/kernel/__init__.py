"""The notebook side: finding the gateway, calling nodes, magics, frames and display."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .control import ControlRequest
    from .conversation import Conversation
    from .errors import (
        CallCancelled,
        CallTimeout,
        CapabilityFailed,
        ConnectionLost,
        KernelError,
        NodeAmbiguous,
        NodeNotFound,
        NoGateway,
        NotAllowed,
        PeerUnknown,
        TurnFailed,
        Unauthorized,
        UnknownCommand,
        Untrusted,
    )
    from .gateway import Gateway, connect
    from .node import Node
    from .results import Binary, Result
    from .route import Route
    from .turns.answer import Answer
    from .turns.remote_file import RemoteFile
    from .uploads import File


__all__ = [
    "Answer",
    "Binary",
    "CallCancelled",
    "CallTimeout",
    "CapabilityFailed",
    "ConnectionLost",
    "ControlRequest",
    "Conversation",
    "File",
    "Gateway",
    "KernelError",
    "NoGateway",
    "Node",
    "NodeAmbiguous",
    "NodeNotFound",
    "NotAllowed",
    "PeerUnknown",
    "RemoteFile",
    "Result",
    "Route",
    "TurnFailed",
    "Unauthorized",
    "UnknownCommand",
    "Untrusted",
    "connect",
]


__getattr__ = lazy_names(
    __name__,
    {
        "Answer": "turns.answer",
        "Binary": "results",
        "CallCancelled": "errors",
        "CallTimeout": "errors",
        "CapabilityFailed": "errors",
        "ConnectionLost": "errors",
        "ControlRequest": "control",
        "Conversation": "conversation",
        "File": "uploads",
        "Gateway": "gateway",
        "KernelError": "errors",
        "NoGateway": "errors",
        "Node": "node",
        "NodeAmbiguous": "errors",
        "NodeNotFound": "errors",
        "NotAllowed": "errors",
        "PeerUnknown": "errors",
        "RemoteFile": "turns.remote_file",
        "Result": "results",
        "Route": "route",
        "TurnFailed": "errors",
        "Unauthorized": "errors",
        "UnknownCommand": "errors",
        "Untrusted": "errors",
        "connect": "gateway",
    },
)


def __dir__() -> list[str]:
    return __all__
