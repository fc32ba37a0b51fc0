"""What the routes that run an agent do."""

from __future__ import annotations

from typing import Any

from .request import Request


async def chat(request: Request) -> Any:
    """Run a turn and stream its events."""
    raise NotImplementedError


async def chat_stop(request: Request) -> Any:
    """Stop a turn."""
    raise NotImplementedError


async def inbound(request: Request) -> Any:
    """Run a peer's prompt and stream its events."""
    raise NotImplementedError


async def inbox(request: Request) -> Any:
    """Take a peer's message, to be worked off in order."""
    raise NotImplementedError


async def session(request: Request) -> Any:
    """Show a peer its own conversation."""
    raise NotImplementedError


async def channel_stop(request: Request) -> Any:
    """Stop a peer's own turn."""
    raise NotImplementedError


async def list_conversations(request: Request) -> Any:
    """List the conversations."""
    raise NotImplementedError


async def get_conversation(request: Request) -> Any:
    """Show one with its messages."""
    raise NotImplementedError
