"""The one HTTP client for other gateways: bounded in time and bytes, never redirected, and sure of whom it talks to.

It goes straight to the peer and past every proxy that the environment names. Peers stand on this machine, the local
network or a tailnet, where a proxy has no way in; it would also be handed the peer's token over plain HTTP, and resolve
names itself, so that no check of an address holds. Where a peer is reached through a proxy alone, name an address that
leads there directly, such as its tailnet's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from http.cookiejar import CookieJar, DefaultCookiePolicy
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from ..node.pin import Trust, is_secure, origin
from ..protocol.address import in_url
from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from ..protocol.text import clean_text
from ..protocol.tls_trouble import tls_trouble
from ..protocol.wire import encode
from .callback import target_of

if TYPE_CHECKING:
    import httpx

    from ..node import TokenVault

_CLIENTS = 256  # each TLS peer has one of its own, for the key it must show
_PLAIN = ""
_calling: ContextVar[bool] = ContextVar("calling a peer", default=False)


class Answer(NamedTuple):
    """What a peer answered."""

    status: int
    headers: Mapping[str, str]
    content: bytes


class PeerHttp:
    """Calls other gateways. Use it on the gateway's event loop; what blocks, it does in threads.

    Parameters
    ----------
    limits : Limits
        ``peer_timeout`` and ``peer_answer_bytes`` hold where a call names no others.
    vault : TokenVault
        Where the keys of peers are kept that were learned from pairing links.
    """

    def __init__(self, limits: Limits, vault: TokenVault) -> None:
        self._limits = limits
        self._vault = vault
        self._clients: OrderedDict[str, tuple[Trust | None, httpx.AsyncClient]] = OrderedDict()
        self._making = asyncio.Lock()
        self._closing: set[asyncio.Task[None]] = set()
        self._working: set[asyncio.Task[None]] = set()

    async def request(
        self,
        method: str,
        url: str,
        *,
        token: str | None = None,
        json: Any = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpx's own would start anew with every byte
        max_bytes: int | None = None,
        only_hosts: Iterable[str] | None = None,
        pin: str | None = None,
    ) -> Answer:
        """Send one request and read its answer.

        Parameters
        ----------
        method, url : str
            Of the whole URL, path and query included.
        token : str, optional
            Sent as a bearer.
        json : object, optional
            Sent as the body.
        timeout : float, optional
            Seconds for all of it, from looking up the name to the last byte.
        max_bytes : int, optional
            A longer answer is not read on.
        only_hosts : iterable of str, optional
            For an address that somebody gave: the hosts it may lead to (see :mod:`.callback`). None for one that the
            operator typed, which may lead anywhere.
        pin : str, optional
            The key to expect from now on, out of a pairing link.

        Returns
        -------
        Answer
            ``(status, headers, content)``, of any status but a redirect.

        Raises
        ------
        SuzentError
            ``peer_unreachable`` when nothing answers in time or TLS finds somebody else there, ``bad_peer_answer`` for
            redirects and for what is too long or no HTTP, ``address_refused`` by ``only_hosts``.
        """
        most = self._limits.peer_answer_bytes if max_bytes is None else max_bytes
        seconds = self._limits.peer_timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(seconds) as deadline:
                opened = self._open(method, url, token, json, only_hosts, pin)
                async with opened as response:
                    content = await _read(url, response, most)
                    return Answer(response.status_code, response.headers, content)
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise _silent(url, seconds) from error

    @contextlib.asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        token: str | None = None,
        json: Any = None,
        connect_timeout: float | None = None,
        only_hosts: Iterable[str] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        """Send one request and hand over its answer as it comes; how much of it is read is for the caller to bound.

        ``connect_timeout`` is in seconds, until the answer's headers are there; nothing bounds the time after them.
        ``headers`` are sent beside our own.
        Raises as :meth:`request`, also while the answer is read.
        """
        seconds = self._limits.peer_timeout if connect_timeout is None else connect_timeout
        opened = self._open(method, url, token, json, only_hosts, None, headers)
        async with contextlib.AsyncExitStack() as stack:
            try:
                async with asyncio.timeout(seconds) as deadline:
                    response = await stack.enter_async_context(opened)
            except TimeoutError as error:
                if not deadline.expired():
                    raise
                raise _silent(url, seconds) from error
            yield response

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Do what nobody waits for; :meth:`close` ends it."""
        task = asyncio.get_running_loop().create_task(work)
        self._working.add(task)
        task.add_done_callback(self._working.discard)

    async def close(self) -> None:
        """Close kept connections."""
        for task in (working := list(self._working)):
            task.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        clients, self._clients = list(self._clients.values()), OrderedDict()
        for _, client in clients:
            await client.aclose()

    # -- one request

    @contextlib.asynccontextmanager
    async def _open(
        self,
        method: str,
        url: str,
        token: str | None,
        json: Any,
        only_hosts: Iterable[str] | None,
        pin: str | None,
        extra: Mapping[str, str] | None = None,
    ) -> AsyncIterator[httpx.Response]:
        headers = {**(extra or {}), "Accept-Encoding": "identity"}  # a small answer must not unpack into a large one
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        extensions: dict[str, Any] = {}
        called = url
        if only_hosts is not None:
            called = await _checked(url, only_hosts, headers, extensions)
        content = None
        if json is not None:
            headers["Content-Type"] = "application/json"
            content = encode(json)
        made = await self._client(url, pin)
        import httpx

        trust, client = made
        try:
            try:
                response = await _send(client, method, called, headers, extensions, content)
            except (httpx.InvalidURL, UnicodeError, OSError) as error:
                raise _trouble(url, error) from None
            try:
                if trust is not None and trust.is_news:
                    await asyncio.to_thread(trust.proved)
                    self._keep(origin(url), made)
                _check_head(url, response)
                yield response
            finally:
                await response.aclose()
        except (httpx.TransportError, httpx.StreamError) as error:
            raise _trouble(url, error) from None
        finally:
            if made not in self._clients.values():
                await client.aclose()  # it was made for a key that did not prove right

    async def _client(self, url: str, pin: str | None) -> tuple[Trust | None, httpx.AsyncClient]:
        """Return the client for a URL. Made in a thread: importing httpx and loading authorities takes a while."""
        key = origin(url) if is_secure(url) else _PLAIN
        if not key:
            pin = None
        async with self._making:
            if pin is None and key in self._clients:
                self._clients.move_to_end(key)
                return self._clients[key]
            await asyncio.to_thread(_load)
            trust = Trust(url, pin, self._vault) if key else None
            made = trust, await asyncio.to_thread(_make_client, trust)
            if pin is None:  # a named key takes the place of a known one when it is proved
                self._keep(key, made)
            return made

    def _keep(self, key: str, made: tuple[Trust | None, httpx.AsyncClient]) -> None:
        gone = [self._clients.pop(key)] if key in self._clients else []
        self._clients[key] = made
        while len(self._clients) > _CLIENTS:
            gone.append(self._clients.pop(next(each for each in self._clients if each != _PLAIN)))
        for _, client in gone:
            task = asyncio.get_running_loop().create_task(client.aclose())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _load() -> None:
    import_module("httpx")
    logger = logging.getLogger("httpx")
    if _not_ours not in logger.filters:
        logger.addFilter(_not_ours)


