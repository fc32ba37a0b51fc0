"""Calls to nodes: checked here, sent to the device, ended by its result, its silence or its end."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable
from itertools import count
from typing import Any

import msgspec

from ..protocol.capabilities import CapabilitySchema
from ..protocol.device import AGENT_COMMAND
from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from ..protocol.params import check_params, read_timeout
from ..protocol.text import clean_text
from ..protocol.wire import Raw, ResultFrame, decode, encode
from .agent_terms import on_terms
from .artifacts.call_files import CallFiles, params_limit
from .audit import Audit, Row
from .calls import Call, Outcome
from .devices import Departure, Device
from .failures import internal
from .granting.coverage import require_command
from .idempotency import Idempotency
from .principals import Principal
from .registry import Registry
from .session import NodeSession
from .settings import Settings

_ERROR_CHARS = 4000
_LATE_DETAIL_BYTES = 4096


class Prepared(msgspec.Struct, frozen=True, eq=False):
    """A call that was checked, and can't be changed any more; nothing of it has been sent.

    Attributes
    ----------
    session : NodeSession
        Where it will run.
    capability : CapabilitySchema, optional
        What will; None where ``earlier`` is given.
    params : bytes or memoryview
        Checked and encoded.
    seconds : float
        Its deadline, counted from its launch.
    has_files : bool
        Whether there may be large files in the parameters.
    earlier : asyncio.Future, optional
        The end of the same call, where it was made before with its idempotency key.
    """

    principal: Principal
    session: NodeSession
    command: str
    capability: CapabilitySchema | None
    params: bytes | memoryview
    seconds: float
    on_progress: Callable[[dict[str, Any]], None] | None = None
    on_agent_event: Callable[[Any, int], None] | None = None
    origin: dict[str, Any] | None = None
    idempotency: tuple[str, str] | None = None
    fingerprint: bytes = b""
    has_files: bool = False
    earlier: asyncio.Future[Outcome] | None = None


class Dispatcher:
    """The way of every call: prepared, then launched. Neither waits: it is done, or refused at once."""

    def __init__(self, registry: Registry, settings: Settings, audit: Audit, limits: Limits) -> None:
        self._registry = registry
        self._settings = settings
        self._audit = audit
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._idempotency = Idempotency(limits, self._loop.time)
        #: Keeps the large files in parameters; None where nothing is kept.
        self.files: CallFiles | None = None
        self._request_ids = count(1)
        self._request_prefix = secrets.token_hex(4)

    def submit(
        self, principal: Principal, node: str, command: str, params: Raw, **more: Any
    ) -> asyncio.Future[Outcome]:
        """Start a call that nobody need be asked about: :meth:`prepare`, then :meth:`launch`."""
        return self.launch(self.prepare(principal, node, command, params, **more))

    def prepare(
        self,
        principal: Principal,
        node: str,
        command: str,
        params: Raw,
        *,
        timeout: Any = None,
        idempotency_key: str | None = None,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        on_agent_event: Callable[[Any, int], None] | None = None,
        origin: dict[str, Any] | None = None,
    ) -> Prepared:
        """Check a call and freeze what will be sent.

        Parameters
        ----------
        principal : Principal
            Who calls; nodes it may not see do not exist.
        node, command, timeout, idempotency_key
            As in :class:`~suzent_jupyter.protocol.rest.InvokeRequest`.
        params : Raw
            The parameters object as raw JSON; unpacked only where the capability declares what it takes.
        on_progress : callable, optional
            Called with ``{seq, fraction, message, data}``.
        on_agent_event : callable, optional
            Called with each frame ``agent.event`` as the device sent it, and its bytes.
        origin : dict, optional
            Kept in the audit trail.

        Raises
        ------
        SuzentError
            When the call is refused.
        """
        seconds = read_timeout(timeout, self._limits.invoke_timeout, self._limits.invoke_timeout_max)
        self._settings.check_nodes_enabled()
        self.check_grant(principal, command, origin)
        session = self._registry.find(principal, node)
        key, fingerprint = None, b""
        try:
            if idempotency_key is not None:
                key, fingerprint = _key(principal, idempotency_key), _fingerprint(session.node_id, command, params)
                earlier = self._idempotency.find(key, fingerprint)
                if earlier is not None:
                    return Prepared(principal, session, command, None, b"", seconds, earlier=earlier)
            if command == AGENT_COMMAND and on_agent_event is None:
                params = on_terms(principal, session, params)
            capability, encoded, has_files = self._check(principal, session, command, params)
        except SuzentError as error:
            self._note(principal, session, command, error.code, None, origin)
            raise
        return Prepared(
            principal,
            session,
            command,
            capability,
            encoded,
            seconds,
            on_progress,
            on_agent_event,
            origin,
            key,
            fingerprint,
            has_files,
        )

    def launch(self, prepared: Prepared) -> asyncio.Future[Outcome]:
        """Start a call.

        Returns
        -------
        asyncio.Future of Outcome
            Cancelling it cancels the call on the device. It may also end with ``deadline``, ``node_disconnected``,
            ``revoked``, ``too_large`` or ``bad_answer``.

        Raises
        ------
        SuzentError
            ``node_busy``: the device does not hear of it.
        """
        if prepared.earlier is not None:
            return prepared.earlier
        try:
            future = self._launch(prepared, prepared.params, prepared.has_files)
        except SuzentError as error:
            self.note_refused(prepared, error.code)
            raise
        return self.hold(prepared, future)

    def launch_allowed(self, prepared: Prepared, params: bytes) -> asyncio.Future[Outcome]:
        """Start a call that somebody has allowed meanwhile; ``params`` is what they were shown.

        Raises
        ------
        SuzentError
            When it may not run any more: the node is gone or paused, its command was withdrawn, the caller may not see
            it now; or ``node_busy``.
        """
        session = prepared.session
        require_command(prepared.principal, prepared.command)
        self._check_again(prepared.principal, session, prepared.command)
        return self._launch(prepared, params, self._has_files(session, params))

    def hold(self, prepared: Prepared, future: asyncio.Future[Outcome]) -> asyncio.Future[Outcome]:
        """Return the caller's future of a call: its own, where others may come with the same idempotency key."""
        if prepared.idempotency is None:
            return future
        return self._idempotency.hold(prepared.idempotency, prepared.fingerprint, future)

    def note_refused(self, prepared: Prepared, code: str) -> None:
        """Write down that a call did not come to be."""
        self._note(prepared.principal, prepared.session, prepared.command, code, None, prepared.origin)

    def _launch(self, prepared: Prepared, params: bytes | memoryview, has_files: bool) -> asyncio.Future[Outcome]:
        session, started = prepared.session, self._loop.time()
        call = Call(
            f"{self._request_prefix}-{next(self._request_ids)}",
            session.node_id,
            session.display_name,
            prepared.command,
            prepared.principal,
            self._loop.create_future(),
            started,
            started + prepared.seconds,
            params,
            prepared.on_progress,
            prepared.on_agent_event,
            prepared.origin,
            prepared.idempotency,
            prepared.fingerprint,
        )
        if has_files:
            self._prepare(session, call)
        else:
            session.submit(call)
        call.timer = self._loop.call_at(call.deadline, self._deadline, session, call, prepared.seconds)
        call.future.add_done_callback(lambda done: self._ended(session, call, done))
        return call.future

    def check_grant(self, principal: Principal, command: str, origin: dict[str, Any] | None = None) -> None:
        """Refuse what a control grant does not cover, before a word about which nodes there are."""
        try:
            require_command(principal, command)
        except SuzentError as error:
            row = Row(principal.account, principal.actor, "invoke", command=command[:128], outcome=error.code)
            row.origin = origin
            self._audit.record(row)
            raise

    def _check(
        self, principal: Principal, session: NodeSession, command: str, params: Raw
    ) -> tuple[CapabilitySchema, bytes | memoryview, bool]:
        self._check_state(session, command)
        capability = session.capability(command, principal)
        if capability.params_schema or capability.input_schema:
            encoded: bytes | memoryview = encode(check_params(capability, _object(params), session.platform))
        else:
            encoded = _raw_object(params)
        has_files = self._has_files(session, encoded)
        if not has_files:
            _check_size(session, encoded, self._limits)
        return capability, encoded, has_files

    def _has_files(self, session: NodeSession, params: bytes | memoryview) -> bool:
        return self.files is not None and self.files.needed(session, params)

    def _check_state(self, session: NodeSession, command: str) -> None:
        if self._settings.denies(command):
            raise SuzentError("command_denied", f"This gateway never runs '{command[:128]}'.")
        if session.device.status == "paused":
            raise SuzentError("paused", f"{session.display_name} is paused.")

    def _prepare(self, session: NodeSession, call: Call) -> None:
        """Send a call once its files are kept. Others go on meanwhile, and its deadline counts."""
        files = self.files
        assert files is not None
        session.prepare(call)

        async def work() -> None:
            try:
                call.params, call.addresses = await files.ready(call.principal, session, call.params)
                if not call.future.done():
                    _check_size(session, call.params, self._limits)
                    self._check_again(call.principal, session, call.command)
                    session.submit(call)
            except SuzentError as error:
                self.fail(call, error)
            except Exception as error:
                self.fail(call, internal("A call's files", error))

        working = self._loop.create_task(work())
        call.future.add_done_callback(lambda _: working.cancel())

    def _check_again(self, principal: Principal, session: NodeSession, command: str) -> None:
        """Look again at what may have changed while somebody was asked, or files were kept."""
        self._settings.check_nodes_enabled()
        if not session.alive or self._registry.by_id(session.node_id) is not session:
            raise SuzentError("node_disconnected", f"{session.display_name} disconnected.")
        if not self._registry.may_see(principal, session):
            raise SuzentError("node_disconnected", f"{session.display_name} is no longer shared.")
        self._check_state(session, command)
        session.capability(command, principal)

    # -- how a call ends --

    def result(self, session: NodeSession, frame: ResultFrame, size: int, *, is_ascii: bool = False) -> None:
        """Take a device's result: of a call under way, of one that was given up, or of none.

        ``size`` is the frame's bytes, ``is_ascii`` whether all of them are ASCII.
        """
        call = session.calls.get(frame.request_id)
        if call is None:
            late = session.late.pop(frame.request_id, None)
            if late is not None:
                self._late(late, session, frame, size)
            return
        if size > self._limits.frame_bytes:
            self.fail(
                call,
                SuzentError("too_large", f"The result takes {size:,} bytes; {self._limits.frame_bytes:,} is the most."),
            )
        elif not call.future.done():
            call.future.set_result(_outcome(frame, is_ascii))

    def bad_result(self, session: NodeSession, request_id: str, why: str) -> None:
        """End a call whose result can't be used."""
        call = session.calls.get(request_id)
        if call is not None:
            self.fail(
                call, SuzentError("bad_answer", f"{session.display_name} sent a result that can't be used: {why}")
            )

    def progress(self, session: NodeSession, frame: dict[str, Any]) -> None:
        """Pass a device's progress on to its caller."""
        call = session.calls.get(str(frame.get("request_id")))
        if call is None or call.on_progress is None:
            return
        seq, fraction = frame.get("seq"), frame.get("fraction")
        number = isinstance(fraction, int | float) and not isinstance(fraction, bool)
        call.on_progress(
            {
                "seq": seq if isinstance(seq, int) and not isinstance(seq, bool) else 0,
                "fraction": float(min(1, max(0, fraction))) if number else None,  # type: ignore[type-var,arg-type]
                "message": clean_text(frame.get("message"), 500) or None,
                "data": frame.get("data"),
            }
        )

    @staticmethod
    def agent_event(session: NodeSession, frame: dict[str, Any], size: int) -> None:
        """Pass on an event of the turn that a device's agent answers."""
        call = session.calls.get(str(frame.get("request_id")))
        if call is not None and call.on_agent_event is not None and not call.future.done():
            call.on_agent_event(frame, size)

    def session_ended(self, session: NodeSession, error: SuzentError) -> None:
        """Fail all calls of a session at once, and what else goes on with it."""
        for call in session.end():
            self.fail(call, error)
        for lost in list(session.at_end):
            lost(error)

    def caller_departed(self, device: Device, how: Departure) -> None:
        """End the calls of a token that speaks for nobody any more: their results are not its owner's to have."""
        for session in list(self._registry):
            for call in session.calls_of(device.device_id):
                session.give_up(call, "cancelled")
                self.fail(call, SuzentError("unauthorized", f"The caller's token was {how}.", hint="Ask the operator."))

    @staticmethod
    def fail(call: Call, error: SuzentError) -> None:
        """End a call with an error."""
        if not call.future.done():
            call.future.set_exception(error)

    def _deadline(self, session: NodeSession, call: Call, seconds: float) -> None:
        if call.future.done():
            return
        if call.sent:
            session.give_up(call, "deadline")
            message = f"{session.display_name} did not answer '{call.command}' within {seconds:g} s."
        else:
            what = "for its files to be kept" if session.prepares(call) else f"for its turn on {session.display_name}"
            message = f"'{call.command}' waited {seconds:g} s {what}."
        self.fail(call, SuzentError("deadline", message))

    def _ended(self, session: NodeSession, call: Call, done: asyncio.Future[Outcome]) -> None:
        if call.timer is not None:
            call.timer.cancel()
        if done.cancelled():
            session.give_up(call, "cancelled")
            outcome = "cancelled"
        elif (error := done.exception()) is not None:
            outcome = error.code if isinstance(error, SuzentError) else "internal"
        else:
            outcome = "ok" if done.result().success else "failed"
        session.forget(call)
        duration = (self._loop.time() - call.started) * 1000
        self._note(call.principal, session, call.command, outcome, duration, call.origin)

    def _late(self, call: Call, session: NodeSession, frame: ResultFrame, size: int) -> None:
        if call.idempotency is not None and size <= self._limits.frame_bytes:
            self._idempotency.settle_late(call.idempotency, call.fingerprint, _outcome(frame))
        raw = bytes(frame.result)
        detail: dict[str, Any] = {"late": True, "success": frame.success, "bytes": size}
        detail["result"] = (
            raw.decode() if len(raw) <= _LATE_DETAIL_BYTES else raw[:_LATE_DETAIL_BYTES].decode(errors="ignore") + "…"
        )
        if frame.error is not None:
            detail["error"] = clean_text(frame.error, 500)
        duration = (self._loop.time() - call.started) * 1000
        self._note(call.principal, session, call.command, "late", duration, call.origin, detail)

    def _note(
        self,
        principal: Principal,
        session: NodeSession,
        command: str,
        outcome: str,
        duration_ms: float | None,
        origin: dict[str, Any] | None,
        detail: dict[str, Any] | None = None,
    ) -> None:
        self._audit.record(
            Row(
                principal.account,
                principal.actor,
                "invoke",
                node_id=session.node_id,
                node=session.display_name,
                command=command[:128],
                outcome=outcome,
                duration_ms=duration_ms,
                origin=origin,
                detail=detail,
            )
        )


