"""Calls over HTTP, as short as tests want them."""

from __future__ import annotations

from typing import Any

import httpx

from .device import BareDevice
from .gateways import Addresses


async def invoke(
    http: httpx.AsyncClient, node: str, command: str = "echo", params: Any = None, **fields: Any
) -> httpx.Response:
    """POST an invoke; ``fields`` are further fields of the body."""
    body = {"command": command, "params": {} if params is None else params, **fields}
    return await http.post(f"/nodes/{node}/invoke", json=body)


def error_of(answer: httpx.Response) -> tuple[int, str]:
    """Return status and code of a refusal, and hold it to the shape of every error body."""
    body = answer.json()
    assert set(body) >= {"error", "code", "hint", "retryable"}, body
    assert isinstance(body["error"], str)
    assert body["error"]
    assert isinstance(body["retryable"], bool)
    assert answer.headers["Content-Type"].startswith("application/json")
    assert "WWW-Authenticate" not in answer.headers
    assert answer.content.isascii()
    assert ("not found" in answer.text) == (body["code"] == "node_not_found"), body
    return answer.status_code, body["code"]


async def store_loaded(gateway: Addresses) -> None:
    """Wait until a gateway has read its store: devices that knock earlier wait for it."""
    async with BareDevice(gateway.node_url, "First") as device:
        await device.code()
