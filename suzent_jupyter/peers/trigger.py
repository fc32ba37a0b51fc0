"""A prompt for another gateway's agent: sent over the Suzent channel, its answer read as it comes.

What comes may be anything. It is read within bounds, and whatever the other side does wrong is one error.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any

from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from ..protocol.sse import ENDS, SILENT_BEATS, Event, EventReader
from ..protocol.text import clean_lines, clean_text
from .answers import REFUSAL_BYTES, object_of, refusal, refusal_of, without_not_found
from .http import PeerHttp

if TYPE_CHECKING:
    import httpx

_INBOUND = "/channels/suzent/inbound"
_STOP = "/channels/suzent/stop"
_STOP_NAMED = "/chat/stop"
_HEARD_OUT = 30.0  # s after a turn's end in which the other side may finish its stream
_MESSAGE_CHARS = 500
_ID = re.compile(r"[\x21-\x7e]{1,128}")
_CODE = re.compile(r"[a-z][a-z_]{0,63}")
_TEXT = ("TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CHUNK", "TEXT_MESSAGE_END")
_GOES_ON = "its turn may go on over there"


async def trigger_events(
    http: PeerHttp,
    base_url: str,
    token: str,
    prompt: Mapping[str, Any],
    limits: Limits,
    *,
    name: str,
    last_event_id: str = "",
    hang_up: HangUp | None = None,
) -> AsyncGenerator[Event]:
    """Send a prompt and yield the events of its turn as they come, up to RUN_FINISHED or the other side's RUN_ERROR.

    Closing the iterator hangs up; the turn goes on over there. After the end the rest is still taken in, for nobody: a
    Suzent server keeps the prompt only when its whole stream was read.

    Parameters
    ----------
    http : PeerHttp
        What calls other gateways.
    base_url, token : str
        Where the other gateway is, and the grant it gave us.
    prompt : mapping
        The body of ``POST /channels/suzent/inbound``.
    limits : Limits
        ``peer_timeout``, ``peer_line_bytes``, ``run_bytes``, ``run_ttl``, ``heartbeat``, and ``transfer_ttl``, in which
        the other side may fetch files before it answers.
    name : str
        How people call the peer.
    last_event_id : str
        The last event the caller has, to read a turn on rather than begin one.
    hang_up : HangUp, optional
        Ends the reading before the turn is over.

    Raises
    ------
    SuzentError
        ``peer_revoked``, ``peer_refused``, ``peer_unreachable`` or ``bad_peer_answer``, also between two events; and
        whatever ``hang_up`` is given.
    """
    wait = limits.peer_timeout + (limits.transfer_ttl if prompt.get("attachments") else 0.0)
    headers = {"Accept": "text/event-stream"}
    if _ID.fullmatch(last_event_id):
        headers["Last-Event-ID"] = last_event_id
    url = base_url.rstrip("/") + _INBOUND
    opened = http.stream("POST", url, token=token, json=dict(prompt), connect_timeout=wait, headers=headers)
    turn, reader = _Turn(name), EventReader(int(limits.peer_line_bytes))
    async with contextlib.AsyncExitStack() as stack:
        response = await stack.enter_async_context(opened)
        await _check(response, url, name, limits)
        pieces = _pieces(response, name, limits, reader, hang_up or HangUp())
        await stack.enter_async_context(contextlib.aclosing(pieces))
        try:
            async for piece in pieces:
                for event in reader.feed(piece):
                    yield turn.take(event)
                    if turn.over:
                        return
                if reader.done:
                    break
            said_done = reader.done
            for event in reader.close():
                yield turn.take(event)
                if turn.over:
                    return
            yield turn.end(said_done=said_done, framed=_is_framed(response))
        finally:
            if turn.over and not reader.done:
                http.in_background(_hear_out(stack.pop_all(), pieces))


async def _hear_out(stack: contextlib.AsyncExitStack, pieces: AsyncGenerator[bytes]) -> None:
    async with stack:
        with contextlib.suppress(SuzentError, TimeoutError):
            async with asyncio.timeout(_HEARD_OUT):
                async for _ in pieces:
                    pass


class HangUp:
    """Ends the reading of a turn from outside, also while nothing comes."""

    def __init__(self) -> None:
        self.waiting: asyncio.Timeout | None = None
        self._error: SuzentError | None = None

    def __call__(self, error: SuzentError) -> None:
        """Have the reader raise ``error`` instead of the next event."""
        self._error = error
        if self.waiting is not None:
            with contextlib.suppress(RuntimeError):  # it waits no longer, and looks before it does again
                self.waiting.reschedule(0.0)

    def check(self) -> None:
        """Raise what ended the reading, if anything did."""
        if self._error is not None:
            raise self._error


class _Turn:
    """What was seen of a turn, and how it may end."""

    def __init__(self, name: str) -> None:
        self.over = False
        self._name = name
        self._seen = False
        self._written = False
        self._last = ""
        self._ids = {"threadId": "", "runId": ""}

    def take(self, event: Event) -> Event:
        data, kind = event.data, event.data["type"]
        self._seen = True
        self._written = self._written or kind in _TEXT
        self._last = kind
        if kind == "RUN_STARTED":
            self._ids = {name: clean_text(data.get(name), 128) for name in self._ids}
        self.over = kind in ENDS
        if kind == "RUN_ERROR":
            code = data.get("code")
            known = code if isinstance(code, str) and _CODE.fullmatch(code) else "agent_failed"
            said = _said(data.get("message")) or "It failed, and did not say why."
            data = {**data, "message": said, "code": known}
            if "hint" in data:
                data["hint"] = _said(data["hint"])
        return Event(event.id if _ID.fullmatch(event.id) else "", data)

    def end(self, *, said_done: bool, framed: bool) -> Event:
        """Return the end that the other side left out, if it came to one.

        Suzent's servers leave it out at times. A stream that just stops may also be a gateway that was killed: where
        neither chunks nor a length say that all of it is there, the text at least must have been ended.
        """
        if not self._seen and not said_done:
            raise SuzentError("bad_peer_answer", f"{self._name} answered with a stream without any event.")
        if not said_done and not (self._written and (framed or self._last == "TEXT_MESSAGE_END")):
            raise _broke_off(self._name)
        self.over = True
        return Event("", {"type": "RUN_FINISHED", **self._ids})


async def _check(response: httpx.Response, url: str, name: str, limits: Limits) -> None:
    """Raise for whatever is not the beginning of a stream of events."""
    if response.status_code != 200:
        raise await refusal_of(response, url, name, limits)
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "text/event-stream":
        shown = clean_text(kind, 64) or "something"
        raise SuzentError("bad_peer_answer", f"{name} answered with {shown} instead of a stream of events.")


async def _pieces(
    response: httpx.Response, name: str, limits: Limits, reader: EventReader, hang_up: HangUp
) -> AsyncGenerator[bytes]:
    import httpx

    size = 0
    pieces = response.aiter_raw()
    try:
        while True:
            hang_up.check()
            # Suzent's servers have no heartbeat: a tool that takes minutes is minutes of silence.
            silence = limits.heartbeat * SILENT_BEATS if reader.beats else limits.run_ttl
            async with asyncio.timeout(silence) as deadline:
                hang_up.waiting = deadline
                piece = await anext(pieces, None)
            if piece is None:
                return
            size += len(piece)
            if size > limits.run_bytes:
                raise SuzentError(
                    "bad_peer_answer", f"{name} sent more than {int(limits.run_bytes):,} bytes in one turn; {_GOES_ON}."
                )
            yield piece
    except TimeoutError:
        if not deadline.expired():
            raise
        hang_up.check()
        message = f"{name} has been silent for {silence:g} s; {_GOES_ON}."
        raise SuzentError("peer_unreachable", message) from None
    except (httpx.TransportError, httpx.StreamError):
        raise _broke_off(name) from None


def _broke_off(name: str) -> SuzentError:
    return SuzentError("peer_unreachable", f"{name} broke off in the middle of its answer; {_GOES_ON}.")


def _is_framed(response: httpx.Response) -> bool:
    return "content-length" in response.headers or "transfer-encoding" in response.headers


def _said(text: Any) -> str:
    """Return what the other side says as a line of ours."""
    return without_not_found(clean_text(clean_lines(text) if isinstance(text, str) else "", _MESSAGE_CHARS))


async def stop_turn(
    http: PeerHttp, base_url: str, token: str, *, name: str, chat_id: str | None = None, device_id: str = ""
) -> str:
    """Stop our turn on a peer, and return the conversation it belongs to.

    Parameters
    ----------
    chat_id : str, optional
        A conversation other than the usual one, by its name or whole id.
    device_id : str
        The id of our grant there, ``""`` if it is not known.

    Raises
    ------
    SuzentError
        ``nothing_running``, ``peer_revoked``, ``peer_refused``, ``peer_unreachable`` or ``bad_peer_answer``.
    """
    usual = f"suzent:{device_id}"
    path, body = _STOP, {"chat_id": chat_id} if chat_id else {}
    if chat_id and device_id and chat_id != usual:
        # On the channel, Suzent's servers stop the usual conversation whatever is named, and elsewhere take whole ids.
        whole = chat_id if chat_id.startswith("suzent:") else f"{usual}:{chat_id}"
        path, body = _STOP_NAMED, {"chat_id": whole}
    url = base_url.rstrip("/") + path
    answer = await http.request("POST", url, token=token, json=body, max_bytes=REFUSAL_BYTES)
    if answer.status == 409 or (answer.status == 404 and b'"no_active_stream"' in answer.content):
        raise SuzentError("nothing_running", f"No turn of ours runs on {name}.")
    if answer.status >= 400:
        raise refusal(url, answer.status, answer.content, name)
    said = object_of(url, answer)
    if said.get("stopped") is not True and said.get("status") != "stopping":
        raise SuzentError("bad_peer_answer", f"{name} does not say that it stopped.")
    return clean_text(said.get("agent_id") or body.get("chat_id"), 256)
