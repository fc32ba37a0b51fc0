"""Two gateways in this process, one of which controls the other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx

from .gateways import ThreadedGateway


async def ask(gateway: ThreadedGateway, method: str, path: str, **options: Any) -> httpx.Response:
    """Send one request with full authority."""
    async with gateway.http() as http:
        return await http.request(method, path, **options)


async def get(gateway: ThreadedGateway, path: str) -> Any:
    answer = await ask(gateway, "GET", path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def post(gateway: ThreadedGateway, path: str, body: Any = None) -> Any:
    answer = await ask(gateway, "POST", path, json=body if body is not None else {})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def peers(gateway: ThreadedGateway, *, refresh: bool = True) -> list[dict[str, Any]]:
    return list((await get(gateway, f"/nodes/peers?refresh={int(refresh)}"))["peers"])


@dataclass
class Link:
    """``controller`` drives ``target``; ``peer_id`` is the target's id there, ``device_id`` the grant's here."""

    controller: ThreadedGateway
    target: ThreadedGateway
    peer_id: str
    device_id: str

    async def peer(self, *, refresh: bool = True) -> dict[str, Any]:
        """Return the target as the controller shows it."""
        return next(each for each in await peers(self.controller, refresh=refresh) if each["peer_id"] == self.peer_id)

    async def becomes(self, seconds: float = 10.0, **wanted: Any) -> dict[str, Any]:
        """Wait until the controller shows the target like that, without asking it to look."""
        async with asyncio.timeout(seconds):
            while True:
                peer = await self.peer(refresh=False)
                if all(peer[name] == value for name, value in wanted.items()):
                    return peer
                await asyncio.sleep(0.02)


async def control(
    controller: ThreadedGateway, target: ThreadedGateway, *, address: str = "", name: str = "Lab", **terms: Any
) -> Link:
    """Ask for control, approve it over there, and wait until it is stored here."""
    asked = await post(controller, "/nodes/control", {"base_url": address or target.url, "name": name})
    assert asked["status"] == "pending", asked
    approved = await post(target, f"/nodes/grants/{asked['request_id']}/approve", terms)
    query = f"base_url={asked['base_url']}&request_id={asked['request_id']}"
    status = await get(controller, f"/nodes/control-status?{query}")
    assert status["status"] == "approved", status
    return Link(controller, target, status["peer_id"], approved["device_id"])


Make = Callable[..., ThreadedGateway]
