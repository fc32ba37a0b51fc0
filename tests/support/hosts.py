"""Real devices: hosts of this package, run by a test."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from suzent_jupyter.kernel import Gateway
from suzent_jupyter.node import Backoff, NodeHost, TokenVault

from .gateways import Addresses
from .running import until

#: ``jupyter suzent node host`` alone, so that the rest of the command line is not in the way.
HOST_COMMAND = (
    "import typer; from suzent_jupyter.cli import host; app = typer.Typer(); node = typer.Typer(); "
    "app.add_typer(node, name='node'); host.register(app, node); app.command()(lambda: None); app()"
)


def make_host(url: str, folder: Path, name: str = "Bench", **options: Any) -> NodeHost:
    """Return a host that comes back fast and keeps its secrets in a folder, where no other vault is given."""
    options.setdefault("vault", TokenVault(folder, keyring=False))
    options.setdefault("backoff", Backoff(0.02, 0.05, floor=0.01))
    return NodeHost(url, name=name, **options)


@asynccontextmanager
async def running(host: NodeHost) -> AsyncIterator[None]:
    """Run a host until the test is done with it."""
    task = asyncio.create_task(host.run())
    try:
        yield
    finally:
        host.stop()
        await asyncio.wait_for(task, 10)


@asynccontextmanager
async def joined(gateway: Addresses, folder: Path, **options: Any) -> AsyncIterator[NodeHost]:
    """Run a host that is approved where that is needed, and connected."""
    host = make_host(options.pop("url", gateway.url), folder, **options)
    async with running(host):
        await until(lambda: host.status in ("pending", "connected", "refused"), 20)
        if host.pairing_code:
            await gateway.approve(host.pairing_code)
        await until(lambda: host.status == "connected", 20, str(host.last_error))
        yield host


@contextmanager
def threaded(folder: Path) -> Iterator[Callable[..., NodeHost]]:
    """Give what starts hosts on threads of their own, approved and connected: ``start(gateway, name, **options)``."""
    hosts: list[NodeHost] = []

    def start(gateway: Addresses, name: str, **options: Any) -> NodeHost:
        options.setdefault("backoff", Backoff(0.05, 0.1, floor=0.02))
        host = make_host(gateway.url, folder / f"keys-{name}", name, **options)
        hosts.append(host)
        host.run_in_thread()
        assert host.wait_for("pending", timeout=20) == "pending"
        with Gateway(gateway.url, gateway.token) as operator:
            operator.approve(host.pairing_code or "")
        assert host.wait_for("connected", timeout=20) == "connected"
        return host

    yield start
    for host in hosts:
        host.stop()
    for host in hosts:
        host.wait_for("stopped", "refused", timeout=10)


def play(
    gateway: Callable[[], AbstractAsyncContextManager[Any]],
    script: Callable[[Any, NodeHost], Awaitable[None]],
    folder: Path,
    **options: Any,
) -> NodeHost:
    """Run ``script(gateway, host)`` while a host with these options is joined to a gateway that is played."""

    async def main() -> NodeHost:
        async with gateway() as played:
            host = make_host(played.url, folder, "Bench 3", **options)
            async with running(host):
                await script(played, host)
            return host

    return asyncio.run(asyncio.wait_for(main(), 60))
