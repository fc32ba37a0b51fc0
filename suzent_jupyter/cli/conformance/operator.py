"""The operator's part of a check: approving, denying, revoking and invoking over REST."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import httpx

from .rules import Broken, Skipped, Unreachable
from .talk import Frame

_PATIENCE = 40.0  # seconds for one request; checks of deadlines use shorter ones of their own


def base_url_of(socket_url: str) -> str:
    """Return the REST base URL that belongs to a device socket: ``ws://host/x/ws/node`` → ``http://host/x``."""
    parts = urlsplit(socket_url)
    scheme = "https" if parts.scheme == "wss" else "http"
    return urlunsplit((scheme, parts.netloc, parts.path.removesuffix("/ws/node"), "", ""))


def own_token(base_url: str) -> str:
    """Return this user's token for a gateway: of ``SUZENT_BASE_URL`` or a running one, if that is the same gateway.

    Raises
    ------
    Unreachable
        When the URL is none.
    """
    from ...kernel.errors import NoGateway
    from ...kernel.locate import locate

    try:
        token = locate(base_url).token
    except NoGateway as error:
        raise Unreachable(str(error)) from None
    return token.reveal() if token is not None else ""


class Operator:
    """Calls the REST routes of a gateway with full authority."""

    def __init__(self, base_url: str, token: str) -> None:
        self.http = httpx.AsyncClient(
            base_url=base_url,
            headers={"Authorization": f"Bearer {token}"} if token else {},
            timeout=_PATIENCE,
            trust_env=False,  # neither proxies nor the token inside SUZENT_BASE_URL's relatives
        )

    async def ready(self) -> str:
        """Return why this operator can't act, or an empty text."""
        try:
            answer = await self.http.get("/nodes/pending")
        except httpx.HTTPError as error:
            return f"REST at {self.http.base_url} can't be reached ({type(error).__name__})"
        return "" if answer.status_code == 200 else f"GET /nodes/pending answers {answer.status_code}: give --token"

    async def list(self, path: str, field: str) -> list[Frame]:
        """Return a list such as ``/nodes/pending``."""
        body = (await self.http.get(path)).json()
        return [item for item in body[field] if isinstance(item, dict)]

    async def pending(self, code: str) -> Frame | None:
        """Return what waits under this code."""
        waiting = await self.list("/nodes/pending", "pending")
        return next((item for item in waiting if item.get("pairing_code") == code), None)

    async def settle(self, code: str, action: str = "approve") -> None:
        """Approve or deny a code."""
        answer = await self.http.post(f"/nodes/pending/{quote(code, safe='')}/{action}")
        if answer.status_code != 200 or answer.json().get("success") is not True:
            raise Broken(f"{action} of a waiting code answers {answer.status_code} {answer.text[:120]}")

    async def device(self, node_id: str) -> Frame:
        """Return the entry of a token in ``/nodes/devices``."""
        devices = await self.list("/nodes/devices", "devices")
        found = next((item for item in devices if item.get("device_id") == node_id), None)
        if found is None:
            raise Skipped("node_id is not a device_id here, so the device can't be found among the tokens")
        return found

    async def invoke(self, node: str, command: str, params: Any = None, **more: Any) -> httpx.Response:
        """Call a node."""
        body = {"command": command, "params": params or {}, **more}
        return await self.http.post(f"/nodes/{quote(node, safe='')}/invoke", json=body)

    def start(self, node: str, command: str, params: Any = None, **more: Any) -> asyncio.Task[httpx.Response]:
        """Call a node in the background."""
        return asyncio.create_task(self.invoke(node, command, params, **more))
