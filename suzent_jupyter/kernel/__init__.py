"""The notebook side: finding the gateway, calling nodes, magics, frames and display."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .errors import (
        CallCancelled,
        CallTimeout,
        CapabilityFailed,
        ConnectionLost,
        KernelError,
        NodeAmbiguous,
        NodeNotFound,
        NoGateway,
        Unauthorized,
        UnknownCommand,
        Untrusted,
    )
    from .gateway import Gateway, connect
    from .node import Node
    from .results import Binary, Result


__all__ = [
    "Binary",
    "CallCancelled",
    "CallTimeout",
    "CapabilityFailed",
    "ConnectionLost",
    "Gateway",
    "KernelError",
    "NoGateway",
    "Node",
    "NodeAmbiguous",
    "NodeNotFound",
    "Result",
    "Unauthorized",
    "UnknownCommand",
    "Untrusted",
    "connect",
]


__getattr__ = lazy_names(
    __name__,
    {
        "Binary": "results",
        "CallCancelled": "errors",
        "CallTimeout": "errors",
        "CapabilityFailed": "errors",
        "ConnectionLost": "errors",
        "Gateway": "gateway",
        "KernelError": "errors",
        "NoGateway": "errors",
        "Node": "node",
        "NodeAmbiguous": "errors",
        "NodeNotFound": "errors",
        "Result": "results",
        "Unauthorized": "errors",
        "UnknownCommand": "errors",
        "Untrusted": "errors",
        "connect": "gateway",
    },
)


def __dir__() -> list[str]:
    return __all__
