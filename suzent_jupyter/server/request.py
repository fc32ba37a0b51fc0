"""What an endpoint gets and gives: the same for both mounts, and without a word of Tornado."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..gateway import Gateway, Principal
from ..protocol.errors import SuzentError
from ..protocol.wire import decode

if TYPE_CHECKING:
    from pydantic import BaseModel

    from .service import GatewayService

Model = TypeVar("Model", bound="BaseModel")


class Sender(Protocol):
    """Whoever sent a request, for the routes that find out by themselves who that is."""

    async def principal_of(self, token: str) -> Principal:
        """Return whom a token stands for; ``unauthorized`` or ``too_many_attempts`` if nobody. That counts."""

    def take_note(self) -> None:
        """Take note that the request's connection is no stranger's: its answer may take long."""


@dataclass(frozen=True, slots=True)
class Page:
    """An answer for people: sent as it is, with headers of its own."""

    content: bytes
    media_type: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer with a status of its own, such as 202."""

    body: BaseModel
    status: int


@dataclass(slots=True)
class Request:
    """One authorised request.

    Attributes
    ----------
    service : GatewayService
        The running gateway and its listener.
    principal : Principal
        Who asks.
    path : dict of str to str
        The named parts of the URL, decoded.
    query : dict of str to str
        Last value of each query argument.
    body : bytes
        As it came.
    waits_for : asyncio.Future, optional
        What is cancelled when the caller hangs up. Anything else goes on: a change half made would be worse.
    scheme, host, place : str
        Where it came to: ``http`` or ``https``, the ``Host`` header as it was sent, and the path likewise.
    mount_url : str
        The Jupyter mount as the caller sees it, ``""`` on the listener.
    may_write : callable, optional
        Asks whether the caller may also change things; None where every caller may.
    headers : mapping
        The request's headers, names in any case.
    remote : str
        Address of the caller.
    sender : Sender, optional
        Answers for routes of authority none.
    pieces : AsyncIterator of bytes, optional
        The body of a route that takes it as it comes; None where all of it is in ``body``.
    """

    service: GatewayService
    principal: Principal
    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    waits_for: asyncio.Future[Any] | None = None
    scheme: str = "http"
    host: str = ""
    place: str = ""
    mount_url: str = ""
    may_write: Callable[[], Awaitable[bool]] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    remote: str = ""
    sender: Sender | None = None
    pieces: AsyncIterator[bytes] | None = None

    @property
    def gateway(self) -> Gateway:
        """The gateway."""
        return self.service.gateway

    def json_object(self) -> dict[str, Any]:
        """Return the body as a JSON object; an empty body is ``{}``.

        Raises
        ------
        SuzentError
            ``bad_json``, or ``invalid_request`` for JSON that is no object.
        """
        if not self.body.strip():
            return {}
        value = decode(self.body)
        if not isinstance(value, dict):
            raise SuzentError("invalid_request", "The body must be a JSON object.")
        return value

    def model(self, kind: type[Model]) -> Model:
        """Return the body as a model; ``invalid_request`` names the first field that is wrong."""
        from pydantic import ValidationError

        try:
            return kind.model_validate(self.json_object())
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"]) or "body"
            raise SuzentError("invalid_request", f"`{place}`: {first['msg']}.") from None

    def seconds(self, name: str, default: float) -> float:
        """Return a query argument as seconds greater than 0; ``invalid_request`` otherwise."""
        text = self.query.get(name, str(default))
        try:
            value = float(text) if text.isascii() and len(text) <= 32 else 0.0
        except ValueError:
            value = 0.0
        if not 0 < value < float("inf"):
            raise SuzentError("invalid_request", f"`{name}` must be a number of seconds greater than 0.")
        return value

    def number(self, name: str, default: int | None, low: int, high: int) -> int | None:
        """Return a query argument as a whole number between ``low`` and ``high``; ``invalid_request`` otherwise."""
        text = self.query.get(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 18 or not low <= int(text) <= high:
            raise SuzentError("invalid_request", f"`{name}` must be a whole number from {low} to {high}.")
        return int(text)
