"""A real device against a gateway that the test plays word by word, over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from suzent_jupyter.cli.conformance.played_gateway import PlayedGateway, played_gateway
from suzent_jupyter.node import Backoff, NodeHost, TokenVault
from suzent_jupyter.node.capability import registry

Script = Callable[[PlayedGateway, NodeHost], Awaitable[None]]


@pytest.fixture(autouse=True)
def own_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep what one test declares out of the next, and out of the machine's keyring."""
    monkeypatch.setenv("SUZENT_KEYRING", "off")
    before = dict(registry)
    registry.clear()
    yield
    registry.clear()
    registry.update(before)


@pytest.fixture
def play(tmp_path: Path) -> Callable[..., NodeHost]:
    """Run ``script(gateway, host)`` while a host with these options is joined; return the host afterwards."""

    def run(script: Script, **options: Any) -> NodeHost:
        made: list[NodeHost] = []

        async def main() -> None:
            async with played_gateway() as gateway:
                options.setdefault("vault", TokenVault(tmp_path / "vault", keyring=False))
                options.setdefault("backoff", Backoff(0.02, 0.05, floor=0.01))
                host = NodeHost(gateway.url, name="Bench 3", **options)
                made.append(host)
                running = asyncio.create_task(host.run())
                try:
                    await script(gateway, host)
                finally:
                    host.stop()
                    await asyncio.wait_for(running, 10)

        asyncio.run(asyncio.wait_for(main(), 60))
        return made[0]

    return run
