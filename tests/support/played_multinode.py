"""The gateway's side of ``/ws/gateway`` as a test plays it over a real socket; what it checks of a JWT is real."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from websockets.asyncio.server import ServerConnection, serve

from suzent_jupyter.cli.conformance.talk import Frame, Talk
from suzent_jupyter.protocol.keys import public_bytes, thumbprint
from suzent_jupyter.protocol.limits import Limits


class Visit(Talk):
    """One connection of an app node, its challenge answered.

    Attributes
    ----------
    key : str
        The thumbprint of the key that signed.
    claims, headers : dict
        Of the JWT, whose signature was verified.
    """

    key = ""
    claims: dict[str, Any]
    headers: dict[str, Any]

    def __init__(self, socket: ServerConnection, gateway: PlayedMultinode) -> None:
        super().__init__(socket)
        self._gateway = gateway

    @property
    def connect(self) -> Frame:
        """The frame ``connect``."""
        return next(frame for frame in self.frames if frame.get("type") == "connect")

    async def handshake(self) -> None:
        await self.next("connect.challenge")
        self.ts = int((time.time() + self._gateway.clock) * 1000)
        self.nonce = secrets.token_urlsafe(24)
        await self.send({"type": "challenge", "nonce": self.nonce, "ts": self.ts, "aud": self._gateway.identity})
        token = (await self.next("connect"))["jwt"]
        self.headers = jwt.get_unverified_header(token)
        public = public_bytes(self.headers["jwk"])
        self.key = thumbprint(public)
        self.claims = jwt.decode(
            token,
            Ed25519PublicKey.from_public_bytes(public),
            algorithms=["EdDSA"],
            audience=self._gateway.identity,
            options={"verify_exp": False},  # by this clock below, not by the machine's
        )
        assert self.headers["kid"] == self.key and self.claims["nonce"] == self.nonce
        assert self.ts / 1000 < self.claims["exp"] <= self.ts / 1000 + 60

    async def welcome(self, *, tick: float = 30.0, **more: Any) -> None:
        """Say ``hello-ok``; ``tick`` is in seconds."""
        policy = {
            "tick_interval_ms": int(tick * 1000),
            "max_payload": Limits().frame_bytes,
            "run_ttl_ms": 600_000,
            "delta_throttle_ms": 150,
        }
        frame = {"type": "hello-ok", "node_id": "node-1", "account": "ada", "org": "", "protocol": 1, "policy": policy}
        await self.send({**frame, "approved": [], "pending_approval": [], **more})

    async def invoke(self, **fields: Any) -> Frame:
        """Send a ``node.invoke.request`` and return its result."""
        call_id = fields.pop("id", None) or secrets.token_hex(8)
        await self.send({"type": "node.invoke.request", "id": call_id, "node_id": "node-1", **fields})
        return await self.wait_for(
            lambda frame: frame.get("type") == "node.invoke.result" and frame.get("id") == call_id
        )

    async def chat(self, run_id: str, message: str, **fields: Any) -> None:
        """Send a ``chat.run``."""
        await self.send(
            {"type": "chat.run", "run_id": run_id, "session_id": "s1", "message": message, "attachments": [],
             "caller": {"kind": "user", "name": "ada"}, "is_remote_session": False, **fields}
        )  # fmt: skip

    def events(self, run_id: str) -> list[Frame]:
        """Return the events of a run so far; fail where one is missing or doubled."""
        found = [frame for frame in self.frames if frame.get("type") == "chat.event" and frame.get("run_id") == run_id]
        assert [frame["seq"] for frame in found] == list(range(len(found)))
        return [frame["event"] for frame in found]

    async def ended_run(self, run_id: str) -> list[Frame]:
        """Return all events of a run once it is over."""
        await self.wait_for(
            lambda frame: (
                frame.get("run_id") == run_id and frame.get("event", {}).get("type") in ("RUN_FINISHED", "RUN_ERROR")
            )
        )
        return self.events(run_id)


class PlayedMultinode:
    """Waits for app nodes.

    Attributes
    ----------
    identity : str
        Its own, which nodes must sign for.
    clock : float
        Seconds its clock is ahead.
    """

    def __init__(self) -> None:
        self.url = ""
        self.identity = "gateway-" + "a" * 32
        self.clock = 0.0
        self.attempts = 0
        self._visits: asyncio.Queue[Visit] = asyncio.Queue()

    async def visit(self, seconds: float = 10.0) -> Visit:
        """Return the next connection whose JWT was sound."""
        async with asyncio.timeout(seconds):
            return await self._visits.get()

    async def serve(self, socket: ServerConnection) -> None:
        assert socket.request is not None and socket.request.path == "/ws/gateway"
        self.attempts += 1
        visit = Visit(socket, self)
        with contextlib.suppress(TimeoutError, ConnectionError):
            await visit.handshake()
            self._visits.put_nowait(visit)
        await visit.ended(seconds=24 * 3600)


@contextlib.asynccontextmanager
async def played_multinode(port: int = 0) -> AsyncIterator[PlayedMultinode]:
    """Run a :class:`PlayedMultinode` on a port of this machine (0: any free one)."""
    gateway = PlayedMultinode()
    async with serve(
        gateway.serve, "127.0.0.1", port, compression=None, max_size=2**25, ping_interval=None, close_timeout=1
    ) as server:
        gateway.url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/ws/gateway"
        yield gateway
