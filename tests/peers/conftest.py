"""Two gateways, one of which joins the other."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.gateways import ThreadedGateway
from support.joiner import Joiner

from suzent_jupyter.gateway.settings import Settings

Pair = Callable[[Joiner, ThreadedGateway], Awaitable[dict[str, Any]]]


@pytest.fixture
def ours(make_gateway: Callable[..., ThreadedGateway]) -> Joiner:
    """The gateway that joins others."""
    return Joiner(make_gateway(settings=Settings(display_name="Ada's laptop")))


@pytest.fixture
def theirs(make_gateway: Callable[..., ThreadedGateway]) -> ThreadedGateway:
    """The gateway that is joined."""
    return make_gateway(account="bob", settings=Settings(display_name="Lab"))


@pytest.fixture
def pair() -> Pair:
    """Join and approve; returns the connection."""

    async def work(ours: Joiner, theirs: ThreadedGateway) -> dict[str, Any]:
        answer = await ours.connect(theirs.node_url)
        assert answer["status"] == "pending", answer
        await theirs.approve(answer["pairing_code"])
        return await ours.reach("connected")

    return work
