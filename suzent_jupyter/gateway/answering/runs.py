"""Turns: a prompt goes to an agent, what it says goes into one list that any number of readers follow.

A turn ends by itself, by its limits, by an explicit stop, or with the grant that asked for it; that a reader hung up
ends nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ...protocol.agents import Turn
from ...protocol.chat import RunInfo
from ...protocol.device import AGENT_COMMAND
from ...protocol.errors import SuzentError
from ...protocol.sse import run_error
from ...protocol.text import clean_text
from ...protocol.wire import Raw, encode_ascii
from ..audit import Row
from ..granting.coverage import require_agent
from ..principals import Authority, Principal
from . import model_agents, namespaces
from .conversations import NewTurn
from .icons import channel_of, is_local
from .run import End, Prompt, Run

if TYPE_CHECKING:
    from ..devices import Departure, Device
    from ..gateway import Gateway
    from ..session import NodeSession

log = logging.getLogger("suzent_jupyter")

_EVENTS_EACH_TURN = 16  # of the loop: an agent that never waits must not hold up all else
_AGENT_SECONDS = 2.0  # to clean up after being cancelled; then it is abandoned
_KEEP_SECONDS = 2.0  # for an answer to be on disk before its reader is told that it is over
_STOP_SECONDS = 2.5
_TURNS_TO_TELL = 8  # of the loop, before sockets close
_PEERS_SHARE = 0.75  # of the turns at once; the rest is for users
_ACCOUNTS_SHARE = 0.75  # of one account, where there are several
_RUNNING_TURNS_BYTES = 16  # times `run_bytes`: what those under way may take in all, beside small ones
_SMALL_SHARE = 0.25  # of `run_bytes`: a turn below it is not ended for the others' sake
_KEPT_TURNS_BYTES = 4  # times `run_bytes`: what finished turns may take in all
_KEPT_TURNS = 2000  # finished, however small


class Runs:
    """The turns of one gateway: those under way, and for a while those that are over."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limits = gateway.limits
        self._runs: dict[str, Run] = {}
        self._running: dict[tuple[str, str], Run] = {}
        self._finished: deque[Run] = deque()
        self._tasks: dict[asyncio.Task[None], Run] = {}
        self._loaded = False
        self._stopping = False
        #: Called when there is room for another turn, or a conversation is free again.
        self.freed: list[Callable[[], None]] = []
        gateway.departures.append(self._departed)
        gateway.conversations.is_active = self.is_active
        gateway.snapshots["runs"] = self.snapshot

    # -- starting --

    def check(self, principal: Principal, conversation_id: str) -> None:
        """Refuse a turn that can't start now.

        Raises
        ------
        SuzentError
            ``not_granted``, ``conversation_busy``, ``too_many_turns`` or ``stopping``.
        """
        require_agent(principal)
        if self._stopping:
            raise SuzentError("stopping", "The gateway is stopping.")
        busy = self._running.get((principal.account, conversation_id))
        if busy is not None:
            raise SuzentError(
                "conversation_busy", "A turn runs in this conversation already.", details={"run_id": busy.run_id}
            )
        if len(self._running) >= self._limits.runs_in_flight:
            raise SuzentError("too_many_turns", f"{len(self._running)} turns run at once already.")
        if principal.authority < Authority.FULL:
            self._check_share(principal)
        if self._gateway.waiting_account is None:
            own = sum(run.account == principal.account for run in self._running.values())
            if own >= self._limits.runs_in_flight * _ACCOUNTS_SHARE:
                raise SuzentError("too_many_turns", f"{own} turns of this account run at once already.")

    def _check_share(self, principal: Principal) -> None:
        """Refuse a peer more than its share: others must get their turns, and users before all."""
        peers = [run for run in self._running.values() if run.principal.authority < Authority.FULL]
        own = sum(run.principal.credential_id == principal.credential_id for run in peers)
        if own >= self._limits.runs_per_peer:
            raise SuzentError("too_many_turns", f"{own} turns of this grant run at once already.")
        if len(peers) >= self._limits.runs_in_flight * _PEERS_SHARE:
            raise SuzentError("too_many_turns", f"{len(peers)} turns of peers run at once already.")

    async def start(self, principal: Principal, conversation_id: str, prompt: Prompt) -> Run:
        """Start a turn; it is returned once its prompt is on disk.

        Raises
        ------
        SuzentError
            As :meth:`check`, or when the prompt can't be kept. ``prompt.clear`` is called then too.
        """
        run: Run | None = None
        try:
            self.check(principal, conversation_id)
            device = self._gateway.devices.by_id(principal.credential_id)
            if not self._gateway.still_speaks(principal):
                raise SuzentError("unauthorized", "This token was revoked or paused meanwhile.")
            caller = namespaces.caller_of(principal, device)
            run = Run(principal, conversation_id, caller, prompt)
            self._running[run.account, conversation_id] = run
            await self._load()
            turn = await self._begin(run, prompt)
        except BaseException:
            if run is not None:
                self._release(run)
            await prompt.clear()
            raise
        self._runs[run.run_id] = run
        run.append(self._events.run_started(conversation_id, run.run_id))
        self._publish(run, 0)
        self._tell(run, "added")
        task = asyncio.create_task(self._conduct(run, turn, prompt))
        self._tasks[task] = run
        task.add_done_callback(self._conducted)
        return run

    async def _load(self) -> None:
        """Load what turns need, off the event loop."""
        if self._loaded:
            return
        self._events: Any = await asyncio.to_thread(import_module, "suzent_jupyter.gateway.answering.turn_events")
        if self._gateway.agent_model:
            await asyncio.to_thread(model_agents.load)
        self._loaded = True

    async def _begin(self, run: Run, prompt: Prompt) -> Turn:
        caller, principal = run.caller, run.principal
        peer = caller.kind == "peer"
        detail: dict[str, Any] = {"caller": caller.model_dump()}
        if prompt.attachments:
            detail["attachments"] = [each.model_dump(exclude={"path"}) for each in prompt.attachments]
        if prompt.origin:
            detail["origin"] = prompt.origin
        if prompt.decision is not None:
            detail["routing"] = prompt.decision.model_dump()
        run.answer = self._events.Answer()
        kept = NewTurn(
            account=run.account,
            conversation_id=run.conversation_id,
            run_id=run.run_id,
            prompt=prompt.text,
            title=namespaces.title_of(caller, run.conversation_id, prompt.text),
            folder=prompt.folder or (namespaces.SOCIAL if peer else ""),
            device_id=caller.device_id,
            target_node_id=prompt.node_id,
            source_channel=(channel := channel_of(principal)),
            is_local_initiated=is_local(channel),
            is_enterprise=prompt.remote,
            detail=detail,
        )
        began = prompt.began(run.run_id) if prompt.began is not None else None
        history = await self._gateway.conversations.begin(kept, int(self._limits.history_messages), began)
        return Turn(
            run_id=run.run_id,
            conversation_id=run.conversation_id,
            message=prompt.text,
            history=history,
            attachments=prompt.attachments,
            caller=caller,
            note=" ".join(filter(None, (namespaces.note_of(principal, caller, run.conversation_id), prompt.note))),
            unattended=peer,
            may_use_asking_tools=(principal.grant.unattended_tools if principal.grant is not None else not peer)
            and not prompt.remote,
            is_remote_session=prompt.remote,
            chain=list(prompt.chain),
        )

    # -- under way --

    async def _conduct(self, run: Run, turn: Turn, prompt: Prompt) -> None:
        reading = asyncio.create_task(self._read(run, turn))
        both: list[asyncio.Future[Any]] = [reading, run.ending]
        await asyncio.wait(both, timeout=self._limits.run_ttl, return_when=asyncio.FIRST_COMPLETED)
        if reading.done():
            run.finish(_end_of(reading))
        else:
            reading.cancel()
            seconds = int(self._limits.run_ttl)
            run.finish(End("failed", "run_expired", f"The turn took longer than {seconds} s (limit run_ttl)."))
        end = run.ending.result()
        await self._keep(run, end, prompt)
        self._close(run, end)
        if not reading.done():
            await asyncio.wait([reading], timeout=_AGENT_SECONDS)
            if not reading.done():
                log.warning("The agent '%s' ignores that its turn is over; it is left behind.", run.agent)
            reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        await prompt.clear()

    async def _read(self, run: Run, turn: Turn) -> None:
        agent = run.prompt.agent or self._gateway.agents.choose(run.principal)
        run.agent = clean_text(agent.name, 64)
        if run.closing:
            return
        self._tell(run, "changed")
        iterator = agent.run(turn)
        assert run.answer is not None
        try:
            count = 0
            async for event in iterator:
                if run.closing:
                    return
                self._take(run, run.answer.take(event))
                count += 1
                if count % _EVENTS_EACH_TURN == 0:
                    await asyncio.sleep(0)
        finally:
            close = getattr(iterator, "aclose", None)
            if close is not None:
                with contextlib.suppress(RuntimeError):  # it goes on although it was told to end
                    await close()

    def _take(self, run: Run, events: Iterable[bytes]) -> None:
        for data in events:
            if run.bytes + len(data) > self._limits.run_bytes:
                size = int(self._limits.run_bytes)
                raise SuzentError("turn_limit", f"The answer takes more than {size:,} bytes (limit run_bytes).")
            if run.bytes > self._limits.run_bytes * _SMALL_SHARE and self._is_full():
                error = SuzentError("turn_limit", "The answers under way take too much memory; try again later.")
                run.finish(End.of(error))  # at once: it makes room, so that not all of them end
                raise error
            run.append(data)
            self._publish(run, len(run.events) - 1)

    def _is_full(self) -> bool:
        taken = sum(each.bytes for each in self._running.values() if not each.closing)
        return taken > _RUNNING_TURNS_BYTES * self._limits.run_bytes

    # -- ending --

    def _departed(self, device: Device, how: Departure) -> None:
        """End every turn that a token's holder asked for."""
        message = "Control was revoked." if how == "revoked" else "Control was paused."
        for run in list(self._running.values()):
            if run.principal.credential_id == device.device_id:
                run.finish(End.of(SuzentError("revoked", message)))
        for run in self._runs.values():
            run.wake()  # its readers may be of that token, whoever asked for the turn

    async def stop_turn(self, principal: Principal, conversation_id: str) -> None:
        """Stop the turn that runs in a conversation; returns when another could start there.

        Raises
        ------
        SuzentError
            ``nothing_running``.
        """
        run = self.running(principal.account, conversation_id)
        if run is None:
            raise SuzentError("nothing_running", "No turn runs in this conversation.")
        self._stop(principal, run)
        await run.released.wait()

    def abort(self, principal: Principal, run_id: str) -> None:
        """Stop a turn of the caller's account; one that has ended stays as it is. ``run_unknown`` for any other."""
        self._stop(principal, self.find(principal, run_id))

    def _stop(self, principal: Principal, run: Run) -> None:
        if not run.closing:
            row = Row(run.account, principal.actor, "turn.stop", node_id=run.caller.device_id, node=run.caller.name)
            row.detail = {"conversation": run.conversation_id, "run_id": run.run_id}
            self._gateway.audit.record(row)
        run.finish(End("stopped"))

    def end_all(self) -> None:
        """End every turn with ``stopping``, and begin no other."""
        self._stopping = True
        for run in list(self._running.values()):
            run.finish(End.of(SuzentError("stopping", "The gateway is stopping.")))

    async def stop(self) -> None:
        """End every turn and wait, within a bound, until what there is has been kept."""
        self.end_all()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=_STOP_SECONDS)

    async def told(self) -> None:
        """Wait, within a bound, until turns that were ended are over and their watchers had a moment to say so."""
        ends = [asyncio.ensure_future(run.ended()) for run in self._runs.values() if not run.over]
        if not ends:
            return
        _, late = await asyncio.wait(ends, timeout=_KEEP_SECONDS)
        for each in late:
            each.cancel()
        for _ in range(_TURNS_TO_TELL):
            await asyncio.sleep(0)

    async def _keep(self, run: Run, end: End, prompt: Prompt) -> None:
        """Write the answer before its readers learn that it is over."""
        if prompt.again(end.code):
            return
        assert run.answer is not None
        detail: dict[str, Any] = {"agent": run.agent}
        if tools := run.answer.tools:
            detail["tools"] = tools
        if end.message:
            detail["error"] = end.message
        writing = asyncio.ensure_future(
            self._gateway.conversations.end(
                run.account,
                run.conversation_id,
                run.run_id,
                text=run.answer.text,
                outcome=end.outcome,
                detail=detail,
                also=prompt.ended(end.status == "failed") if prompt.ended is not None else None,
            )
        )
        writing.add_done_callback(_log_unwritten)
        await asyncio.wait([writing], timeout=_KEEP_SECONDS)

    def _close(self, run: Run, end: End) -> None:
        assert run.answer is not None
        last = run.answer.close() if end.status != "failed" else []
        if end.status == "failed":
            last.append(encode_ascii(run_error(end.code, end.message)))
        else:
            cancelled = end.status == "stopped"
            last.append(self._events.run_finished(run.conversation_id, run.run_id, cancelled=cancelled))
        for data in last:
            run.append(data)
            self._publish(run, len(run.events) - 1)
        run.close(end)
        # What was asked is on disk; here it would count for nothing that is limited.
        run.prompt = replace(run.prompt, text="", attachments=[], agent=None, decision=None)
        self._tell(run, "changed")
        self._note(run, end)
        self._finished.append(run)
        asyncio.get_running_loop().call_later(self._limits.run_kept, self._forget, run.run_id)
        kept = sum(each.bytes for each in self._finished)
        while kept > _KEPT_TURNS_BYTES * self._limits.run_bytes or len(self._finished) > _KEPT_TURNS:
            kept -= self._finished[0].bytes
            self._forget(self._finished[0].run_id)

    def _note(self, run: Run, end: End) -> None:
        peer = run.caller.kind == "peer"
        self._gateway.audit.record(
            Row(
                run.account,
                run.principal.actor,
                "turn",
                node_id=run.caller.device_id,
                node=run.caller.name if peer else "",
                outcome="ok" if end.status == "done" else end.outcome,
                duration_ms=(time.monotonic() - run.started) * 1000,
                detail={"conversation": run.conversation_id, "run_id": run.run_id, "agent": run.agent},
            )
        )

    def _forget(self, run_id: str) -> None:
        run = self._runs.pop(run_id, None)
        if run is not None:
            self._finished.remove(run)

    def _conducted(self, task: asyncio.Task[None]) -> None:
        run = self._tasks.pop(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("A turn failed inside the gateway", exc_info=error)
        if not run.over:
            self._close(run, End("failed", "internal", "The gateway failed on this turn."))
        self._release(run)

    def _release(self, run: Run) -> None:
        self._running.pop((run.account, run.conversation_id), None)
        run.released.set()
        self._gateway.conversations.tell(run.account, run.conversation_id)
        for hear in self.freed:
            hear()

    # -- looking --

    def running(self, account: str, conversation_id: str) -> Run | None:
        """Return the turn under way in a conversation."""
        return self._running.get((account, conversation_id))

    def executed_by(self, node_id: str) -> list[Run]:
        """Return the turns under way that a node's agent answers, oldest first; also those that nobody chose it for."""
        session = self._gateway.registry.by_id(node_id)
        given = {run.run_id for run in self.executed_in(session)} if session is not None else set()
        return [
            run
            for run in self._running.values()
            if (run.prompt.node_id == node_id or run.run_id in given) and not run.closing
        ]

    def executed_in(self, session: NodeSession) -> list[Run]:
        """Return the turns under way that a node was given, oldest first; also those that nobody chose it for."""
        # A device's agent is called; what others say of such calls is no proof, and they hear no events of it.
        calls = [call for call in session.calls.values() if call.on_agent_event is not None]
        asked = [call.origin for call in calls if call.command == AGENT_COMMAND and call.origin]
        wanted = dict.fromkeys([*session.executing, *(str(origin.get("run_id")) for origin in asked)])
        given = [self._runs[run_id] for run_id in wanted if run_id in self._runs]
        return [run for run in given if not run.closing]

    def is_active(self, account: str, conversation_id: str) -> bool:
        """Tell whether one is."""
        run = self.running(account, conversation_id)
        return run is not None and not run.over

    def find(self, principal: Principal, run_id: str) -> Run:
        """Return a turn that a caller may read; ``run_unknown`` otherwise, and once it is over for too long."""
        run = self._runs.get(run_id)
        if run is None or run.account != principal.account or not namespaces.owns(principal, run.conversation_id):
            raise SuzentError("run_unknown", "There is no such turn, or not any more.")
        return run

    def under_way(self, principal: Principal, run_id: str) -> Run | None:
        """Return a turn of the caller's that goes on; None where there is none, ``cancelled`` for one that ends now."""
        try:
            run = self.find(principal, run_id)
        except SuzentError:
            return None
        if run.closing:
            raise SuzentError("cancelled", "The turn that asks is over.")
        return run

    def snapshot(self, principal: Principal) -> list[RunInfo]:
        """Return the turns of the caller's account, oldest first."""
        return [run.info() for run in self._runs.values() if run.account == principal.account]

    # -- telling --

    def _tell(self, run: Run, kind: str) -> None:
        self._gateway.changes.publish(
            "runs", kind, lambda: run.info().model_dump(), lambda principal: principal.account == run.account
        )

    def _publish(self, run: Run, seq: int) -> None:
        self._gateway.changes.publish(
            "turns",
            "added",
            lambda: {"run_id": run.run_id, "seq": seq, "event": Raw(run.events[seq])},
            lambda principal: principal.account == run.account,
        )


def _end_of(reading: asyncio.Task[None]) -> End:
    """Return how an agent's own end looks from outside; what went wrong inside goes to the log alone."""
    error = asyncio.CancelledError() if reading.cancelled() else reading.exception()
    if error is None:
        return End("done")
    if isinstance(error, SuzentError):
        return End.of(error)
    log.error("An agent failed in a turn", exc_info=error)
    return End("failed", "agent_failed", "The agent failed.")


def _log_unwritten(writing: asyncio.Future[None]) -> None:
    if not writing.cancelled() and (error := writing.exception()) is not None:
        log.error("An answer could not be kept: %s", error)
