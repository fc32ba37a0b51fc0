"""Conversations and their messages. A prompt is on disk before an agent sees it, an answer before its reader does."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.agents import TurnMessage
from ...protocol.chat import ConversationInfo, ConversationResponse, MessageInfo
from ...protocol.errors import SuzentError
from ...protocol.limits import Limits
from ..changes import Changes
from ..clock import now_text
from ..principals import Principal
from ..store import Store
from .icons import icon_of

if TYPE_CHECKING:
    import sqlalchemy as sa

_IN_MEMORY = 500  # what subscribers start from
_ROW_BYTES = 500  # of a message, beside its words
_SWEEPS = 8  # a peer's oldest messages are looked for after this part of what it may fill
_READ_CHARS = 4_000_000  # of one conversation at once: an answer may be long, and there are many

#: Done in the same transaction as a message is written.
Also = Callable[["sa.Connection"], None]


@dataclass(slots=True, kw_only=True)
class NewTurn:
    """What is kept of a turn that begins."""

    account: str
    conversation_id: str
    run_id: str
    prompt: str
    title: str
    folder: str = ""
    device_id: str = ""
    target_node_id: str = ""
    source_channel: str = ""
    is_local_initiated: bool = True
    is_enterprise: bool = False
    detail: dict[str, Any] = field(default_factory=dict)


class Conversations:
    """The conversations of one gateway.

    Parameters
    ----------
    store : Store
        Where they are kept.
    changes : Changes
        Who is told.
    limits : Limits
        ``peer_conversations`` and ``peer_messages_bytes``: what others may fill this disk with.
    """

    def __init__(self, store: Store, changes: Changes, limits: Limits) -> None:
        self._store = store
        self._changes = changes
        self._limits = limits
        #: Written by each peer since its oldest messages were last looked at, in bytes, about.
        self._written: dict[str, float] = {}
        self._newest: OrderedDict[tuple[str, str], ConversationInfo] = OrderedDict()
        #: Tells whether a turn runs in a conversation of an account.
        self.is_active: Callable[[str, str], bool] = lambda account, conversation_id: False

    # -- start --

    def load(self, connection: sa.Connection) -> None:
        """Read the newest, and give turns that a crash cut off their end: an answer ``interrupted``."""
        import sqlalchemy as sa

        from .. import schema

        table, messages = schema.conversations, schema.messages
        answered = sa.select(messages.c.run_id).where(messages.c.role == "assistant")
        cut_off = sa.select(messages).where(messages.c.role == "user", messages.c.run_id.not_in(answered))
        for row in connection.execute(cut_off).mappings().all():
            error = {"error": "The gateway ended while this turn ran."}
            _insert_answer(connection, row["account"], row["conversation_id"], row["run_id"], "", "interrupted", error)
        newest = sa.select(table).order_by(table.c.updated_at.desc()).limit(_IN_MEMORY)
        self._newest.clear()
        for row in reversed(connection.execute(newest).mappings().all()):
            info = _info(row, _count(connection, row["account"], row["conversation_id"]))
            self._newest[row["account"], row["conversation_id"]] = info

    # -- a turn --

    async def begin(self, turn: NewTurn, history: int, also: Also | None = None) -> list[TurnMessage]:
        """Keep a prompt; return the ``history`` newest messages before it, oldest first.

        Raises
        ------
        SuzentError
            When it can't be kept; then nothing was.
        """

        def work(connection: sa.Connection) -> tuple[list[TurnMessage], ConversationInfo, list[str]]:
            before = _begin(connection, turn, history)
            if also is not None:
                also(connection)
            gone = self._sweep(connection, turn, is_new=not before) if turn.device_id else []
            return before, _read(connection, turn.account, turn.conversation_id), gone

        before, info, gone = await self._store.run(work)
        for conversation_id in gone:
            self._removed(turn.account, conversation_id)
        self._changed(turn.account, info)
        return before

    async def end(
        self,
        account: str,
        conversation_id: str,
        run_id: str,
        *,
        text: str,
        outcome: str,
        detail: dict[str, Any],
        also: Also | None = None,
    ) -> None:
        """Keep the answer of a turn."""

        def work(connection: sa.Connection) -> ConversationInfo:
            _insert_answer(connection, account, conversation_id, run_id, text, outcome, detail)
            if also is not None:
                also(connection)
            info = _read(connection, account, conversation_id)
            if info.device_id in self._written:
                self._written[info.device_id] += len(text)
            return info

        self._changed(account, await self._store.run(work))

    def _sweep(self, connection: sa.Connection, turn: NewTurn, *, is_new: bool) -> list[str]:
        """Delete what a peer's conversations hold beyond the limits; return those that are gone. On the store's thread.

        Answers count when the next prompt comes.
        """
        gone = _drop_oldest(connection, turn, int(self._limits.peer_conversations)) if is_new else []
        most = self._limits.peer_messages_bytes
        self._written[turn.device_id] = self._written.get(turn.device_id, most) + len(turn.prompt) + _ROW_BYTES
        if self._written[turn.device_id] >= most / _SWEEPS:
            self._written[turn.device_id] = 0.0
            gone += _drop_messages(connection, turn, int(most))
        return gone

    def _removed(self, account: str, conversation_id: str) -> None:
        info = self._newest.pop((account, conversation_id), None)
        if info is not None:
            self._changes.publish(
                "conversations", "removed", info.model_dump, lambda principal: principal.account == account
            )

    def tell(self, account: str, conversation_id: str) -> None:
        """Tell subscribers that a turn began or ended in a conversation."""
        info = self._newest.get((account, conversation_id))
        if info is not None:
            self._changed(account, info, known=True)

    # -- reading --

    async def newest(self, principal: Principal, limit: int) -> list[ConversationInfo]:
        """Return the caller's conversations, newest first."""

        def work(connection: sa.Connection) -> list[ConversationInfo]:
            import sqlalchemy as sa

            from .. import schema

            table = schema.conversations
            query = sa.select(table).where(table.c.account == principal.account)
            rows = connection.execute(query.order_by(table.c.updated_at.desc()).limit(limit)).mappings().all()
            return [_info(row, _count(connection, row["account"], row["conversation_id"])) for row in rows]

        return [self._now(principal.account, info) for info in await self._store.run(work)]

    async def get(self, principal: Principal, conversation_id: str, limit: int) -> ConversationResponse:
        """Return one with its ``limit`` newest messages; ``conversation_unknown`` if there is none."""

        def work(connection: sa.Connection) -> tuple[ConversationInfo, list[MessageInfo]]:
            info = _read(connection, principal.account, conversation_id)
            return info, _messages(connection, principal.account, conversation_id, limit)

        info, messages = await self._store.run(work)
        return ConversationResponse(**self._now(principal.account, info).model_dump(), messages=messages)

    def snapshot(self, principal: Principal) -> list[ConversationInfo]:
        """Return what a subscriber starts from: the newest ones, newest first."""
        found = [info for (account, _), info in self._newest.items() if account == principal.account]
        return [self._now(principal.account, info) for info in reversed(found)]

    def _now(self, account: str, info: ConversationInfo) -> ConversationInfo:
        active = self.is_active(account, info.conversation_id)
        return info.model_copy(update={"status": "active" if active else "idle"})

    def _changed(self, account: str, info: ConversationInfo, *, known: bool = False) -> None:
        key = (account, info.conversation_id)
        new = not known and key not in self._newest
        self._newest[key] = info
        self._newest.move_to_end(key)
        if len(self._newest) > _IN_MEMORY:
            self._newest.popitem(last=False)
        self._changes.publish(
            "conversations",
            "added" if new else "changed",
            lambda: self._now(account, info).model_dump(),
            lambda principal: principal.account == account,
        )


