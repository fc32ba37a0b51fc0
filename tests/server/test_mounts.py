"""The same routes under a real Jupyter server and on its listener."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest
import websockets
from support.device import BareDevice
from support.gateways import JupyterServer

StartJupyter = Callable[..., JupyterServer]


@pytest.mark.parametrize("base_url", ["/", "/user/a@b/"])
def test_both_mounts_serve_devices_and_callers(start_jupyter: StartJupyter, base_url: str) -> None:
    server = start_jupyter(base_url=base_url)
    assert server.mount == server.mount.rstrip("/")
    assert httpx.URL(server.mount).path.endswith(f"{base_url}suzent".replace("@", "%40")) or base_url in server.mount

    async def work() -> None:
        mount_ws = server.mount.replace("http", "ws", 1)
        async with (
            BareDevice(server.node_url, "OnListener") as one,
            BareDevice(f"{mount_ws}/ws/node", "OnMount") as two,
        ):
            for device in (one, two):
                await server.pair(device)
                device.answer()
            for base, headers in (
                (server.url, server.headers),
                (server.mount, server.headers),
                (server.mount, server.jupyter_headers),
            ):
                async with httpx.AsyncClient(headers=headers) as http:
                    listed = (await http.get(f"{base}/nodes")).json()
                    assert {node["display_name"] for node in listed["nodes"]} == {"OnListener", "OnMount"}
                    answer = await http.post(
                        f"{base}/nodes/OnMount/invoke", json={"command": "echo", "params": {"a": 1}}
                    )
                    assert answer.json() == {"success": True, "result": {"a": 1}, "error": None}
                async with websockets.connect(
                    f"{base.replace('http', 'ws', 1)}/ws/client", additional_headers=headers, compression=None
                ) as client:
                    assert '"hello"' in str(await client.recv())

    asyncio.run(work())


def test_jupyter_mount_refuses_strangers(start_jupyter: StartJupyter) -> None:
    server = start_jupyter(base_url="/user/ada/")

    async def work() -> None:
        async with httpx.AsyncClient() as http:
            nobody = await http.get(f"{server.mount}/nodes")
            assert (nobody.status_code, nobody.json()["code"]) == (401, "unauthorized")
            forged = await http.get(f"{server.mount}/nodes", headers={"X-Suzent-Token": "szt_forged"})
            assert forged.status_code == 401
            # A cookie never exempts from XSRF; our token does.
            login = await http.get(f"{server.mount.removesuffix('/suzent')}/lab?token={server.jupyter_token}")
            assert login.status_code in (200, 302, 404)
            crossed = await http.post(f"{server.mount}/nodes/host-token", json={})
            assert crossed.status_code == 403
            token = await http.post(f"{server.mount}/nodes/host-token", json={}, headers=server.headers)
            assert token.status_code == 200
        with pytest.raises(websockets.InvalidStatus) as refused:
            async with websockets.connect(
                f"{server.mount.replace('http', 'ws', 1)}/ws/client",
                additional_headers={**server.jupyter_headers, "Origin": "https://evil.example"},
            ):
                pass
        assert refused.value.response.status_code == 403
        with pytest.raises(websockets.InvalidStatus) as nobody_ws:
            async with websockets.connect(f"{server.mount.replace('http', 'ws', 1)}/ws/client"):
                pass
        assert nobody_ws.value.response.status_code == 401
        async with websockets.connect(
            f"{server.mount.replace('http', 'ws', 1)}/ws/client", additional_headers=server.headers
        ) as client:
            assert '"hello"' in str(await client.recv())

    asyncio.run(work())
