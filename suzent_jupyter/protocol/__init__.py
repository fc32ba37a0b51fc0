"""The vocabulary shared by gateway, devices and notebooks: frames, bodies, error codes, limits. It does no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .capabilities import CapabilitySchema, read_capabilities
    from .client import TOPICS
    from .device import (
        ConnectedResponse,
        ConnectMessage,
        ErrorResponse,
        EventMessage,
        InvokeMessage,
        PendingResponse,
        PingMessage,
        PongMessage,
        ResultMessage,
    )
    from .errors import SuzentError
    from .limits import Limits
    from .rest import InvokeRequest, InvokeResponse, NodeInfo, NodeListResponse

__all__ = [
    "TOPICS",
    "CapabilitySchema",
    "ConnectMessage",
    "ConnectedResponse",
    "ErrorResponse",
    "EventMessage",
    "InvokeMessage",
    "InvokeRequest",
    "InvokeResponse",
    "Limits",
    "NodeInfo",
    "NodeListResponse",
    "PendingResponse",
    "PingMessage",
    "PongMessage",
    "ResultMessage",
    "SuzentError",
    "read_capabilities",
]

__getattr__ = lazy_names(
    __name__,
    {
        "CapabilitySchema": "capabilities",
        "ConnectMessage": "device",
        "ConnectedResponse": "device",
        "ErrorResponse": "device",
        "EventMessage": "device",
        "InvokeMessage": "device",
        "InvokeRequest": "rest",
        "InvokeResponse": "rest",
        "Limits": "limits",
        "NodeInfo": "rest",
        "NodeListResponse": "rest",
        "PendingResponse": "device",
        "PingMessage": "device",
        "PongMessage": "device",
        "ResultMessage": "device",
        "SuzentError": "errors",
        "TOPICS": "client",
        "read_capabilities": "capabilities",
    },
)
