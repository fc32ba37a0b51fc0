"""What the routes that run an agent do."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import TYPE_CHECKING

from ..gateway.answering.namespaces import conversation_of, own_conversation
from ..gateway.answering.run import Prompt
from ..gateway.granting.coverage import require_agent
from ..protocol.chat import (
    ChatRequest,
    ChatStopRequest,
    ConversationListResponse,
    ConversationResponse,
    InboundAttachment,
    InboundRequest,
    InboxRequest,
    MessageInfo,
    SessionMessage,
    SessionResponse,
    StopResponse,
)
from ..protocol.errors import SuzentError
from ..protocol.sse import event_bytes, framed, run_error
from .request import Answer, Request
from .stream import Stream

if TYPE_CHECKING:
    from ..gateway.answering.run import Run

_EVENT_ID = re.compile(r"([A-Za-z0-9_-]{1,64}):(\d{1,9})")
_TOGETHER_BYTES = 32 * 1024  # a write costs more than an event
_SHOWN_CHARS = 20_000  # of one message, to a peer


async def chat(request: Request) -> Stream:
    """Run a turn and stream its events."""
    if (resumed := _resumed(request)) is not None:
        return resumed
    body = request.model(ChatRequest)
    return await _turn(request, "message", body.message, body.chat_id, [])


async def inbound(request: Request) -> Stream:
    """Run a peer's prompt and stream its events."""
    if (resumed := _resumed(request)) is not None:
        return resumed
    body = request.model(InboundRequest)
    return await _turn(request, "content", body.content, body.chat_id, body.attachments)


async def stop(request: Request) -> StopResponse:
    """Stop the turn of a conversation; a peer's own where it names none."""
    require_agent(request.principal)
    conversation_id = conversation_of(request.principal, request.model(ChatStopRequest).chat_id, fresh=False)
    await request.gateway.runs.stop_turn(request.principal, conversation_id)
    return StopResponse(agent_id=conversation_id)


async def inbox(request: Request) -> Answer:
    """Take a peer's message, to be worked off in order."""
    try:
        body = request.model(InboxRequest)
        if len(body.content) > request.gateway.limits.inbox_chars:
            raise SuzentError("invalid_request", "too long")
    except SuzentError:
        raise SuzentError("invalid_inbox", "Invalid inbox payload") from None
    accepted = await request.gateway.inbox.accept(request.principal, body.message_id, body.content)
    request.gateway.credentials.note_use(request.principal)
    return Answer(accepted, 202)


async def session(request: Request) -> SessionResponse:
    """Show a peer its own conversation; `chat_id` names another of its own. A user has none without naming it."""
    gateway, chat_id = request.gateway, request.query.get("chat_id")
    require_agent(request.principal)
    if not chat_id and own_conversation(request.principal) is None:
        return SessionResponse(agent_id="", status="idle")
    conversation_id = conversation_of(request.principal, chat_id, fresh=False)
    try:
        kept = await gateway.conversations.get(
            request.principal, conversation_id, int(gateway.limits.transcript_messages)
        )
    except SuzentError as error:
        if error.code != "conversation_unknown":
            raise
        return SessionResponse(agent_id=conversation_id, status="idle")
    omitted = kept.message_count - len(kept.messages)
    messages = [_shown(index, message) for index, message in enumerate(kept.messages, omitted)]
    cut = any(len(each.content) > _SHOWN_CHARS for each in kept.messages)
    return SessionResponse(
        agent_id=conversation_id,
        status=kept.status,
        messages=messages,
        message_count=kept.message_count,
        omitted_message_count=omitted,
        transcript_truncated=bool(omitted) or cut,
    )


async def list_conversations(request: Request) -> ConversationListResponse:
    """List the conversations, newest first; `limit` is 200 by default, 1000 at most."""
    limit = request.number("limit", 200, 1, 1000) or 200
    found = await request.gateway.conversations.newest(request.principal, limit)
    return ConversationListResponse(conversations=found, count=len(found))


