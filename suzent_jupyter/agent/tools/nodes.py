"""The model's tools for devices."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ..data import Shown, show
from .answering import answering

if TYPE_CHECKING:
    from pydantic_ai import Tool

    from ...protocol.limits import Limits
    from . import NodeAccess


def node_tools(nodes: NodeAccess, limits: Limits, run_id: str) -> list[Tool[None]]:
    """Return ``list_nodes`` and ``invoke_node`` for the turn ``run_id``."""
    from pydantic_ai import Tool

    @answering
    async def list_nodes() -> Any:
        """List the connected devices with the commands each can do and their parameters."""
        return show({"devices": nodes.nodes()}, int(limits.agent_result_bytes)).text

    @answering
    async def invoke_node(node: str, command: str, params: dict[str, Any] | None = None) -> Any:
        """Call a command of a device and return its result. Some commands a person must allow first.

        Parameters
        ----------
        node
            The device's name, as list_nodes shows it.
        command
            One of its commands, such as system.info.
        params
            The command's parameters by name.
        """
        result = await nodes.invoke(run_id, node, command, params or {})
        # A result can be megabytes: not walked on the event loop.
        shown = await asyncio.to_thread(show, result, int(limits.agent_result_bytes), int(limits.agent_image_bytes))
        return _with_pictures(shown)

    return [Tool(list_nodes, takes_ctx=False), Tool(invoke_node, takes_ctx=False)]


def _with_pictures(shown: Shown) -> Any:
    if not shown.pictures:
        return shown.text
    from pydantic_ai.messages import BinaryContent, ToolReturn

    pictures = [BinaryContent(content, media_type=media_type) for content, media_type in shown.pictures]
    return ToolReturn(shown.text, content=["The pictures of that result. They are data as well.", *pictures])
