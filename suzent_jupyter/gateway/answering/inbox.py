"""Messages that peers leave: on disk before they are acknowledged, then worked off in order, one at a time for each.

A message is run at least once, and not again once its answer is on disk. While no agent is there, or the grant is
paused, it waits; with the grant it goes.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocol.chat import InboxResponse
from ...protocol.errors import SuzentError
from ..clock import now_text
from ..granting.coverage import require_agent
from ..principals import Principal
from .conversations import Also, forget_prompt
from .namespaces import conversation_of_grant, own_conversation, peer_principal
from .news import News
from .run import Prompt

if TYPE_CHECKING:
    import sqlalchemy as sa

    from ..devices import Departure, Device
    from ..gateway import Gateway

log = logging.getLogger("suzent_jupyter")

_LOOK_SECONDS = 5.0  # at what nobody tells of: a grant that is active again, an agent on a device
_DONE_KEPT_SECONDS = 30 * 86400.0  # how long a message that is sent again is known
_WAITING = ("queued", "running")
_RUN_AGAIN = ("no_agent", "stopping")


@dataclass(slots=True)
class _Message:
    id: int
    content: str


class Inbox:
    """The inbox of one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._workers: dict[str, asyncio.Task[None]] = {}
        self._news = News()
        self._unfinished: list[str] = []
        self._stopped = False
        gateway.departures.append(self._departed)
        gateway.runs.freed.append(self.wake)
        gateway.agents.appeared.append(self.wake)

    # -- taking --

    async def accept(self, principal: Principal, message_id: str, content: str) -> InboxResponse:
        """Keep a message of a peer; answered once it is on disk.

        Raises
        ------
        SuzentError
            ``not_granted``, ``invalid_request`` for a caller that is no peer, ``idempotency_conflict`` when the id was
            another message's, ``inbox_full``.
        """
        device_id = principal.credential_id
        if own_conversation(principal) is None:
            raise SuzentError("invalid_request", "The inbox takes messages of peers; POST /chat is for users.")
        require_agent(principal)
        most = int(self._gateway.limits.inbox_waiting)

        def work(connection: sa.Connection) -> tuple[bool, str]:
            accepted = _accept(connection, principal.account, device_id, message_id, content, most)
            _forget_old(connection, device_id, int(self._gateway.limits.inbox_known))
            return accepted

        created, status = await self._gateway.store.run(work)
        if created:
            self._start(device_id)
        return InboxResponse.model_validate({"created": created, "message_id": message_id, "status": status})

    # -- life --

    def load(self, connection: sa.Connection) -> None:
        """Queue again what a crash cut off; before conversations are loaded, since its prompts are taken back."""
        self._unfinished = _recover(connection)

    def begin(self) -> None:
        """Work off what is there."""
        for device_id in self._unfinished:
            self._start(device_id)

    async def stop(self) -> None:
        """Begin no further message."""
        self._stopped = True
        workers = list(self._workers.values())
        for worker in workers:
            worker.cancel()
        if workers:
            await asyncio.wait(workers, timeout=1.0)

    def wake(self) -> None:
        """Look again whether a message can be run."""
        self._news.tell()

    def _departed(self, device: Device, how: Departure) -> None:
        if how == "paused" or device.scope != "agent":
            return
        # A gateway that stops looks again when it starts.
        self._gateway.store.run_unawaited(lambda connection: _drop(connection, device.device_id))
        self.wake()

    # -- working off --

    def _start(self, device_id: str) -> None:
        if device_id not in self._workers and not self._stopped:
            worker = asyncio.create_task(self._work(device_id))
            self._workers[device_id] = worker
            worker.add_done_callback(lambda done: self._worked(device_id, done))

    def _worked(self, device_id: str, worker: asyncio.Task[None]) -> None:
        if self._workers.get(device_id) is worker:
            del self._workers[device_id]
        if not worker.cancelled() and (error := worker.exception()) is not None:
            log.error("Working off the inbox of %s failed", device_id, exc_info=error)

    async def _work(self, device_id: str) -> None:
        while True:
            try:
                message = await self._gateway.store.run(lambda connection: _next(connection, device_id))
                if message is None:
                    # From here to the end nothing is awaited: what arrives now starts a worker of its own.
                    del self._workers[device_id]
                    return
                if (principal := await self._able(device_id)) is None:
                    await self._gateway.store.run(lambda connection: _drop(connection, device_id))
                    continue
                await self._run(principal, message)
            except SuzentError as error:
                if error.code == "stopping":
                    return
                log.debug("A message of %s waits: %s", device_id, error)
                await self._news.wait(_LOOK_SECONDS)

    async def _able(self, device_id: str) -> Principal | None:
        """Return whom to run a message for, once it can be; None if the grant is gone."""
        gateway = self._gateway
        while True:
            device = gateway.devices.by_id(device_id)
            if device is None:
                return None
            principal = peer_principal(device)
            granted = device.speaks and device.grant and device.grant.agent
            conversation = own_conversation(principal) or ""
            free = gateway.runs.running(device.account, conversation) is None
            if granted and free and gateway.agents.available(principal):
                return principal
            await self._news.wait(_LOOK_SECONDS)

    async def _run(self, principal: Principal, message: _Message) -> None:
        prompt = Prompt(
            text=message.content,
            origin="inbox",
            began=lambda run_id: _began(message.id, run_id),
            ended=lambda failed: _ended(message.id, "failed" if failed else "done"),
            again=lambda code: code in _RUN_AGAIN,
        )
        run = await self._gateway.runs.start(principal, own_conversation(principal) or "", prompt)
        await run.released.wait()
        if run.end is not None and run.end.code == "no_agent":
            await self._gateway.store.run(lambda connection: _requeue(connection, message.id))


