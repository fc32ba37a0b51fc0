"""The notebook side: finding the gateway, calling nodes, magics, frames and display."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    )
    from .gateway import Gateway, connect
    from .node import Node
    from .results import Binary, Result

_LAZY = {
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
    "connect": "gateway",
}

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
    "connect",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