def _not_ours(_record: logging.LogRecord) -> bool:
    """Keep httpx from logging our URLs: the id of a control request is the secret its token is fetched with."""
    return not _calling.get()


def _make_client(trust: Trust | None) -> httpx.AsyncClient:
    import httpx

    context = trust.context() if trust is not None else None
    return httpx.AsyncClient(
        verify=False if context is None else context,
        follow_redirects=False,
        trust_env=False,
        timeout=None,  # noqa: S113 - each call has one deadline over all of it
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=10.0),
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
    )


async def _send(
    client: httpx.AsyncClient,
    method: str,
    url: str,
    headers: dict[str, str],
    extensions: dict[str, Any],
    content: bytes | None,
) -> httpx.Response:
    calling = _calling.set(True)
    try:
        request = client.build_request(method, url, content=content, headers=headers, extensions=extensions)
        return await client.send(request, stream=True)
    finally:
        _calling.reset(calling)


async def _checked(url: str, only_hosts: Iterable[str], headers: dict[str, str], extensions: dict[str, Any]) -> str:
    """Return the URL with the address that was checked in the place of its host, and say the name beside it."""
    query = urlsplit(url).query
    bare = url.partition("?")[0] if query else url
    target = await target_of(bare, only_hosts)
    parts = urlsplit(target.url)
    if target.address == parts.hostname:
        return urlunsplit((*parts[:3], query, ""))
    netloc = in_url(target.address.replace("%", "%25", 1))
    if parts.port:
        netloc += f":{parts.port}"
    headers["Host"] = parts.netloc
    extensions["sni_hostname"] = parts.hostname
    return urlunsplit((parts.scheme, netloc, parts.path, query, ""))