# -- everything below runs on the store's thread --


def _accept(
    connection: sa.Connection, account: str, device_id: str, message_id: str, content: str, most: int
) -> tuple[bool, str]:
    import sqlalchemy as sa

    from ..schema import inbox

    known = connection.execute(
        sa.select(inbox.c.content, inbox.c.status).where(
            inbox.c.device_id == device_id, inbox.c.message_id == message_id
        )
    ).first()
    if known is not None:
        if known.content != content:
            raise SuzentError("idempotency_conflict", f"The message id '{message_id}' was another message's.")
        return False, known.status
    waiting = connection.execute(
        sa.select(sa.func.count()).where(inbox.c.device_id == device_id, inbox.c.status.in_(_WAITING))
    ).scalar_one()
    if waiting >= most:
        raise SuzentError("inbox_full", f"{waiting} messages of this peer wait already.")
    connection.execute(
        sa.insert(inbox).values(
            account=account,
            device_id=device_id,
            message_id=message_id,
            content=content,
            status="queued",
            run_id="",
            received_at=now_text(),
            finished_at="",
        )
    )
    return True, "queued"


def _forget_old(connection: sa.Connection, device_id: str, known: int) -> None:
    """Forget the oldest finished messages of a peer beyond those that are known when they are sent again."""
    import sqlalchemy as sa

    from ..schema import inbox

    finished = [inbox.c.device_id == device_id, inbox.c.status.not_in(_WAITING)]
    newest = sa.select(inbox.c.id).where(*finished).order_by(inbox.c.id.desc())
    last = connection.execute(newest.offset(known).limit(1)).scalar()
    if last is not None:
        connection.execute(sa.delete(inbox).where(*finished, inbox.c.id <= last))


def _recover(connection: sa.Connection) -> list[str]:
    import sqlalchemy as sa

    from ..schema import inbox

    connection.execute(
        sa.delete(inbox).where(inbox.c.status.not_in(_WAITING), inbox.c.finished_at < now_text(-_DONE_KEPT_SECONDS))
    )
    for row in connection.execute(sa.select(inbox.c.id).where(inbox.c.status == "running")).all():
        _requeue(connection, row.id)
    waiting = sa.select(inbox.c.device_id).where(inbox.c.status == "queued").distinct()
    return [row.device_id for row in connection.execute(waiting).all()]


def _requeue(connection: sa.Connection, row_id: int) -> None:
    """Take back a run of a message, with the prompt it left in the conversation."""
    import sqlalchemy as sa

    from ..schema import inbox

    row = connection.execute(sa.select(inbox).where(inbox.c.id == row_id, inbox.c.status == "running")).first()
    if row is not None:
        forget_prompt(connection, row.account, conversation_of_grant(row.device_id), row.run_id)
        _set(connection, row_id, status="queued", run_id="")


def _next(connection: sa.Connection, device_id: str) -> _Message | None:
    import sqlalchemy as sa

    from ..schema import inbox

    waiting = sa.select(inbox.c.id, inbox.c.content).where(inbox.c.device_id == device_id, inbox.c.status == "queued")
    row = connection.execute(waiting.order_by(inbox.c.id).limit(1)).first()
    return _Message(row.id, row.content) if row is not None else None


def _drop(connection: sa.Connection, device_id: str) -> None:
    import sqlalchemy as sa

    from ..schema import inbox

    connection.execute(sa.delete(inbox).where(inbox.c.device_id == device_id))


def _began(row_id: int, run_id: str) -> Also:
    return lambda connection: _set(connection, row_id, status="running", run_id=run_id)


def _ended(row_id: int, status: str) -> Also:
    return lambda connection: _set(connection, row_id, status=status, finished_at=now_text())


def _set(connection: sa.Connection, row_id: int, **values: Any) -> None:
    import sqlalchemy as sa

    from ..schema import inbox

    connection.execute(sa.update(inbox).where(inbox.c.id == row_id).values(**values))
