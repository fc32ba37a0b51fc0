"""The prompts of one gateway: asked of the surfaces that may answer, closed by the first answer."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections import OrderedDict
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ...protocol.errors import SuzentError
from ...protocol.permissions import FEATURE, Decision, PermissionInfo, Reason, Remember
from ...protocol.text import clean_text
from ...protocol.wire import encode_ascii
from ..answering import namespaces
from ..clock import now_text
from ..registry import Registry
from .distribution import Audience, Place, distribute
from .history import History
from .prompt import Prompt, Question, resolved_frame
from .remembered import Key, Remembered
from .surfaces import Surfaces

if TYPE_CHECKING:
    import sqlalchemy as sa

    from ..devices import Departure, Device
    from ..gateway import Gateway
    from ..principals import Principal
    from ..session import NodeSession

log = logging.getLogger("suzent_jupyter")

T = TypeVar("T")

__all__ = ["Permissions", "Question"]

_KNOWN = 1024  # closed prompts that are known without the store
_SWEEP_SECONDS = 3600.0
_OTHERS = 32  # prompts of other accounts that one device is shown at once; ours shows 64, its owner's among them
#: How a prompt ends that somebody has answered, now or earlier.
_ANSWERED = frozenset(["answered", "remembered", "granted", "no_interface"])


class Permissions:
    """Asks, and takes answers.

    Parameters
    ----------
    gateway : Gateway
        Whose surfaces are asked.

    Attributes
    ----------
    surfaces : Surfaces
        The sockets of people, as they open and close.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._limits = gateway.limits
        self._history = History(
            gateway.store, gateway.audit, gateway.limits.permission_history, int(gateway.limits.audit_rows)
        )
        self._remembered = Remembered(int(gateway.limits.permissions_remembered))
        self._open: dict[str, Prompt] = {}
        self._over: OrderedDict[str, tuple[PermissionInfo, Audience]] = OrderedDict()
        self._writing: set[asyncio.Task[Any]] = set()
        self._sweep: asyncio.TimerHandle | None = None
        self._stopping = False
        self.surfaces = Surfaces()
        gateway.departures.append(self._departed)
        gateway.snapshots["permissions"] = self.waiting

    # -- life --

    def load(self, connection: sa.Connection) -> None:
        """Close what an earlier life of the gateway left open."""
        self._history.load(connection)

    def start(self) -> None:
        """Sweep from now on."""
        seconds = min(_SWEEP_SECONDS, self._limits.permission_history)
        self._sweep = asyncio.get_running_loop().call_later(seconds, self._sweep_now)

    def _sweep_now(self) -> None:
        self._write(self._history.sweep())
        self.start()

    async def stop(self) -> None:
        """Deny what still waits: nobody will be there to answer."""
        self._stopping = True
        if self._sweep is not None:
            self._sweep.cancel()
        for prompt in list(self._open.values()):
            self._end(prompt, "restarted", SuzentError("stopping", "The gateway is stopping."))
        if self._writing:
            await asyncio.wait(list(self._writing), timeout=2.0)

    # -- asking --

    async def require(self, question: Question) -> None:
        """Return once it is allowed; recorded either way. Cancelling the task closes the prompt.

        Raises
        ------
        SuzentError
            ``permission_denied``, ``permission_expired``, ``permission_needed`` (nobody can be asked),
            ``not_granted``, ``too_many_permissions``, ``node_disconnected``, ``cancelled`` with the turn,
            ``unauthorized`` with the caller's token, ``stopping``, ``store_failed`` or ``store_unreadable``.
        """
        if self._stopping:
            raise SuzentError("stopping", "The gateway is stopping.")
        if question.executor is not None and not question.executor.alive:
            raise _gone(question.executor)
        audience = self._audience(question.principal, question.executor)
        key = _key(question)
        info = self._info(question, audience)
        if audience.relation == "grant":
            await self._by_grant(question, info, audience)
        elif (answer := self._remembered.get(key)) is not None:
            decision, by = answer
            await self._record(info, audience, decision, "remembered", by)
            if decision == "deny":
                raise _denied(info)
        elif not self._somebody(audience):
            await self._record(info, audience, "deny", "no_interface")
            raise SuzentError(
                "permission_needed", f"{_what(info)} needs somebody's permission, and nobody can be asked."
            )
        else:
            self._check_room(question)
            await self._ask(Prompt(question, audience, info, key))

    def can_ask(self, principal: Principal, executor: NodeSession | None) -> bool:
        """Tell whether there is anybody whom a prompt would reach now."""
        return self._somebody(self._audience(principal, executor))

    def _audience(self, principal: Principal, executor: NodeSession | None) -> Audience:
        place = None if executor is None else Place(executor.node_id, executor.device.account)
        return distribute(principal, place, self._asks_people)

    def _asks_people(self, node_id: str) -> bool:
        session = self._gateway.registry.by_id(node_id)
        return session is not None and FEATURE in (session.features or ()) and session.device.speaks

    def _somebody(self, audience: Audience) -> bool:
        return bool(audience.nodes) or (audience.web and self.surfaces.any(audience.account))

    def _info(self, question: Question, audience: Audience) -> PermissionInfo:
        executor, run = question.executor, question.run
        conversation = run.conversation_id if run is not None else ""
        if conversation and audience.relation == "cross_account":
            conversation = namespaces.name_elsewhere(question.principal.account, conversation)
        return PermissionInfo(
            id=secrets.token_hex(12),  # read aloud and typed, its first characters at the least
            tool=question.summary.command,
            summary=question.summary,
            relation=audience.relation,
            caller=self._caller(question.principal),
            node_id=executor.node_id if executor is not None else "",
            node_name=clean_text(executor.display_name, 64) if executor is not None else "",
            run_id=run.run_id if run is not None else "",
            top_run_id=(run.prompt.top_run or run.run_id) if run is not None else "",
            conversation_id=conversation,
            call_id=question.call_id if audience.relation == "web" else "",
            asked_at=now_text(),
            expires_at=now_text(self._limits.permission_ttl),
        )

    def _caller(self, principal: Principal) -> str:
        device = self._gateway.devices.by_id(principal.credential_id) if principal.credential_id else None
        account = clean_text(principal.account, 64)
        name = clean_text(device.display_name, 64) if device is not None else ""
        return f"{account} ({name})" if name else account

    async def _by_grant(self, question: Question, info: PermissionInfo, audience: Audience) -> None:
        """Nobody is asked: the operator has ticked the box, or not."""
        grant = question.principal.grant
        if grant is not None and grant.unattended_tools:
            await self._record(info, audience, "allow", "granted", question.principal.actor)
            return
        await self._record(info, audience, "deny", "no_interface")
        raise SuzentError(
            "not_granted",
            f"{_what(info)} would ask somebody first, and in this turn nobody may be asked.",
            hint="Do without it, and tell who asked that its grant does not cover it.",
        )

    def _check_room(self, question: Question) -> None:
        """Refuse more prompts of one account than anybody could answer, and more than fits into memory."""
        account = question.principal.account
        waiting = [prompt for prompt in self._open.values() if prompt.question.principal.account == account]
        if len(waiting) >= self._limits.permissions_open:
            raise SuzentError("too_many_permissions", f"{len(waiting)} prompts wait to be answered already.")
        if sum(prompt.question.size for prompt in waiting) + question.size > self._limits.waiting_bytes:
            raise SuzentError("too_many_permissions", "What waits for an answer takes too much memory already.")
        executor = question.executor
        if executor is None or executor.device.account == account:
            return
        there = [prompt for prompt in self._open.values() if prompt.info.node_id == executor.node_id]
        if sum(prompt.audience.relation == "cross_account" for prompt in there) >= _OTHERS:
            raise SuzentError(
                "too_many_permissions", f"{_OTHERS} prompts of other accounts wait at {executor.display_name} already."
            )

    async def _ask(self, prompt: Prompt) -> None:
        question, info = prompt.question, prompt.info
        executor, ending = question.executor, question.run.ending if question.run is not None else None

        def lost(error: SuzentError) -> None:
            self._end(prompt, "disconnected", error)

        def over(_: Any) -> None:
            self._end(prompt, "cancelled", SuzentError("cancelled", "The turn that asked is over."))

        self._open[info.id] = prompt
        if executor is not None:
            executor.at_end.add(lost)
        if ending is not None:
            ending.add_done_callback(over)
        try:
            await self._history.asked(info, prompt.audience)
            if not prompt.answered.done():
                self._show(prompt)
            await prompt.answered
        except asyncio.CancelledError:
            self._end(prompt, "cancelled", None)
            raise
        finally:
            if executor is not None:
                executor.at_end.discard(lost)
            if ending is not None:
                ending.remove_done_callback(over)
            if not prompt.shown:
                self._open.pop(info.id, None)
            if prompt.timer is not None and not prompt.deciding:
                prompt.timer.cancel()
            if prompt.answered.done() and not prompt.answered.cancelled():
                prompt.answered.exception()

    def _show(self, prompt: Prompt) -> None:
        """Ask. It is on disk by now."""
        prompt.shown = True
        loop = asyncio.get_running_loop()
        prompt.timer = loop.call_later(self._limits.permission_ttl, self._expire, prompt)
        self._tell(prompt.audience, prompt.request_frame())
        self._publish("added", prompt.info, prompt.audience)
        if prompt.question.on_asked is not None:
            prompt.question.on_asked(prompt.info)

    def open_frames(self, principal: Principal) -> list[dict[str, Any]]:
        """Return what a socket of people is told when it opens: the prompts that wait."""
        return [prompt.request_frame() for prompt in self._waiting(principal)]

    # -- how a prompt ends --

    async def answer(
        self, principal: Principal, prompt_id: str, decision: Decision, remember: Remember
    ) -> PermissionInfo:
        """Close a prompt for a caller who was asked. The answer counts once it is on disk.

        Raises
        ------
        SuzentError
            ``permission_unknown`` (also for prompts others were asked), ``permission_expired``,
            ``permission_resolved``, ``paused`` for a node that is, ``store_failed``.
        """
        prompt = self._open.get(prompt_id)
        if prompt is None or not prompt.shown:
            raise await self._too_late(principal, prompt_id)
        if not prompt.audience.may_answer(principal):
            raise _unknown()
        if not self._gateway.still_speaks(principal):
            raise SuzentError("paused", "The gateway's operator has paused this device.")
        if prompt.deciding:
            raise SuzentError("permission_resolved", "Somebody else answered it first.")
        prompt.deciding = True
        # Whoever answers may hang up: the answer is given.
        return await asyncio.shield(self._write(self._decide(prompt, principal.actor, decision, remember)))

    async def _decide(self, prompt: Prompt, by: str, decision: Decision, remember: Remember) -> PermissionInfo:
        kept: Remember = remember if prompt.key is not None else "once"
        closed = _closed(prompt.info, decision, "answered", by, kept)
        try:
            await self._history.closed(closed, prompt.audience)
        except BaseException:
            prompt.deciding = False
            if prompt.answered.done():
                self._close(prompt, _closed(prompt.info, "deny", "cancelled"))
            elif prompt.overdue:
                self._expire(prompt)
            raise
        if kept == "session" and prompt.key is not None and not prompt.answered.done():
            self._remembered.put(prompt.key, decision, by)
        self._close(prompt, closed)
        if not prompt.answered.done():
            if decision == "allow":
                prompt.answered.set_result(None)
            else:
                prompt.answered.set_exception(_denied(closed))
        return closed

    def _expire(self, prompt: Prompt) -> None:
        if prompt.deciding:
            prompt.overdue = True  # an answer came in time
            return
        seconds = self._limits.permission_ttl
        message = f"Nobody allowed {_what(prompt.info)} within {seconds:g} s."
        self._end(
            prompt, "expired", SuzentError("permission_expired", message, hint="Ask again when somebody is there.")
        )

    def _end(self, prompt: Prompt, reason: Reason, error: SuzentError | None) -> None:
        """Close a prompt that nobody answered; whoever waits for it gets the error."""
        if not prompt.deciding and prompt.info.id in self._open:
            closed = _closed(prompt.info, "deny", reason)
            self._write(self._history.closed(closed, prompt.audience))
            self._close(prompt, closed)
        if error is not None and not prompt.answered.done():
            prompt.answered.set_exception(error)

    def _close(self, prompt: Prompt, closed: PermissionInfo) -> None:
        if self._open.pop(closed.id, None) is None:
            return
        if prompt.timer is not None:
            prompt.timer.cancel()
        prompt.info = closed
        self._over[closed.id] = (closed, prompt.audience)
        while len(self._over) > _KNOWN:
            self._over.popitem(last=False)
        if prompt.shown:
            self._tell(prompt.audience, resolved_frame(closed))
            self._publish("removed", closed, prompt.audience)

    async def _record(
        self, info: PermissionInfo, audience: Audience, decision: Decision, reason: Reason, by: str = ""
    ) -> None:
        """Write down a prompt that nobody had to see."""
        await self._history.closed(_closed(info, decision, reason, by), audience)

    async def _too_late(self, principal: Principal, prompt_id: str) -> SuzentError:
        found = self._over.get(prompt_id)
        if found is None and 0 < len(prompt_id) <= 64:
            found = await self._history.find(prompt_id)
        if found is None or not found[1].may_answer(principal):
            return _unknown()
        info, _ = found
        if not info.decision:
            return _unknown()
        if info.reason in _ANSWERED:
            by = f" by {info.by}" if info.by else ""
            return SuzentError("permission_resolved", f"It was answered already{by}: {info.decision}.")
        why = {
            "expired": "Nobody answered it in time.",
            "disconnected": f"{info.node_name or 'The node'} is gone.",
            "restarted": "The gateway was started anew.",
        }
        return SuzentError("permission_expired", why.get(info.reason, "Whoever asked does not wait any more."))

    # -- what ends with others --

    def _departed(self, device: Device, how: Departure) -> None:
        """Close what a token asked for that speaks for nobody any more, and forget what was allowed."""
        error = SuzentError("unauthorized", f"The caller's token was {how}.", hint="Ask the operator.")
        for prompt in list(self._open.values()):
            if prompt.question.principal.credential_id == device.device_id:
                self._end(prompt, "cancelled", error)
        if how == "revoked":
            self._remembered.forget(lambda key: device.device_id in (key.node_id, key.credential_id))

    def shared_anew(self, device: Device) -> None:
        """Close the prompts of those who may not see a node any more."""
        for prompt in list(self._open.values()):
            executor, principal = prompt.question.executor, prompt.question.principal
            if executor is not None and executor.device is device and not Registry.sees(principal, device):
                error = SuzentError("node_disconnected", f"{executor.display_name} is no longer shared.")
                self._end(prompt, "disconnected", error)
        self._remembered.forget(lambda key: key.node_id == device.device_id and key.account != device.account)

    def origin_closed(self, origin: object) -> None:
        """Forget what was allowed for the calls of a socket."""
        self._remembered.forget(lambda key: key.origin is origin)

    # -- looking --

    def waiting(self, principal: Principal) -> list[PermissionInfo]:
        """Return the open prompts that wait for this caller, oldest first."""
        return [prompt.info for prompt in self._waiting(principal)]

    def _waiting(self, principal: Principal) -> list[Prompt]:
        return [prompt for prompt in self._open.values() if prompt.shown and prompt.audience.may_answer(principal)]

    async def history(self, principal: Principal, limit: int) -> list[PermissionInfo]:
        """Return the closed ones of the caller's account, newest first."""
        if self._writing:
            await asyncio.wait(list(self._writing))
        return await self._history.page(principal.account, limit)

    # -- telling --

    def _tell(self, audience: Audience, frame: dict[str, Any]) -> None:
        encoded = encode_ascii(frame)
        for node_id in audience.nodes:
            session = self._gateway.registry.by_id(node_id)
            if session is not None and FEATURE in (session.features or ()):
                session.send_frame(encoded)
        if audience.web:
            self.surfaces.tell(audience.account, frame)

    def _publish(self, kind: str, info: PermissionInfo, audience: Audience) -> None:
        if audience.web:
            self._gateway.changes.publish("permissions", kind, info.model_dump, audience.may_answer)

    def _write(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Do it although nobody may wait for it; what fails then is in the log."""
        task = asyncio.create_task(work)
        self._writing.add(task)
        task.add_done_callback(partial(_written, self._writing))
        return task


def _written(writing: set[asyncio.Task[Any]], task: asyncio.Task[Any]) -> None:
    writing.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.debug("How a permission prompt ended could not be kept: %s", error)


def _closed(
    info: PermissionInfo, decision: Decision, reason: Reason, by: str = "", remember: Remember = "once"
) -> PermissionInfo:
    changes = {"decision": decision, "reason": reason, "by": by, "remember": remember, "resolved_at": now_text()}
    return info.model_copy(update=changes)


def _key(question: Question) -> Key | None:
    """Return what an answer may be remembered for; None where there is nothing that it could end with."""
    principal, executor, run = question.principal, question.executor, question.run
    node_id = executor.node_id if executor is not None else ""
    what = (principal.account, node_id, question.summary.command, question.own_tool)
    if run is not None:
        return Key(*what, conversation_id=run.conversation_id)
    if question.origin is not None:
        return Key(*what, credential_id=principal.credential_id, origin=question.origin)
    return None


def _what(info: PermissionInfo) -> str:
    place = f" on {info.node_name}" if info.node_name else ""
    return f"'{clean_text(info.tool, 128)}'{place}"


def _denied(info: PermissionInfo) -> SuzentError:
    return SuzentError("permission_denied", f"{_what(info)} was not allowed.", hint="Do without it.")


def _unknown() -> SuzentError:
    return SuzentError(
        "permission_unknown",
        "No prompt of that id waits for your answer.",
        hint="`%suzent permissions` lists those that do.",
    )


def _gone(executor: NodeSession) -> SuzentError:
    return SuzentError("node_disconnected", f"{executor.display_name} disconnected.")
