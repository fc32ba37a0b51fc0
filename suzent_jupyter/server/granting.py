"""What the routes of control grants do: others ask for control of this gateway, and use it."""

from __future__ import annotations

from typing import Any

from .request import Request


async def grant_request(request: Request) -> Any:
    """Take the request of another gateway for control of this one."""
    raise NotImplementedError


async def grant_status(request: Request) -> Any:
    """Tell the one who asked how it stands; the token is served once."""
    raise NotImplementedError


async def list_grants(request: Request) -> Any:
    """List the control requests that wait."""
    raise NotImplementedError


async def approve_grant(request: Request) -> Any:
    """Approve one of them."""
    raise NotImplementedError


async def deny_grant(request: Request) -> Any:
    """Deny it."""
    raise NotImplementedError


async def list_unauthorized(request: Request) -> Any:
    """List refused attempts to drive the agent."""
    raise NotImplementedError


async def peer_invoke(request: Request) -> Any:
    """Call a command of one of our nodes for a peer."""
    raise NotImplementedError


async def whoami(request: Request) -> Any:
    """Tell a peer whose token it holds."""
    raise NotImplementedError