def _check_size(session: NodeSession, params: bytes | memoryview, limits: Limits) -> None:
    limit = int(params_limit(session, limits))
    if len(params) > limit:
        raise SuzentError(
            "too_large", f"The parameters take {len(params):,} bytes; {session.display_name} takes {limit:,}."
        )


def _outcome(frame: ResultFrame, is_ascii: bool = False) -> Outcome:
    error = frame.error
    text = error if error is None or isinstance(error, str) else encode(error).decode()
    if not frame.success and not text:
        text = "The device reported a failure without saying why."
    return Outcome(frame.success, frame.result, text[:_ERROR_CHARS] if text else None, is_ascii)


def _key(principal: Principal, idempotency_key: str) -> tuple[str, str]:
    """Return what a key means: a peer's are its own, so that it neither gets nor spoils the results of others."""
    holder = f"{principal.account}\n{principal.credential_id}" if principal.grant is not None else principal.account
    return holder, idempotency_key


def _fingerprint(node_id: str, command: str, params: Raw) -> bytes:
    # Sorted, so that the same body written in another order is the same call.
    parts = (node_id.encode(), command.encode(), msgspec.json.encode(_object(params), order="sorted"))
    return hashlib.sha256(b"\0".join(parts)).digest()


def _raw_object(params: Raw) -> bytes | memoryview:
    raw = memoryview(params)  # megabytes, perhaps: seen, not copied
    first = bytes(raw[:1])
    if first == b"n":
        return b"{}"
    if first != b"{":
        raise SuzentError("invalid_request", "`params` must be an object: parameter name → value.")
    return raw


def _object(params: Raw) -> dict[str, Any]:
    value: dict[str, Any] = decode(_raw_object(params))
    return value