async def get_conversation(request: Request) -> ConversationResponse:
    """Show one with its newest messages; `limit` is 200 by default, 1000 at most."""
    limit = request.number("limit", 200, 1, 1000) or 200
    return await request.gateway.conversations.get(request.principal, request.path["id"], limit)


# -- turns --


async def _turn(
    request: Request, name: str, text: str, chat_id: str | None, attachments: list[InboundAttachment]
) -> Stream:
    gateway, principal = request.gateway, request.principal
    text = read_prompt(request, name, text)
    conversation_id = conversation_of(principal, chat_id)
    gateway.runs.check(principal, conversation_id)
    prompt = Prompt(text=text)
    if attachments:
        from .files.attachments import stage

        staging = await stage(request, attachments)
        prompt.attachments, prompt.clear = staging.attachments, staging.clear
    run = await gateway.runs.start(principal, conversation_id, prompt)
    request.gateway.credentials.note_use(request.principal)
    return _stream(request, run, 0)


def read_prompt(request: Request, name: str, text: str) -> str:
    """Return a prompt without blanks around it; ``invalid_request`` for one that is empty or too long."""
    text, most = text.strip(), int(request.gateway.limits.prompt_chars)
    if not text:
        raise SuzentError("invalid_request", f"`{name}` must not be empty.")
    if len(text) > most:
        raise SuzentError("invalid_request", f"`{name}` may have {most:,} characters at most, not {len(text):,}.")
    return text


def _shown(index: int, message: MessageInfo) -> SessionMessage:
    """Return a message as a peer sees it: the words, not what this machine did for them."""
    content = message.content
    if len(content) > _SHOWN_CHARS:
        content = content[: _SHOWN_CHARS - 1] + "…"
    seen = {**message.model_dump(), "content": content, "detail": {}}
    return SessionMessage(**seen, index=index, text=content, timestamp=message.at)


# -- streaming --


def _resumed(request: Request) -> Stream | None:
    """Return the rest of the turn that the caller has read up to ``Last-Event-ID``; None where there is no such header.

    The header is that of the HTML standard, section 9.2 (Server-sent events).
    """
    last = request.headers.get("Last-Event-ID")
    if last is None:
        return None
    match = _EVENT_ID.fullmatch(last.strip())
    if match is None:
        raise SuzentError("invalid_request", "`Last-Event-ID` must be the id of an event, such as 3f2a:7.")
    require_agent(request.principal)
    run = request.gateway.runs.find(request.principal, match[1])
    seen = int(match[2]) + 1
    if seen > len(run.events):
        raise SuzentError("invalid_request", "`Last-Event-ID` names an event that has not happened.")
    return _stream(request, run, seen)


def _stream(request: Request, run: Run, seen: int) -> Stream:
    valid = partial(request.gateway.still_speaks, request.principal)
    # It says by itself why it ends.
    return Stream(_pieces(run, seen, valid), heartbeat=request.gateway.limits.heartbeat, valid=lambda: True)


async def _pieces(run: Run, seen: int, valid: Callable[[], bool]) -> AsyncIterator[bytes]:
    """Each event is written at once and by itself; a reader that lags gets what waits for it together.

    Once the reader's token no longer speaks for anyone, it is told that and nothing else.
    """
    while await run.more(seen, valid):
        if not valid():
            break
        parts, size = [], 0
        while seen < len(run.events) and size < _TOGETHER_BYTES:
            parts.append(framed(run.events[seen], f"{run.run_id}:{seen}"))
            size += len(parts[-1])
            seen += 1
        yield b"".join(parts)
    if not valid():
        if run.closing and (end := await run.ended()) is not None and end.code == "revoked":  # this very token's turn
            yield framed(run.events[-1], f"{run.run_id}:{len(run.events) - 1}")
        else:
            why = run_error("revoked", "This token was revoked or paused.")
            yield event_bytes(why, f"{run.run_id}:{max(seen - 1, 0)}")
