"""The vocabulary shared by gateway, devices and notebooks: frames, bodies, error codes, limits. It does no I/O."""

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
