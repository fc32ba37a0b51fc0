"""A node of ``/ws/gateway`` that a test plays by hand: a key, a WebSocket, JSON, and nothing of this package."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
from typing import Any

import jwt
import websockets
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from .frames import PlayedSocket


class Key:
    """An Ed25519 key that signs challenges; every part of the JWT can be replaced."""

    def __init__(self) -> None:
        self.private = Ed25519PrivateKey.generate()
        raw = serialization.Encoding.Raw, serialization.PublicFormat.Raw
        self.public = self.private.public_key().public_bytes(*raw)
        x = base64.urlsafe_b64encode(self.public).rstrip(b"=").decode()
        self.jwk = {"kty": "OKP", "crv": "Ed25519", "x": x}
        canonical = json.dumps(self.jwk, sort_keys=True, separators=(",", ":"))
        self.kid = base64.urlsafe_b64encode(hashlib.sha256(canonical.encode()).digest()).rstrip(b"=").decode()

    def claims(self, challenge: dict[str, Any]) -> dict[str, Any]:
        return {"aud": challenge["aud"], "nonce": challenge["nonce"], "exp": challenge["ts"] / 1000 + 60}

    def sign(
        self,
        challenge: dict[str, Any],
        header: dict[str, Any] | None = None,
        key: Any = None,
        alg: str = "EdDSA",
        **claims: Any,
    ) -> str:
        """Return a JWT; ``header`` and ``claims`` are merged over what is right (None leaves a member out)."""
        body = {**self.claims(challenge), **claims}
        head = {"jwk": self.jwk, "kid": self.kid, **(header or {})}
        return jwt.encode(
            {name: value for name, value in body.items() if value is not None},
            self.private if key is None else key,
            algorithm=alg,
            headers={name: value for name, value in head.items() if value is not None},
        )


class KeyedNode(PlayedSocket):
    """One connection. Use as ``async with KeyedNode(url, "LabPC") as node``: it has sent ``connect`` then."""

    def __init__(
        self,
        url: str,
        name: str = "LabPC",
        key: Key | None = None,
        *,
        role: str = "app",
        features: Any = None,
        **node: Any,
    ) -> None:
        self.url = url
        self.key = key or Key()
        self.node: dict[str, Any] = {"name": name, "platform": "test", "capabilities": [{"name": "echo"}], **node}
        self.connect: dict[str, Any] = {"type": "connect", "role": role, "node": self.node}
        if features is not None:
            self.connect["features"] = features
        self.headers: dict[str, str] = {}
        self.node_id = ""
        self.hello: dict[str, Any] = {}
        self.challenge: dict[str, Any] = {}

    async def open(self) -> KeyedNode:
        """Open the socket alone."""
        self.ws = await websockets.connect(
            self.url, compression=None, max_size=None, ping_interval=None, additional_headers=self.headers
        )
        return self

    async def ask(self) -> dict[str, Any]:
        """Ask for a challenge."""
        await self.send({"type": "connect.challenge"})
        self.challenge = await self.recv("challenge")
        return self.challenge

    async def __aenter__(self) -> KeyedNode:
        await self.open()
        challenge = await self.ask()
        await self.send({**self.connect, "jwt": self.key.sign(challenge)})
        return self

    async def __aexit__(self, *_: Any) -> None:
        await self.ws.close()

    async def joined(self) -> dict[str, Any]:
        """Wait for ``hello-ok`` and remember the id."""
        self.hello = await self.recv("hello-ok")
        self.node_id = self.hello.get("node_id", "")
        return self.hello

    async def refusal(self, seconds: float = 10.0) -> tuple[str, int]:
        """Return the code of the next ``error``, and the close code that follows."""
        error = await self.recv("error", seconds)
        return error["code"], (await self.closed(seconds))[0]


def multinode_url(gateway: Any) -> str:
    return str(gateway.url).replace("http", "ws", 1) + "/ws/gateway"


async def admit(gateway: Any, node: KeyedNode) -> KeyedNode:
    """Approve a node that has just connected."""
    await gateway.approve(await node.code())
    await node.joined()
    return node


def answering(node: KeyedNode) -> asyncio.Task[None]:
    """Answer every call with its parameters, in the background."""

    async def work() -> None:
        async for text in node.ws:
            frame = json.loads(text)
            if frame["type"] == "node.invoke.request":
                await node.send(
                    {"type": "node.invoke.result", "id": frame["id"], "ok": True, "result": frame["params"]}
                )

    return asyncio.create_task(work())
