"""What the sockets of both protocols share on their way to a connected node: silence, waiting, approval, new commands.

How each of them speaks, and what it takes before and after that, stands in :mod:`.device_link` and
:mod:`.multinode.link`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from ..protocol import errors
from ..protocol.capabilities import CapabilitySchema, read_tags
from ..protocol.device import ApprovedMessage, PendingResponse
from ..protocol.errors import SuzentError
from ..protocol.text import clean_text
from ..protocol.wire import decode
from .clock import now_text
from .devices import Device
from .liveness import LATE_LOOP_SECONDS, Liveness
from .pairing import Pending
from .principals import Principal
from .session import NodeSession
from .tickets import Ticket
from .transport import Transport

if TYPE_CHECKING:
    from .gateway import Gateway

log = logging.getLogger("suzent_jupyter")

_LONGEST_TRIP = 3600.0  # seconds
_CLOSE_CODES = {
    "too_large": errors.CLOSE_TOO_LARGE,
    "bad_frame": errors.CLOSE_PROTOCOL,
    "bad_json": errors.CLOSE_PROTOCOL,
    "bad_handshake": errors.CLOSE_PROTOCOL,
    "replaced": errors.CLOSE_REPLACED,
    "revoked": errors.CLOSE_REVOKED,
}


class NodeLink:
    """The gateway's end of a socket that may become a node's. All methods are called on the event loop; none raises.

    Parameters
    ----------
    gateway : Gateway
        Whose node this may become.
    transport : Transport
        The socket, just opened.
    """

    def __init__(self, gateway: Gateway, transport: Transport) -> None:
        self._gateway = gateway
        self._transport = transport
        self._limits = gateway.limits
        self._session: NodeSession | None = None
        self._pending: Pending | None = None
        self._handshake: asyncio.Task[None] | None = None
        self._liveness: Liveness | None = None
        self._closed = False
        self._warnings: list[str] = []
        self._ticket: Ticket | None = None
        self._has_ticket = False
        transport.allow_bytes(self._first_bytes())
        self._late = gateway.sockets.enter(self, transport)
        patience = self._limits.handshake_timeout
        if self._late is not None:
            patience = min(patience, self._limits.late_timeout)
        self._silence = self._after(patience)

    # -- how a protocol speaks --

    def _first_frame(self, data: str | bytes) -> None:
        """Take a message before there is a session."""
        raise NotImplementedError

    def _frame(self, session: NodeSession, data: str | bytes) -> None:
        """Take a message of a connected node."""
        raise NotImplementedError

    def _may_be_told(self, error: SuzentError) -> bool:
        """Tell whether a refusal may be said in an ``error`` frame before the close."""
        raise NotImplementedError

    def _new_session(
        self, device: Device, name: str, capabilities: list[CapabilitySchema], frame: dict[str, Any]
    ) -> NodeSession:
        """Return the session of a device that is let in."""
        raise NotImplementedError

    def _greet(self, session: NodeSession, minted: str) -> None:
        """Tell the device that it is connected, and look after it from now on."""
        raise NotImplementedError

    def _complete(self, entry: Pending) -> None:
        """Add to what the operator is shown."""

    # -- what the socket tells us --

    def receive(self, data: str | bytes) -> None:
        """Take one message: text as str, binary as bytes."""
        if self._closed:
            return
        try:
            if self._session is not None:
                self._frame(self._session, data)
            elif self._handshake is None and self._pending is None:
                self._first_frame(data)
            # A device that waits has nothing to say that could be acted on.
        except SuzentError as error:
            if self._session is None:
                self._refuse(error)
            else:
                # A live node is never closed for what it says, such as an event that can't be written on.
                log.debug("Frame from %s ignored: %s", self._session.node_id, error)
        except Exception:
            log.exception("A frame from %s could not be handled", self._transport.remote)
            self._close(1011, "internal error")

    def pong(self, payload: bytes) -> None:
        """Take an RFC 6455 pong."""
        if self._session is not None:
            self._session.last_seen = now_text()
            try:
                sent = float(payload)
            except ValueError:
                return
            # A pong that answers no ping of ours may hold anything.
            seconds = asyncio.get_running_loop().time() - sent
            if 0 <= seconds <= _LONGEST_TRIP:
                self._session.latency_ms = round(seconds * 1000, 3)

    def closed(self) -> None:
        """Take note that the socket is gone, whoever closed it."""
        if self._closed:
            return
        self._closed = True
        self._silence.cancel()
        if self._liveness is not None:
            self._liveness.stop()
        self._gateway.sockets.leave(self)
        if self._pending is not None:
            self._gateway.pairing.end(self._pending, "gone")
        if self._session is not None:
            self._gateway.sessions.closed(self._session)

    # -- what the gateway tells the device --

    def end(self, error: SuzentError) -> None:
        """Close the socket for a reason of the gateway's: revoked, replaced."""
        self._refuse(error)

    def going_away(self) -> None:
        """Close with 1001, once listening has stopped."""
        self._close(errors.CLOSE_GOING_AWAY, "the gateway is stopping")

    def _after(self, seconds: float) -> asyncio.TimerHandle:
        loop = asyncio.get_running_loop()
        due = loop.time() + seconds
        return loop.call_at(due, self._silent, due)

    def _silent(self, due: float) -> None:
        if asyncio.get_running_loop().time() - due > LATE_LOOP_SECONDS:
            # The loop itself stood still: a first frame that came meanwhile has not been read yet.
            self._silence = self._after(LATE_LOOP_SECONDS)
            return
        if self._session is None and self._pending is None and self._handshake is None:
            self._refuse(
                self._late
                or SuzentError("handshake_timeout", f"No frame came within {self._limits.handshake_timeout:g} s.")
            )

    def _refuse(self, error: SuzentError) -> None:
        """Say no in words the device understands, and close."""
        code = _CLOSE_CODES.get(error.code)
        if code is None:
            code = errors.CLOSE_TRY_AGAIN if error.retryable else errors.CLOSE_REFUSED
        if not self._closed and self._may_be_told(error):
            self._transport.send(msgspec.json.encode(error.as_frame()))
        self._close(code, error.message)

    def _close(self, code: int, reason: str) -> None:
        if not self._closed:
            self._transport.close(code, reason.encode()[:120].decode(errors="ignore"))
            self.closed()

    # -- handshake --

    def _first_bytes(self, capabilities: float | None = None) -> int:
        """Return what a first frame may take that declares so many capabilities, by default as many as there can be."""
        if capabilities is None:
            return int(self._limits.first_frame_bytes + self._limits.capabilities * self._limits.capability_bytes)
        return int(max(self._limits.first_frame_bytes, capabilities * self._limits.capability_bytes))

    def _check_open(self) -> None:
        """Refuse whoever comes while nodes are switched off."""
        if not self._gateway.settings.nodes_enabled:
            raise SuzentError("nodes_disabled", "This gateway takes no nodes at the moment.")

    def _read_first_frame(self, data: str | bytes) -> dict[str, Any]:
        """Parse a frame of somebody unknown, which must be no larger than its content needs."""
        if isinstance(data, bytes):
            raise SuzentError("bad_frame", "The first frame is binary; send `connect` as a text frame.")
        size = len(data) if data.isascii() else len(data.encode())
        if size > self._first_bytes():
            raise SuzentError("too_large", f"The first frame takes {size:,} bytes.")
        frame = decode(data)
        if not isinstance(frame, dict):
            raise SuzentError("bad_frame", "The first frame is not a JSON object.")
        if size > self._first_bytes(self._declared(frame)):
            raise SuzentError("too_large", f"The first frame takes {size:,} bytes, more than its content needs.")
        return frame

    def _declared(self, frame: dict[str, Any]) -> int:
        """Return how many capabilities a first frame declares."""
        declared = frame.get("capabilities")
        return len(declared) if isinstance(declared, list) else 0

    def _go_on(self, work: Coroutine[Any, Any, None]) -> None:
        """Continue the handshake in a task, for what takes time."""

        async def guarded() -> None:
            try:
                await work
            except SuzentError as error:
                self._refuse(error)
            except Exception:
                log.exception("The handshake with %s failed", self._transport.remote)
                self._close(1011, "internal error")
            finally:
                if self._handshake is asyncio.current_task():
                    self._handshake = None

        self._handshake = asyncio.get_running_loop().create_task(guarded())

    def _when_ready(self, step: Callable[..., None], *arguments: Any) -> None:
        """Take a step once the store is loaded: until then the gateway knows no device, nor its own id."""
        if self._gateway.ready.is_set():
            step(*arguments)
            return

        async def wait() -> None:
            await self._gateway.ready.wait()
            if not self._closed:
                step(*arguments)

        self._go_on(wait())

    def _check_ticket(self, name: str, text: object, known: bool, has_proof: bool) -> None:
        """Read a ticket; ``ticket_required`` where there must be one and there is none.

        ``has_proof`` says that the device showed something which only a database that can be read tells the worth of.
        """
        problem = ""
        self._has_ticket = text not in (None, "")
        if self._has_ticket:
            self._ticket, problem = self._gateway.tickets.read(text)
        if self._ticket is not None:
            return
        if self._gateway.require_ticket and not known:
            if has_proof and self._gateway.store.problem:
                # Old devices would take a refusal as final and forget a token that is still good.
                raise SuzentError("store_failed", "The gateway can't read its database and knows no device.")
            raise SuzentError(
                "ticket_required",
                f"{problem or 'This gateway lets only invited devices wait for approval.'} "
                "A device that can't open pairing links can't join here.",
            )
        if problem:
            self._warnings.append(problem)
            log.warning("Device '%s' at %s waits uninvited: %s", name, self._transport.remote, problem)

    def _wait_for_approval(self, name: str, capabilities: list[CapabilitySchema], frame: dict[str, Any]) -> None:
        if self._late is not None and self._ticket is None:
            raise self._late
        account = self._gateway.waiting_account
        if account is None and self._ticket is not None:
            account = self._ticket.account
        identity = self._node_identity()
        replaces = self._gateway.devices.by_identity(identity, account) if account is not None else None
        entry = Pending(
            display_name=name,
            platform=read_platform(frame),
            capabilities=capabilities,
            remote=self._transport.remote,
            limited=self._transport.limited,
            account=account,
            refuse=self._pairing_refused,
            link=self,
            frame=frame,
            node_identity=identity,
            replaces=replaces.device_id if replaces is not None else None,
            description=clean_text(frame.get("description"), int(self._limits.description_chars)),
            tags=read_tags(frame.get("tags"), self._limits),
            invited=self._ticket is not None,
            invitation=self._ticket.name if self._ticket is not None else "",
        )
        self._complete(entry)
        self._gateway.pairing.add(entry)
        self._pending = entry
        if self._ticket is not None:
            self._gateway.tickets.use(self._ticket)
            self._gateway.sockets.keep(self)
        self._liveness = Liveness(self._transport, self._limits, self._dead)
        whose = "Invited device" if entry.invited else "Device"
        log.info("%s '%s' at %s waits for approval with the code %s", whose, name, entry.remote, entry.code)
        self._send(
            PendingResponse(
                pairing_code=entry.code,
                message=f"Waiting for approval. Tell the operator this code: {entry.code}",
                expires_at=entry.expires_at,
                invited=entry.invited if self._has_ticket else None,
                warnings=self._warnings or None,
            )
        )

    def _node_identity(self) -> str:
        """Return the id of its installation that the device claims."""
        return ""

    def _pairing_refused(self, how: str) -> None:
        if self._pending is None:
            return
        if how == "denied":
            self._refuse(SuzentError("pairing_denied", "The operator denied this device."))
        elif how == "expired":
            self._refuse(SuzentError("pairing_expired", "Nobody approved this device in time."))
        else:
            self.going_away()

    def new_device(self, principal: Principal) -> Device:
        """Return the device this socket asks to become: of the account and organisation of who approves it."""
        assert self._pending is not None
        return self._new_device(self._pending.display_name, self._pending.frame, self._pending.capabilities, principal)

    def _new_device(
        self, name: str, frame: dict[str, Any], capabilities: list[CapabilitySchema], principal: Principal
    ) -> Device:
        return Device(
            device_id="",
            digest=b"",
            display_name=name,
            platform=read_platform(frame),
            account=principal.account,
            org=principal.org,
            node_identity=self._node_identity(),
            approved=[capability.name for capability in capabilities],
        )

    def approved(self, device: Device, token: str) -> None:
        """Go on as a connected node: the operator said yes and it is on disk."""
        entry, self._pending = self._pending, None
        if self._closed or entry is None:
            return
        if self._liveness is not None:
            self._liveness.stop()
        self._gateway.sockets.leave(self)
        self._open_session(device, entry.display_name, entry.capabilities, entry.frame, token)

    def _open_session(
        self,
        device: Device,
        name: str,
        capabilities: list[CapabilitySchema],
        frame: dict[str, Any],
        minted: str = "",
    ) -> None:
        session = self._new_session(device, name, capabilities, frame)
        session.description = clean_text(frame.get("description"), int(self._limits.description_chars))
        session.tags = read_tags(frame.get("tags"), self._limits)
        self._gateway.sessions.opened(session, self)
        self._session = session
        self._transport.allow_bytes(int(self._limits.socket_bytes))
        self._greet(session, minted)
        if session.unapproved():
            self._ask_for_new_capabilities(session)

    def _ask_for_new_capabilities(self, session: NodeSession) -> None:
        new = sorted(session.unapproved(), key=lambda capability: capability.name)
        if self._pending is not None:
            if self._pending.capabilities == new:
                return  # the code that is on somebody's screen stays good
            self._gateway.pairing.end(self._pending, "replaced")
            self._pending = None
        if not new:
            return
        self._pending = Pending(
            kind="capabilities",
            node_id=session.node_id,
            display_name=session.display_name,
            platform=session.platform,
            capabilities=new,
            remote=self._transport.remote,
            limited=False,
            account=session.device.account,
            refuse=self._new_capabilities_refused,
            link=self,
            description=session.description,
            tags=session.tags,
        )
        self._gateway.pairing.add(self._pending)

    def _new_capabilities_refused(self, how: str) -> None:
        self._pending = None
        if how == "expired" and self._session is not None:
            self._ask_for_new_capabilities(self._session)  # under a new code, until somebody answers

    def capabilities_approved(self, entry: Pending) -> None:
        """Tell the device that its new commands may be called now; what it declared meanwhile waits on."""
        if self._pending is entry:
            self._pending = None
        if self._session is not None:
            self._ask_for_new_capabilities(self._session)
            self._tell_approved(self._session)

    def _tell_approved(self, session: NodeSession) -> None:
        """Tell the device which commands may be called now."""
        raise NotImplementedError

    def _approved_frame(self, session: NodeSession) -> bytes:
        return ApprovedMessage(
            approved=[capability.name for capability in session.approved()],
            pending_approval=[capability.name for capability in session.unapproved()],
        ).encode()

    def _dead(self) -> None:
        self._close(errors.CLOSE_DEAD, "no sign of life")

    def _send(self, frame: Any) -> None:
        self._transport.send(frame.encode())


def read_platform(frame: dict[str, Any]) -> str:
    """Return the platform a device names."""
    return clean_text(frame.get("platform"), 64) or "unknown"
