"""Fetches kept files from the gateway a device is connected to, and from nowhere that it does not name itself.

A reference in a parameter may be anybody's word. So a relative address is taken only where it is that of a kept file,
and is asked of the very server the socket goes to, with the same trust; an absolute one (a store's pre-signed URL) only
where the gateway's own frame, outside of the parameters, says that it is its address. No redirect is followed, and no
token, cookie or password is sent: an address holds what authorises it.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import sys
from collections.abc import Callable, Collection
from contextvars import ContextVar
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO
from urllib.parse import urlsplit

from ..protocol.address import http_base
from ..protocol.limits import KIB
from ..protocol.tls_trouble import tls_trouble
from .address import is_loopback
from .pin import Trust, is_secure, origin, tls_context
from .signature import ParameterError

if TYPE_CHECKING:
    import httpx

_PIECE_BYTES = 256 * KIB
_CONNECT, _SILENCE = 10.0, 30.0  # seconds
_RELATIVE = re.compile(r"/artifacts/[A-Za-z0-9_-]{1,64}(\?[A-Za-z0-9=&_-]{0,400})?")
_ADDRESS_CHARS = 8192  # a pre-signed URL holds a token of its store
_GONE = frozenset([401, 403, 404, 410])

_fetching: ContextVar[bool] = ContextVar("_fetching", default=False)


class Fetcher:
    """Fetches for one device.

    Parameters
    ----------
    url : str
        Of the device's socket.
    trust : Trust
        What the server there must prove.
    """

    def __init__(self, url: str, trust: Trust) -> None:
        self._base = http_base(url)
        self._trust = trust

    def address(self, url: str, vouched: Collection[str] = ()) -> str:
        """Return from where a reference's ``url`` is fetched; ``""`` where it is not this gateway's word.

        ``vouched`` are the absolute addresses that the gateway itself names.
        """
        if _RELATIVE.fullmatch(url):
            return f"{self._base}{url}"
        if url not in vouched or len(url) > _ADDRESS_CHARS or not url.isprintable():
            return ""
        try:
            parts = urlsplit(url)
            is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            return ""
        return url if is_web and "@" not in parts.netloc else ""

    async def fetch(self, address: str, path: Path, size: int, sha256: str, told: Callable[[int], None]) -> None:
        """Write a file to ``path``, piece by piece; ``told`` hears how many bytes are there.

        Raises
        ------
        ParameterError
            ``artifact_unknown`` for an address that is not, or no longer, good; ``artifact_corrupt`` for other bytes
            than were announced; ``artifact_store_failed`` for everything else.
        """
        client = await asyncio.to_thread(self._client, address)
        import httpx

        before = _fetching.set(True)
        try:
            async with client, client.stream("GET", address) as answer:
                if answer.status_code in _GONE:
                    raise ParameterError("its address is not good any more; send it again", "artifact_unknown")
                if answer.status_code != 200:
                    raise _failed(f"the server answered {answer.status_code}")
                announced = answer.headers.get("Content-Length", "")
                if announced.isdigit() and int(announced) != size:
                    raise _corrupt()
                await self._take(answer, path, size, sha256, told)
        except (httpx.HTTPError, OSError) as error:
            if isinstance(error, OSError) and not isinstance(error, TimeoutError | ConnectionError):
                raise _failed(f"it can't be kept here ({error.strerror or type(error).__name__})") from None
            trouble = tls_trouble(error, origin(address) if is_secure(address) else self._base)
            raise _failed(
                str(trouble) if trouble else f"the server does not send it ({type(error).__name__})"
            ) from None
        finally:
            _fetching.reset(before)

    @staticmethod
    async def _take(answer: httpx.Response, path: Path, size: int, sha256: str, told: Callable[[int], None]) -> None:
        digest, taken = hashlib.sha256(), 0

        def write(piece: bytes) -> None:
            digest.update(piece)
            file.write(piece)

        file: BinaryIO = await asyncio.to_thread(path.open, "xb")
        try:
            async for piece in answer.aiter_raw(_PIECE_BYTES):
                taken += len(piece)
                if taken > size:
                    raise _corrupt()
                await asyncio.to_thread(write, piece)
                told(taken)
        finally:
            await asyncio.shield(asyncio.to_thread(file.close))
        if taken != size or digest.hexdigest() != sha256:
            raise _corrupt()

    def _client(self, address: str) -> httpx.AsyncClient:
        """Make a client for one fetch. Blocks: importing httpx and reading authorities takes a while."""
        if "httpx" not in sys.modules:
            import_module("httpx")
        import httpx

        logger = logging.getLogger("httpx")
        if _not_ours not in logger.filters:
            logger.addFilter(_not_ours)
        own = address.startswith(f"{self._base}/")
        context = self._trust.context() if own else tls_context() if is_secure(address) else None
        return httpx.AsyncClient(
            verify=False if context is None else context,
            follow_redirects=False,
            trust_env=not is_loopback(address),  # proxies, as the socket
            headers={"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "suzent-jupyter"},
            timeout=httpx.Timeout(_SILENCE, connect=_CONNECT),
        )


def _not_ours(_record: logging.LogRecord) -> bool:
    """Keep httpx from logging these URLs: whoever reads one can fetch the file."""
    return not _fetching.get()


def _failed(why: str) -> ParameterError:
    return ParameterError(why, "artifact_store_failed")


def _corrupt() -> ParameterError:
    return ParameterError(
        "what came is not what was announced (size or SHA-256 differ); send it again", "artifact_corrupt"
    )
