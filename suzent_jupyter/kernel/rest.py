"""One-off requests over HTTP; calls of nodes go over the socket instead (:mod:`.channel`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from .errors import ConnectionLost, ContentError, KernelError, Unauthorized, Unreachable, from_body
from .locate import Locator, Target, refused, unreachable
from .plain import human_bytes
from .transfers import Transfer

if TYPE_CHECKING:
    import httpx

    from ..node.pin import Trust

T = TypeVar("T")

CONNECT_TIMEOUT = 5.0  # s
UPLOAD_TIMEOUT = 120.0  # s without a byte taken, or, once all are, until the answer: a store may be a network away
READ_TIMEOUT = 30.0  # s; most routes take no longer than their database write
STREAM_TIMEOUT = 60.0  # s without a byte; comments come every 15 s


class Rest:
    """The gateway's routes. Thread-safe; the connection is kept open between requests."""

    def __init__(self, locator: Locator) -> None:
        self._locator = locator
        self._lock = threading.Lock()
        self._clients: dict[tuple[bool, Trust | None], httpx.Client] = {}

    @property
    def url(self) -> str:
        """Where the gateway is, without credentials."""
        return self._locator.target.url

    @property
    def is_local(self) -> bool:
        """Whether the gateway runs on this machine."""
        return self._locator.target.is_loopback

    @property
    def whose(self) -> tuple[str, int]:
        """Which gateway it is and as whom it is asked: the same for every connection of this process to that."""
        target = self._locator.target
        return target.url, hash(target.token.reveal() if target.token else "")

    def get(self, path: str, **query: Any) -> Any:
        """``GET`` a route and return its JSON."""
        return self.request("GET", path, query={key: value for key, value in query.items() if value is not None})

    def records(self, kind: str) -> list[dict[str, Any]]:
        """Return the gateway's list of ``nodes``, or of what ``/nodes/{kind}`` holds."""
        items: list[dict[str, Any]] = self.get("/nodes" if kind == "nodes" else f"/nodes/{kind}")[kind]
        return items

    def post(self, path: str, body: Any = None, timeout: float = READ_TIMEOUT) -> Any:
        """``POST`` to a route and return its JSON, for which ``timeout`` seconds are waited."""
        return self.request("POST", path, body={} if body is None else body, timeout=timeout)

    def request(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        timeout: float = READ_TIMEOUT,
    ) -> Any:
        """Send one request and return its JSON.

        Raises
        ------
        KernelError
            By what went wrong; refusals of the gateway carry its ``code``.
        """
        return self._anywhere(
            lambda target: _read(target, self._send(target, method, path, query=query, body=body, timeout=timeout))
        )

    @contextmanager
    def stream(
        self, method: str, path: str, *, body: Any = None, headers: dict[str, str] | None = None
    ) -> Iterator[httpx.Response]:
        """Send one request and give its answer as it comes in; a refusal is raised as by :meth:`request`.

        Raises
        ------
        ConnectionLost
            Also from within: the answer broke off, or nothing came for a minute.
        """
        import httpx

        answer = self._anywhere(
            lambda target: self._send(
                target, method, path, body=body, headers=headers, timeout=STREAM_TIMEOUT, stream=True
            )
        )
        try:
            yield answer
        except httpx.HTTPError as error:
            raise ConnectionLost(
                f"The connection to the gateway broke during its answer ({type(error).__name__}).",
                hint="Look before you repeat it.",
            ) from None
        finally:
            answer.close()

    def download(self, path: str, limit: int) -> tuple[bytes, str]:
        """``GET`` a file of at most ``limit`` bytes; return its content and the media type it is said to have.

        Raises
        ------
        ContentError
            It is larger.
        """
        with self.stream("GET", path) as answer:
            content = bytearray()
            size = answer.headers.get("Content-Length", "")
            with Transfer("Fetching", "Fetched", "", int(size) if size.isdigit() else 0) as told:
                for chunk in answer.iter_bytes():
                    content += chunk
                    if len(content) > limit:
                        raise ContentError(
                            f"The file is larger than {human_bytes(limit)}.", hint="Ask the peer for a smaller one."
                        )
                    told(len(content))
            return bytes(content), answer.headers.get("content-type", "")

    def upload(
        self, path: str, pieces: Callable[[], Iterator[bytes]], size: int, media_type: str, query: dict[str, str]
    ) -> Any:
        """``POST`` a file of ``size`` bytes as it is read, and return the answer's JSON.

        ``pieces`` is called once more where the gateway turns out to be elsewhere.
        """
        headers = {"Content-Type": media_type, "Content-Length": str(size)}
        return self._anywhere(
            lambda target: _read(
                target,
                self._send(
                    target, "POST", path, query=query, content=pieces(), headers=headers, timeout=UPLOAD_TIMEOUT
                ),
            )
        )

    def close(self) -> None:
        """Close kept connections."""
        with self._lock:
            clients, self._clients = list(self._clients.values()), {}
        for client in clients:
            client.close()

    def _client(self, target: Target, trust: Trust | None) -> httpx.Client:
        import httpx

        context = trust.context() if trust else None
        with self._lock:
            client = self._clients.get((target.is_loopback, trust))
            if client is None:
                # No redirects: they would carry the token along. No proxy for this machine, whatever is configured.
                client = self._clients[target.is_loopback, trust] = httpx.Client(
                    verify=True if context is None else context,
                    follow_redirects=False,
                    trust_env=not target.is_loopback,
                )
            return client

    def _anywhere(self, call: Callable[[Target], T]) -> T:
        """Call the gateway where it is; a refused token or a dead server makes us look for it once more."""
        target = self._locator.target
        try:
            return call(target)
        except (Unauthorized, Unreachable) as error:
            moved = self._locator.again(target)  # it may have been restarted
            if moved is None:
                raise error from None
        return call(moved)

    def _send(
        self,
        target: Target,
        method: str,
        path: str,
        *,
        query: dict[str, Any] | None = None,
        body: Any = None,
        content: Iterator[bytes] | None = None,
        headers: dict[str, str] | None = None,
        timeout: float,
        stream: bool = False,
    ) -> httpx.Response:
        """Send one request and return its answer, which is a success; of a streamed one the body is still to come."""
        import httpx

        trust = self._locator.trust(target)
        client = self._client(target, trust)
        request = client.build_request(
            method,
            target.url + path,
            params=query or None,
            json=body,
            content=content,
            headers={**target.headers, **(headers or {})},
            timeout=httpx.Timeout(timeout, connect=CONNECT_TIMEOUT),
        )
        try:
            answer = client.send(request, stream=stream)
            if not answer.is_success:
                answer.read()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise unreachable(target, error) from None
        except httpx.HTTPError as error:
            if method == "GET":
                raise unreachable(target, error) from None
            raise ConnectionLost(
                "The connection to the gateway broke during the request: whether it was carried out is unknown.",
                hint="Look before you repeat it.",
            ) from None
        if trust is not None:
            trust.proved()
        if not answer.is_success:
            _read(target, answer)
        return answer


def _read(target: Target, answer: httpx.Response) -> Any:
    try:
        body = answer.json()
    except ValueError:
        body = None
    if answer.is_success and body is not None:
        return body
    if answer.status_code == 401:
        raise refused(target, 401)
    if isinstance(body, dict):
        raise from_body(body, answer.status_code)
    raise KernelError(
        f"{target.url} answers {answer.status_code} without JSON: that is not a gateway of devices.",
        code="unreachable",
        hint="Check the URL; behind Jupyter it ends in /suzent.",
        status=answer.status_code,
    )


def segment(text: str) -> str:
    """Return ``text`` as one segment of a URL's path."""
    return quote(text, safe="")
