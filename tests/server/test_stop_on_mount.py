"""A Jupyter server that stops: devices on its mount are told, and none of them finds the gateway half open."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from urllib.parse import urlsplit

from support.device import BareDevice
from support.gateways import JupyterServer


def test_devices_on_the_mount_and_on_the_listener(start_jupyter: Callable[..., JupyterServer]) -> None:
    server = start_jupyter()
    mount = server.mount.replace("http", "ws", 1) + "/ws/node"

    async def work() -> None:
        async with BareDevice(mount, "Mounted") as mounted, BareDevice(server.node_url, "Listening") as listening:
            for device in (mounted, listening):
                await server.pair(device)
            async with BareDevice(mount, "Waiting") as waiting, BareDevice(server.node_url, "Silent") as silent:
                await waiting.code()
                await silent.code()
                silent.ws.transport.pause_reading()
                stopping = asyncio.create_task(asyncio.to_thread(server.stop))
                for device in (mounted, listening, waiting):
                    assert (await device.closed(30))[0] == 1001
                await stopping
        for url in (server.url, server.mount):
            parts = urlsplit(url)
            with socket.socket() as sock:
                assert sock.connect_ex((parts.hostname, parts.port)) != 0

    asyncio.run(work())
    assert "did not stop cleanly" not in server.log.read_text()
