"""Answers that come in pieces: events of a turn as they happen (Server-Sent Events), and files."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError

if TYPE_CHECKING:
    from tornado.web import RequestHandler

#: A comment of the event stream format: readers drop it, proxies see that the stream lives.
HEARTBEAT = b": still here\n\n"


class BrokenOffError(Exception):
    """An answer can't be completed; its reader learns that from the connection, which closes."""


@dataclass(frozen=True, slots=True)
class Stream:
    """An answer in pieces.

    Attributes
    ----------
    pieces : AsyncIterator of bytes
        Each is written at once and by itself. It is closed when the caller hangs up, and that ends nothing else.
        :class:`BrokenOffError` from it closes the connection.
    media_type : str
        Its content type.
    headers : dict
        Further headers.
    heartbeat : float, optional
        Seconds of silence after which a comment is sent; None for files.
    valid : callable, optional
        Tells whether its reader may still have it; the connection closes when not. None for what the token of the
        request says.
    holder : str
        The grant of whose streams this is one; ``""`` for what the token of the request says.
    status : int
        Of the answer.
    """

    pieces: AsyncIterator[bytes]
    media_type: str = "text/event-stream"
    headers: dict[str, str] = field(default_factory=dict)
    heartbeat: float | None = None
    valid: Callable[[], bool] | None = None
    holder: str = ""
    status: int = 200

    async def close(self) -> None:
        """Close what it comes from."""
        close = getattr(self.pieces, "aclose", None)
        if close is not None:
            await close()


class Streams:
    """How many answers in pieces go to each grant at once: each holds a connection, and files are open.

    Parameters
    ----------
    most : int
        For each.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._under_way: Counter[str] = Counter()

    @contextlib.contextmanager
    def held(self, holder: str) -> Iterator[bool]:
        """Count one while it is sent; gives whether it may be. No holder is no peer, and not counted."""
        if holder and self._under_way[holder] >= self._most:
            yield False
            return
        self._under_way[holder] += 1
        try:
            yield True
        finally:
            self._under_way[holder] -= 1
            if not self._under_way[holder]:
                del self._under_way[holder]


async def send_stream(handler: RequestHandler, answer: Stream, valid: Callable[[], bool]) -> None:
    """Send it; the next piece is asked for when the last one has been taken, so a slow reader costs no memory.

    ``valid`` tells whether its reader may still have it, where the answer itself does not know.
    """
    valid = answer.valid or valid
    handler.set_status(answer.status)
    handler.set_header("Content-Type", answer.media_type)
    handler.set_header("Cache-Control", "no-store")
    handler.set_header("X-Content-Type-Options", "nosniff")
    handler.set_header("X-Accel-Buffering", "no")  # nginx would keep events back
    for name, value in answer.headers.items():
        handler.set_header(name, value)
    following: asyncio.Future[bytes] | None = None
    connection: Any = handler.request.connection
    with contextlib.suppress(AttributeError, OSError):
        connection.stream.set_nodelay(True)  # a small event must not wait until the one before it is acknowledged
    try:
        await handler.flush()
        while True:
            if following is None:
                following = asyncio.ensure_future(anext(answer.pieces))
            done, _ = await asyncio.wait([following], timeout=answer.heartbeat)
            if not valid():
                raise BrokenOffError("its token speaks for nobody now")
            if not done:
                handler.write(HEARTBEAT)
            else:
                try:
                    piece = following.result()
                except StopAsyncIteration:
                    break
                following = None
                handler.write(piece)
            await handler.flush()
        handler.finish()
    except StreamClosedError:
        pass
    except BrokenOffError:
        connection.close()
    finally:
        if following is not None:
            following.cancel()
            await asyncio.wait([following])
        await answer.close()
