"""What the routes of peers do: the gateways this one controls, or is controlled by."""

from __future__ import annotations

from typing import Any

from .request import Request


async def control(request: Request) -> Any:
    """Ask another gateway for control."""
    raise NotImplementedError


async def control_status(request: Request) -> Any:
    """Tell how that stands."""
    raise NotImplementedError


async def list_peers(request: Request) -> Any:
    """List the peers, with how they are right now."""
    raise NotImplementedError


async def peer_capabilities(request: Request) -> Any:
    """List what a peer's nodes can do."""
    raise NotImplementedError


async def invoke_peer(request: Request) -> Any:
    """Call a command of one of a peer's nodes."""
    raise NotImplementedError


async def set_mode(request: Request) -> Any:
    """Drive a peer, pause that, or switch it off."""
    raise NotImplementedError


async def set_reverse(request: Request) -> Any:
    """Let a peer drive us, or not any more."""
    raise NotImplementedError


async def remove_peer(request: Request) -> Any:
    """Sever both directions."""
    raise NotImplementedError


async def peer_offer(request: Request) -> Any:
    """Take control that a gateway which drives us gives us in return."""
    raise NotImplementedError


async def grant_changed(request: Request) -> Any:
    """Look again whether the grants we hold still hold."""
    raise NotImplementedError
