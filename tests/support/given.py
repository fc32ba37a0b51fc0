"""Grants as they come about over the routes, and a server that gives one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from .gateways import Addresses
from .raw_server import whole


async def grant(gateway: Addresses, name: str = "Lab", address: str = "", **terms: Any) -> tuple[str, str]:
    """Have another gateway ask for control, and approve it; returns the grant's id and token."""
    async with gateway.http(headers={}) as stranger, gateway.http() as http:
        body = {"controller_name": name, "controller_addr": address}
        asked = (await stranger.post("/nodes/grant-request", json=body)).json()
        approved = await http.post(f"/nodes/grants/{asked['request_id']}/approve", json=terms)
        assert approved.status_code == 200, approved.text
        status = (await stranger.get(f"/nodes/grant-status/{asked['request_id']}")).json()
        return str(approved.json()["device_id"]), str(status["token"])


def playing_suzent(rest: Callable[[bytes, asyncio.StreamWriter], Awaitable[None]]) -> Any:
    """Play a gateway that grants control to whoever asks, and does with everything else what ``rest`` does."""

    async def play(head: bytes, writer: asyncio.StreamWriter) -> None:
        answers: dict[bytes, dict[str, Any]] = {
            b"POST /nodes/grant-request ": {"request_id": "r", "status": "pending"},
            b"GET /nodes/grant-status/r ": {"status": "approved", "token": "szt_given", "node_identity": "them"},
            b"GET /channels/suzent/whoami ": {"ok": True, "peer_id": "us"},
        }
        for start, body in answers.items():
            if head.startswith(start):
                writer.write(whole("200 OK", json.dumps(body).encode()))
                return
        await rest(head, writer)

    return play
