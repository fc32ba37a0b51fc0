"""One-off requests over HTTP; calls of nodes go over the socket instead (:mod:`.channel`)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .errors import ConnectionLost, KernelError, Unauthorized, Unreachable, from_body
from .locate import Locator, Target, refused, unreachable

if TYPE_CHECKING:
    import httpx

    from ..node.pin import Trust

CONNECT_TIMEOUT = 5.0  # s
READ_TIMEOUT = 30.0  # s; no route but invoke takes longer than its database write


class Rest:
    """The gateway's routes. Thread-safe; the connection is kept open between requests."""

    def __init__(self, locator: Locator) -> None:
        self._locator = locator
        self._lock = threading.Lock()
        self._clients: dict[tuple[bool, Trust | None], httpx.Client] = {}

    def get(self, path: str, **query: Any) -> Any:
        """``GET`` a route and return its JSON."""
        return self.request("GET", path, query={key: value for key, value in query.items() if value is not None})

    def post(self, path: str, body: Any = None) -> Any:
        """``POST`` to a route and return its JSON."""
        return self.request("POST", path, body={} if body is None else body)

    def request(self, method: str, path: str, *, query: dict[str, Any] | None = None, body: Any = None) -> Any:
        """Send one request.

        A refused token or a dead server makes us look for the gateway once more, since it may have been restarted.

        Raises
        ------
        Unauthorized, Unreachable, ConnectionLost, KernelError
            By what went wrong; refusals of the gateway carry its ``code``.
        """
        target = self._locator.target
        try:
            return self._send(target, method, path, query, body)
        except (Unauthorized, Unreachable) as error:
            moved = self._locator.again(target)
            if moved is None:
                raise error from None
        return self._send(moved, method, path, query, body)

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
                    timeout=httpx.Timeout(READ_TIMEOUT, connect=CONNECT_TIMEOUT),
                )
            return client

    def _send(self, target: Target, method: str, path: str, query: dict[str, Any] | None, body: Any) -> Any:
        import httpx

        trust = self._locator.trust(target)
        try:
            answer = self._client(target, trust).request(
                method, target.url + path, params=query or None, json=body, headers=target.headers
            )
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
        return _read(target, answer)


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
