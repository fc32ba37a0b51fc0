"""Running the rules, from the command line and from tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...node.address import socket_url
from . import approval_rules, call_rules, grant_rules, handshake_rules, node_rules
from .gateway_kit import GatewayKit
from .node_rules import NodeKit
from .operator import Operator, base_url_of, own_token
from .played_gateway import played_gateway
from .rules import RuleResult, look

GATEWAY_RULES = (*handshake_rules.book, *approval_rules.book, *call_rules.book, *grant_rules.book)
NODE_RULES = tuple(node_rules.book)


async def run_against_gateway(
    url: str,
    base_url: str | None = None,
    token: str | None = None,
    *,
    slow: bool = False,
    on_result: Callable[[RuleResult], Any] | None = None,
) -> list[RuleResult]:
    """Play devices against a gateway.

    Parameters
    ----------
    url : str
        Its address, as devices take it.
    base_url : str, optional
        Where its REST routes are; beside the socket otherwise.
    token : str, optional
        Of full authority, to approve and invoke; the one in ``SUZENT_BASE_URL`` or of a running gateway of this
        user, if that is this gateway. Without authority the rules that need it are skipped.
    slow : bool
        Look at the rules that take long, too.
    on_result : callable, optional
        Called with each result at once.

    Raises
    ------
    Unreachable
        When there is no gateway.
    """
    url = socket_url(url)
    base_url = base_url or base_url_of(url)
    kit = GatewayKit(url, Operator(base_url, token or own_token(base_url)))
    try:
        await kit.prepare()
        return await look(GATEWAY_RULES, kit, slow=slow, on_result=on_result)
    finally:
        await kit.tidy()


async def run_against_node(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    wait: float = 60.0,
    on_listening: Callable[[str], Any] | None = None,
    on_result: Callable[[RuleResult], Any] | None = None,
    slow: bool = False,
    **commands: Any,
) -> list[RuleResult]:
    """Play a gateway for the first device that connects.

    Parameters
    ----------
    host, port
        Where to listen; port 0 is any free one.
    wait : float
        Seconds to wait for the device.
    on_listening : callable, optional
        Called with the URL once devices can connect.
    **commands
        ``command``, ``params``, ``slow_command``, ``slow_params`` of :class:`~.node_rules.NodeKit`.

    Raises
    ------
    Unreachable
        When no device comes, or the port is taken.
    """
    async with played_gateway(host, port) as gateway:
        if on_listening is not None:
            on_listening(gateway.url)
        kit = NodeKit(gateway, **commands)
        await kit.prepare(wait)
        return await look(NODE_RULES, kit, slow=slow, on_result=on_result)
