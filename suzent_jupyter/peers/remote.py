"""Another gateway, or a Suzent server, as this one calls it: one method for each of its routes that concern us."""

from __future__ import annotations

import asyncio
import hmac
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

from ..protocol.capabilities import read_capabilities
from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from ..protocol.peers import PeerCapability, grant_proof
from ..protocol.text import clean_text
from .answers import object_of, refusal
from .http import Answer, PeerHttp
from .tokens import checked_token

_LARGE = 256 * 1024  # bytes; more is read in a thread
_NODES = 256
_ID_CHARS = 256
_SMALL_ANSWER = 64 * 1024


@dataclass(frozen=True, slots=True)
class Asked:
    """A control request as the other side took it."""

    request_id: str
    code: str
    expires_at: str


@dataclass(frozen=True, slots=True)
class Decision:
    """How a control request stands there; ``token`` comes once."""

    status: Literal["pending", "approved", "denied", "expired"]
    token: str | None = field(default=None, repr=False)
    node_identity: str = ""


@dataclass(frozen=True, slots=True)
class Standing:
    """What a peer says of our token: ``ready`` with our grant's id, ``revoked``, or that it is ``offline``."""

    status: Literal["ready", "revoked", "offline"]
    device_id: str = ""


class RemoteGateway:
    """One other gateway.

    Parameters
    ----------
    http : PeerHttp
        What calls it.
    limits : Limits
        The numbers in force here.
    base_url : str
        Where it is.
    token : str, optional
        The one it gave us.
    pin : str, optional
        The key it must show, when it was just named.
    only_hosts : iterable of str, optional
        For an address that somebody gave: where it may lead.
    """

    def __init__(
        self,
        http: PeerHttp,
        limits: Limits,
        base_url: str,
        token: str | None = None,
        *,
        pin: str | None = None,
        only_hosts: Iterable[str] | None = None,
    ) -> None:
        self._http = http
        self._limits = limits
        self._base = base_url
        self._token = token
        self._pin = pin
        self._only_hosts = list(only_hosts) if only_hosts is not None else None

    async def request_control(self, name: str, address: str, identity: str) -> Asked:
        """Ask for control."""
        body = {"controller_name": name, "controller_addr": address, "controller_identity": identity}
        found = await self._object("POST", "/nodes/grant-request", body)
        request_id = found.get("request_id")
        if not isinstance(request_id, str) or not 0 < len(request_id) <= _ID_CHARS or not request_id.isprintable():
            raise SuzentError("bad_peer_answer", f"{self._base} took the request and gave it no id.")
        return Asked(request_id, clean_text(found.get("code"), 32), clean_text(found.get("expires_at"), 64))

    async def decision(self, request_id: str) -> Decision:
        """Ask how that stands."""
        url = f"{self._base}/nodes/grant-status/{quote(request_id, safe='')}"
        answer = await self._ask("GET", url)
        if answer.status == 404:
            return Decision("expired")
        found = object_of(url, answer)
        match found.get("status"):
            case "approved":
                identity = clean_text(found.get("node_identity"), _ID_CHARS)
                return Decision("approved", checked_token(found.get("token")), identity)
            case "denied":
                return Decision("denied")
            case "expired":
                return Decision("expired")
        return Decision("pending")

    async def standing(self) -> Standing:
        """Ask whether our token still holds; never fails."""
        url = f"{self._base}/channels/suzent/whoami"
        try:
            answer = await self._ask("GET", url, seconds=self._limits.callback_timeout)
            if answer.status in (401, 403):
                return Standing("revoked")
            device_id = object_of(url, answer).get("peer_id")
        except SuzentError:
            return Standing("offline")
        return Standing("ready", clean_text(device_id, _ID_CHARS)) if device_id else Standing("revoked")

    async def capabilities(self) -> list[PeerCapability]:
        """Return what its nodes can do, cleaned."""
        found = await self._object("GET", "/nodes", large=True)
        return await asyncio.to_thread(_capabilities, found.get("nodes"), self._limits)

    async def check_node(self, name: str, node: str, command: str) -> None:
        """Make sure that a call of one node gets there: a Suzent server calls the first that has the command, always.

        Parameters
        ----------
        name : str
            What the peer is called in errors.
        node : str
            The node's name or id.

        Raises
        ------
        SuzentError
            ``peer_refused`` when the call would reach another node.
        """
        found = await self._object("GET", "/nodes", large=True)
        nodes = [each for each in _list(found.get("nodes"))[:_NODES] if isinstance(each, dict)]
        if any("features" in each for each in nodes):
            return  # a gateway of ours, which is told the node
        for each in nodes:
            if any(isinstance(item, dict) and item.get("name") == command for item in _list(each.get("capabilities"))):
                called = clean_text(each.get("display_name"), int(self._limits.name_chars))
                if node == each.get("node_id") or node.casefold() == called.casefold():
                    return
                raise SuzentError(
                    "peer_refused",
                    f"{name} takes no choice of device: it would call {command} on '{called}'.",
                    hint="Leave the device out to call that one.",
                )

    async def invoke(self, name: str, body: dict[str, Any], seconds: float, margin: float) -> dict[str, Any]:
        """Call a command of one of its nodes.

        Parameters
        ----------
        name : str
            What the peer is called in errors.
        seconds, margin : float
            What the call was given, and how much longer the peer may take to say that it took too long.

        Raises
        ------
        SuzentError
            ``deadline`` when there is no answer in time, or what the peer refused with.
        """
        url = f"{self._base}/nodes/peer-invoke"
        try:
            async with asyncio.timeout(seconds + margin) as deadline:
                answer = await self._ask("POST", url, body, seconds=seconds + margin + 1, large=True)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise SuzentError("deadline", f"{name} gave no result within {seconds:g} s.") from None
        if answer.status >= 400:
            raise refusal(url, answer.status, answer.content, name)
        return await _read(url, answer)

    async def offer(self, name: str, address: str, token: str, pin: str) -> bool:
        """Give it control of this gateway; False where it keeps a grant of ours that it holds already."""
        body = {"name": name, "base_url": address, "token": token}
        if pin:
            body["pin"] = pin
        answer = await self._object("POST", "/nodes/peer-offer", body)
        return answer.get("taken") is not False  # a Suzent server takes every one, and does not say so

    async def say_changed(self, address: str) -> None:
        """Tell it to look again whether our grants hold, and where we are reached now."""
        body = {"base_url": address} if address else {}
        await self._object("POST", "/channels/suzent/grant-changed", body, seconds=self._limits.callback_timeout)

    async def proves(self, device_id: str, digest: bytes) -> bool:
        """Tell whether it is the gateway that issued the token of this digest, without showing it the token."""
        nonce = secrets.token_urlsafe(24)
        body = {"device_id": device_id, "nonce": nonce, "base_url": self._base}
        try:
            found = await self._object("POST", "/channels/suzent/prove", body, seconds=self._limits.callback_timeout)
        except SuzentError:
            return False
        proof = found.get("proof")
        expected = grant_proof(digest, nonce, self._base)
        return isinstance(proof, str) and hmac.compare_digest(proof.encode(), expected.encode())

    async def _object(
        self, method: str, path: str, body: Any = None, *, seconds: float | None = None, large: bool = False
    ) -> dict[str, Any]:
        url = self._base + path
        return await _read(url, await self._ask(method, url, body, seconds=seconds, large=large))

    async def _ask(
        self, method: str, url: str, body: Any = None, *, seconds: float | None = None, large: bool = False
    ) -> Answer:
        return await self._http.request(
            method,
            url,
            token=self._token,
            json=body,
            timeout=seconds,
            max_bytes=None if large else _SMALL_ANSWER,
            only_hosts=self._only_hosts,
            pin=self._pin,
        )


async def _read(url: str, answer: Answer) -> dict[str, Any]:
    if len(answer.content) > _LARGE:
        return await asyncio.to_thread(object_of, url, answer)
    return object_of(url, answer)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _capabilities(nodes: Any, limits: Limits) -> list[PeerCapability]:
    found: list[PeerCapability] = []
    for node in _list(nodes)[:_NODES]:
        if not isinstance(node, dict):
            continue
        name = clean_text(node.get("display_name"), int(limits.name_chars))
        capabilities, _ = read_capabilities(node.get("capabilities"), limits)
        found += [PeerCapability(**each.model_dump(), node=name) for each in capabilities]
    return found
