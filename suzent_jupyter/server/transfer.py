"""What the routes of prompts and files between gateways do."""

from __future__ import annotations

from typing import Any

from .request import Request


async def trigger(request: Request) -> Any:
    """Run a prompt on a peer and stream its answer."""
    raise NotImplementedError


async def stop_peer(request: Request) -> Any:
    """Stop our turn on a peer."""
    raise NotImplementedError


async def serve_file(request: Request) -> Any:
    """Serve a file to a peer."""
    raise NotImplementedError


async def proxy_file(request: Request) -> Any:
    """Fetch a file from a peer."""
    raise NotImplementedError
