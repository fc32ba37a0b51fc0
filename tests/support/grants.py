"""Control grants as another gateway gets them: asked for over HTTP, approved by the operator, fetched."""

from __future__ import annotations

from typing import Any

import httpx

from .gateways import Addresses, ThreadedGateway


def asks(name: str = "Lab", addr: str = "http://192.0.2.7:25314", identity: str = "id-of-lab") -> dict[str, str]:
    """Return the body of a control request as Suzent sends it."""
    return {"controller_name": name, "controller_addr": addr, "controller_identity": identity}


def stranger(gateway: Addresses, **options: Any) -> httpx.AsyncClient:
    """Return a client without a token; use as ``async with``."""
    return gateway.http(headers={}, **options)


def bearer(token: str) -> dict[str, str]:
    """Return the headers of a token's holder."""
    return {"Authorization": f"Bearer {token}"}


def holder(gateway: Addresses, token: str) -> httpx.AsyncClient:
    """Return a client with a token; use as ``async with``."""
    return gateway.http(headers=bearer(token))


async def ask(gateway: Addresses, **body: Any) -> dict[str, Any]:
    """Ask for control; return the answer."""
    async with stranger(gateway) as http:
        answer = await http.post("/nodes/grant-request", json=asks(**body))
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


async def status(gateway: Addresses, request_id: str) -> dict[str, Any]:
    """Ask how a request stands; return the answer, ``{"status": "expired"}`` for 404 as Suzent reads it."""
    async with stranger(gateway) as http:
        answer = await http.get(f"/nodes/grant-status/{request_id}")
        if answer.status_code == 404:
            return {"status": "expired"}
        assert answer.status_code == 200, answer.text
        return dict(answer.json())


async def granted(gateway: Addresses, terms: dict[str, Any] | None = None, **body: Any) -> tuple[str, str]:
    """Ask, approve and fetch; return the grant's id and its token."""
    asked = await ask(gateway, **body)
    async with gateway.http() as http:
        answer = await http.post(f"/nodes/grants/{asked['request_id']}/approve", json=terms or {})
        assert answer.status_code == 200, answer.text
    return str(answer.json()["device_id"]), str((await status(gateway, asked["request_id"]))["token"])


async def grant(
    gateway: Addresses, name: str = "Lab", *, addr: str = "", identity: str = "", **terms: Any
) -> tuple[str, dict[str, str]]:
    """Make a grant of nobody in particular; return its id, and the headers of its holder."""
    device_id, token = await granted(gateway, terms, name=name, addr=addr, identity=identity)
    return device_id, bearer(token)


async def device_of(gateway: Addresses, device_id: str) -> dict[str, Any] | None:
    """Return a token as the operator sees it, None if there is none of that id."""
    async with gateway.http() as http:
        devices = (await http.get("/nodes/devices")).json()["devices"]
    return next((dict(each) for each in devices if each["device_id"] == device_id), None)


def departures(gateway: ThreadedGateway) -> list[tuple[str, str]]:
    """Return the list to which the gateway's departures are added from now on: (device id, how)."""
    heard: list[tuple[str, str]] = []
    gateway.service.gateway.departures.append(lambda device, how: heard.append((device.device_id, how)))
    return heard