# -- everything below runs on the store's thread --


def forget_prompt(connection: sa.Connection, account: str, conversation_id: str, run_id: str) -> None:
    """Take back the prompt of a turn that never was answered and will be run anew."""
    import sqlalchemy as sa

    from .. import schema

    table = schema.messages
    of_turn = _of_turn(table, account, conversation_id, run_id)
    connection.execute(sa.delete(table).where(*of_turn, table.c.role == "user"))


def _drop_oldest(connection: sa.Connection, turn: NewTurn, most: int) -> list[str]:
    """Delete a peer's oldest conversations beyond a number."""
    import sqlalchemy as sa

    from .. import schema

    table = schema.conversations
    own = sa.select(table.c.conversation_id).where(table.c.account == turn.account, table.c.device_id == turn.device_id)
    newest = own.order_by(table.c.updated_at.desc(), table.c.conversation_id != turn.conversation_id)
    return _drop(connection, turn.account, connection.execute(newest.offset(most)).scalars().all())


def _drop_messages(connection: sa.Connection, turn: NewTurn, most: int) -> list[str]:
    """Delete a peer's oldest messages beyond so many bytes, and the conversations that are empty then."""
    import sqlalchemy as sa

    from .. import schema

    table, messages = schema.conversations, schema.messages
    own = sa.select(table.c.conversation_id).where(table.c.account == turn.account, table.c.device_id == turn.device_id)
    of_peer = [messages.c.account == turn.account, messages.c.conversation_id.in_(own)]
    size = sa.func.length(messages.c.content) + sa.func.length(sa.cast(messages.c.detail, sa.Text)) + _ROW_BYTES
    query = sa.select(messages.c.id, size).where(*of_peer).order_by(messages.c.id.desc())
    with contextlib.closing(connection.execute(query)) as rows:
        last = next((row[0] for row in rows if (most := most - row[1]) < 0), None)
    if last is None:
        return []
    connection.execute(sa.delete(messages).where(*of_peer, messages.c.id <= last))
    left = sa.select(messages.c.conversation_id).where(*of_peer)
    empty = connection.execute(own.where(table.c.conversation_id.not_in(left))).scalars().all()
    return _drop(connection, turn.account, empty)


