"""Reading the events of a turn from the gateway, as they come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..kernel.gateway import Gateway


def events(gateway: Gateway, path: str, body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Send a prompt and give its events; closing the iterator hangs up."""
    return gateway.stream(path, body)
