"""A gateway that joins others, as a test drives it."""

from __future__ import annotations

from typing import Any

from .gateways import ThreadedGateway
from .running import until


class Joiner:
    """A gateway as one that joins others, over its REST routes."""

    def __init__(self, gateway: ThreadedGateway) -> None:
        self.gateway = gateway

    async def ask(self, path: str, body: Any) -> Any:
        """Return the answer of a POST with its status under ``http``."""
        async with self.gateway.http() as http:
            answer = await http.post(path, json=body)
            return {"http": answer.status_code, **answer.json()}

    async def connect(self, url: str, **body: Any) -> Any:
        return await self.ask("/nodes/connect", {"gateway_url": url, **body})

    async def disconnect(self, url: str) -> Any:
        return await self.ask("/nodes/connect/stop", {"gateway_url": url})

    async def connections(self, **query: Any) -> list[dict[str, Any]]:
        async with self.gateway.http() as http:
            body = (await http.get("/nodes/connections", params=query)).json()
        assert body["count"] == len(body["connections"])
        return list(body["connections"])

    def now(self) -> list[dict[str, Any]]:
        """Return the connections without asking over HTTP, for conditions that are waited for."""
        principal = self.gateway.service.kernel_token._principal
        return [info.model_dump() for info in self.gateway.call(self.gateway.service.joining.list, principal)]

    async def reach(self, status: str, seconds: float = 15.0) -> dict[str, Any]:
        """Wait until the only connection has this status, and return it."""
        found: dict[str, Any] = await until(
            lambda: next((each for each in self.now() if each["status"] == status), None), seconds, status
        )
        return found