def _drop(connection: sa.Connection, account: str, conversation_ids: Sequence[str]) -> list[str]:
    import sqlalchemy as sa

    from .. import schema
    from ..memory.spaces import drop_sessions

    drop_sessions(connection, account, conversation_ids)
    for conversation_id in conversation_ids:
        for table in (schema.messages, schema.conversations):
            here = [table.c.account == account, table.c.conversation_id == conversation_id]
            connection.execute(sa.delete(table).where(*here))
    return list(conversation_ids)


def _of_turn(table: sa.Table, account: str, conversation_id: str, run_id: str) -> list[sa.ColumnElement[bool]]:
    return [table.c.account == account, table.c.conversation_id == conversation_id, table.c.run_id == run_id]


def _begin(connection: sa.Connection, turn: NewTurn, history: int) -> list[TurnMessage]:
    import sqlalchemy as sa

    from .. import schema

    table, now = schema.conversations, now_text()
    here = [table.c.account == turn.account, table.c.conversation_id == turn.conversation_id]
    newest = {
        "updated_at": now, "target_node_id": turn.target_node_id, "is_enterprise": turn.is_enterprise
    }  # fmt: skip
    if not connection.execute(sa.update(table).where(*here).values(**newest)).rowcount:
        connection.execute(
            sa.insert(table).values(
                account=turn.account,
                conversation_id=turn.conversation_id,
                title=turn.title,
                folder=turn.folder,
                device_id=turn.device_id,
                created_at=now,
                source_channel=turn.source_channel,
                is_local_initiated=turn.is_local_initiated,
                **newest,
            )
        )
    before = _messages(connection, turn.account, turn.conversation_id, history)
    _insert(connection, turn.account, turn.conversation_id, turn.run_id, "user", turn.prompt, "", turn.detail)
    return [
        TurnMessage(role="user" if each.role == "user" else "assistant", content=each.content)
        for each in before
        if each.content
    ]


def _insert_answer(
    connection: sa.Connection,
    account: str,
    conversation_id: str,
    run_id: str,
    text: str,
    outcome: str,
    detail: dict[str, Any],
) -> None:
    import sqlalchemy as sa

    from .. import schema

    table = schema.messages
    # Another process over the same file may have taken this turn for cut off when it started.
    premature = [*_of_turn(table, account, conversation_id, run_id), table.c.outcome == "interrupted"]
    connection.execute(sa.delete(table).where(*premature))
    _insert(connection, account, conversation_id, run_id, "assistant", text, outcome, detail)
    talks = schema.conversations
    connection.execute(
        sa.update(talks)
        .where(talks.c.account == account, talks.c.conversation_id == conversation_id)
        .values(updated_at=now_text())
    )


def _insert(
    connection: sa.Connection,
    account: str,
    conversation_id: str,
    run_id: str,
    role: str,
    content: str,
    outcome: str,
    detail: dict[str, Any],
) -> None:
    import sqlalchemy as sa

    from .. import schema

    connection.execute(
        sa.insert(schema.messages).values(
            account=account,
            conversation_id=conversation_id,
            run_id=run_id,
            role=role,
            content=content,
            at=now_text(),
            outcome=outcome,
            detail=detail,
        )
    )


def _messages(connection: sa.Connection, account: str, conversation_id: str, limit: int) -> list[MessageInfo]:
    import sqlalchemy as sa

    from .. import schema

    table = schema.messages
    query = sa.select(table).where(table.c.account == account, table.c.conversation_id == conversation_id)
    found: list[MessageInfo] = []
    left = _READ_CHARS
    with contextlib.closing(connection.execute(query.order_by(table.c.id.desc()).limit(limit))) as rows:
        for row in rows.mappings():
            left -= len(row["content"])
            if found and left < 0:
                break
            found.append(MessageInfo.model_validate(dict(row)))
    return found[::-1]


def _read(connection: sa.Connection, account: str, conversation_id: str) -> ConversationInfo:
    import sqlalchemy as sa

    from .. import schema

    table = schema.conversations
    query = sa.select(table).where(table.c.account == account, table.c.conversation_id == conversation_id)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise SuzentError("conversation_unknown", f"There is no conversation '{conversation_id[:128]}'.")
    return _info(row, _count(connection, account, conversation_id))


def _count(connection: sa.Connection, account: str, conversation_id: str) -> int:
    import sqlalchemy as sa

    from .. import schema

    table = schema.messages
    query = sa.select(sa.func.count()).where(table.c.account == account, table.c.conversation_id == conversation_id)
    count: int = connection.execute(query).scalar_one()
    return count


def _info(row: Any, count: int) -> ConversationInfo:
    icon = icon_of(
        channel=row["source_channel"],
        is_local_initiated=row["is_local_initiated"],
        target_node_id=row["target_node_id"],
        is_enterprise=row["is_enterprise"],
    )
    more = {
        "icon": icon,
        "isLocalInitiated": row["is_local_initiated"],
        "targetNodeId": row["target_node_id"],
        "sourceChannel": row["source_channel"],
    }
    return ConversationInfo.model_validate({**row, "message_count": count, **more})