def _check_head(url: str, response: httpx.Response) -> None:
    if 300 <= response.status_code < 400:
        # Its token must not go where a stranger's answer points.
        raise SuzentError(
            "bad_peer_answer",
            f"{place(url)} sends us elsewhere ({response.status_code}), which is not followed.",
            hint="Give the address it is reached at directly; behind Jupyter it ends in /suzent.",
        )
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise SuzentError("bad_peer_answer", f"{place(url)} packs its answer, which was not asked for.")


def announced_size(response: httpx.Response) -> int | None:
    """Return the bytes an answer says it has; None where it does not say."""
    said = response.headers.get("content-length", "")
    return int(said[:20]) if said.isascii() and said.isdigit() else None  # cut, it is still too much for anybody


async def _read(url: str, response: httpx.Response, most: int) -> bytes:
    size, pieces = 0, []
    if (announced_size(response) or 0) > most:
        raise _too_long(url, most)
    async for piece in response.aiter_raw():
        size += len(piece)
        if size > most:
            raise _too_long(url, most)
        pieces.append(piece)
    return b"".join(pieces)


def place(url: str) -> str:
    """Return where a URL leads, as people are shown it: without path and query, in which secrets may stand."""
    parts = urlsplit(url)
    return clean_text(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", 200)


def _silent(url: str, seconds: float) -> SuzentError:
    return SuzentError("peer_unreachable", f"{place(url)} did not answer within {seconds:g} s.")


def _too_long(url: str, most: int) -> SuzentError:
    return SuzentError("bad_peer_answer", f"{place(url)} answers with more than {most:,} bytes.")


def _trouble(url: str, error: Exception) -> SuzentError:
    import httpx

    trouble = tls_trouble(error, place(url))
    if trouble is not None and trouble.problem != "hung_up":
        return SuzentError("peer_unreachable", trouble.message, hint=trouble.hint)
    if isinstance(error, httpx.RemoteProtocolError):
        if "without sending a response" in str(error):
            return SuzentError("peer_unreachable", f"{place(url)} hung up without an answer.")
        if "incomplete" in str(error) or "closed connection" in str(error):
            return SuzentError("bad_peer_answer", f"{place(url)} hung up in the middle of its answer.")
        return SuzentError("bad_peer_answer", f"What answers at {place(url)} does not speak HTTP.")
    if isinstance(error, httpx.ConnectError):
        return SuzentError("peer_unreachable", f"Nothing answers at {place(url)}.")
    if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol | httpx.LocalProtocolError | UnicodeError):
        return SuzentError("peer_unreachable", f"{place(url)} can't be called: it is no address.")
    return SuzentError("peer_unreachable", f"The connection to {place(url)} broke.")
