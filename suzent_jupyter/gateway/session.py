"""A connected node: what it may do, the calls it works on, and the calls that wait for it."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from ..protocol.capabilities import CapabilitySchema
from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from ..protocol.rest import NodeInfo
from .calls import Call
from .clock import now_text
from .devices import Device
from .dialect import DeviceDialect, Dialect
from .outbox import Outbox
from .principals import Principal
from .transport import Transport


class NodeSession:
    """One live connection of an approved device.

    Parameters
    ----------
    device : Device
        Its durable side.
    transport : Transport
        Its socket.
    capabilities : list of CapabilitySchema
        All it declares; what of them may be called is in :meth:`approved`.
    features : frozenset of str, optional
        What the device announced; None for devices that know nothing beyond Suzent's frames.
    dialect : Dialect, optional
        How frames for it are written; as of ``/ws/node`` otherwise.
    """

    def __init__(
        self,
        device: Device,
        transport: Transport,
        display_name: str,
        platform: str,
        capabilities: list[CapabilitySchema],
        features: frozenset[str] | None,
        limits: Limits,
        dialect: Dialect | None = None,
    ) -> None:
        self.device = device
        self.dialect = dialect or DeviceDialect()
        self.transport = transport
        self.display_name = display_name
        self.platform = platform
        self.features = features
        self.description = ""
        self.tags: list[str] = []
        #: Whether it is an app node with an agent: it takes ``chat.run``.
        self.runs_chats = False
        #: Run id → what takes the frames ``chat.event`` of the run, and their bytes.
        self.executing: dict[str, Callable[[dict[str, Any], int], None]] = {}
        #: Called when the session is over, with why.
        self.at_end: set[Callable[[SuzentError], None]] = set()
        self.connected_at = now_text()
        #: The same in Unix seconds, fine enough to tell who came later.
        self.since = time.time()
        self.last_seen = self.connected_at
        self.latency_ms: float | None = None
        self.alive = True
        self.calls: dict[str, Call] = {}
        #: Calls whose deadline passed while the device still worked, oldest first.
        self.late: OrderedDict[str, Call] = OrderedDict()
        self._limits = limits
        self._waiting: deque[Call] = deque()
        #: Calls whose files are being kept; they wait for their turn after that.
        self._prepared: dict[Call, int] = {}
        self._waiting_bytes = 0
        self._outbox = Outbox(transport, self._pump)
        self.declare(capabilities)

    @property
    def node_id(self) -> str:
        """The device's id for life."""
        return self.device.device_id

    def declare(self, capabilities: list[CapabilitySchema]) -> None:
        """Take what the device says it can do now."""
        self.capabilities = {capability.name: capability for capability in capabilities}

    def approved(self) -> list[CapabilitySchema]:
        """Return what may be called: declared now, and shown when the operator approved."""
        shown = set(self.device.approved)
        return [capability for capability in self.capabilities.values() if capability.name in shown]

    def unapproved(self) -> list[CapabilitySchema]:
        """Return what waits for approval."""
        shown = set(self.device.approved)
        return [capability for capability in self.capabilities.values() if capability.name not in shown]

    def capability(self, command: str, principal: Principal) -> CapabilitySchema:
        """Return a capability that may be called; ``unknown_command`` or ``pending_reapproval`` otherwise.

        The holder of a control grant is told of no command it does not cover, and only its owner's account of one that
        waits for approval.
        """
        capability, grant = self.capabilities.get(command), principal.grant
        waits = command not in self.device.approved
        if capability is None or (waits and (grant is not None or principal.account != self.device.account)):
            names = [each.name for each in self.approved() if grant is None or grant.allows(each.name)]
            raise SuzentError(
                "unknown_command",
                f"{self.display_name} has no command '{command[:128]}'. It offers: {', '.join(names[:20]) or 'none'}.",
                details={"commands": names},
            )
        if waits:
            raise SuzentError(
                "pending_reapproval",
                f"{self.display_name} declared '{command}' after it was approved; approve it first.",
            )
        return capability

    def info(self) -> NodeInfo:
        """Return the node as ``GET /nodes`` shows it."""
        return NodeInfo.model_construct(
            node_id=self.node_id,
            display_name=self.display_name,
            platform=self.platform,
            status="paused" if self.device.status == "paused" else "connected",
            connected_at=self.connected_at,
            capabilities=self.approved(),
            pending_capabilities=self.unapproved(),
            description=self.description,
            tags=self.tags,
            features=sorted(self.features or ()),
            scope=self.device.sharing,
            remote=self.transport.remote,
            last_seen=self.last_seen,
            latency_ms=self.latency_ms,
            calls=len(self.calls),
        )

    def shown(self) -> NodeInfo:
        """Return the node as others than its owner see it: neither what waits for the owner, nor where it is."""
        return self.info().model_copy(update={"pending_capabilities": [], "remote": ""})

    def info_for(self, principal: Principal) -> NodeInfo:
        """Return the node as a caller sees it who may."""
        return self.info() if principal.account == self.device.account else self.shown()

    def submit(self, call: Call) -> None:
        """Send a call, or let it wait its turn; ``node_busy`` when too many wait."""
        self._prepared.pop(call, None)
        if self._may_send(call):
            self._send(call)
            return
        self._check_room(call)
        self._waiting.append(call)
        self._waiting_bytes += call.frame_size

    def prepare(self, call: Call) -> None:
        """Count a call that is to be submitted when its files are kept; ``node_busy`` when too many wait."""
        self._check_room(call)
        self._prepared[call] = call.frame_size

    def prepares(self, call: Call) -> bool:
        """Tell whether a call waits for its files to be kept."""
        return call in self._prepared

    def _check_room(self, call: Call) -> None:
        waiting = len(self._waiting) + len(self._prepared)
        size = self._waiting_bytes + sum(self._prepared.values()) + call.frame_size
        if waiting >= self._limits.calls_waiting or size > self._limits.waiting_bytes:
            raise SuzentError(
                "node_busy", f"{self.display_name} works on {len(self.calls)} calls and {waiting} wait already."
            )

    def forget(self, call: Call) -> None:
        """Take a call that is over off the books and let the next one go."""
        call.over = True
        self._prepared.pop(call, None)
        if call.sent:
            self.calls.pop(call.request_id, None)
        elif call in self._waiting:
            # Out of the queue at once: its parameters may be megabytes.
            self._waiting.remove(call)
            self._waiting_bytes -= call.frame_size
        self._pump()

    def give_up(self, call: Call, reason: str) -> None:
        """Remember a call whose caller no longer waits, and tell the device, if it understands that."""
        if not call.sent or not self.alive:
            return
        # Its late result needs the name of the call, not its parameters.
        call.params = b""
        self.late[call.request_id] = call
        while len(self.late) > self._limits.late_results:
            self.late.popitem(last=False)
        if self.features is not None and "cancel" in self.features:
            self.send_frame(self.dialect.cancel(call.request_id, reason))

    def forget_late(self, keeps: Callable[[Call], bool]) -> None:
        """Forget the calls that were given up but for those that ``keeps``: their late results are nobody's."""
        self.late = OrderedDict((key, call) for key, call in self.late.items() if keeps(call))

    def open_calls(self) -> list[Call]:
        """Return the calls that are under way or waiting."""
        return [*self.calls.values(), *self._waiting, *self._prepared]

    def calls_of(self, credential_id: str) -> list[Call]:
        """Return the calls, under way or waiting, that were made with a token."""
        return [call for call in self.open_calls() if call.principal.credential_id == credential_id]

    def end(self) -> list[Call]:
        """Mark the session as gone and return the calls that were under way or waiting."""
        self.alive = False
        calls = self.open_calls()
        self.calls.clear()
        self._waiting.clear()
        self._prepared.clear()
        self._waiting_bytes = 0
        return calls

    def send_frame(self, frame: bytes) -> bool:
        """Send a frame of the gateway's own; dropped, and False, when the device has stopped reading."""
        reads = self._outbox.unsent <= self._limits.send_buffer_bytes
        if reads:
            self._outbox.send(frame)
        return reads

    def _may_send(self, call: Call) -> bool:
        return len(self.calls) < self._limits.calls_in_flight and (
            self._outbox.unsent == 0 or self._outbox.unsent + call.frame_size <= self._limits.send_buffer_bytes
        )

    def _send(self, call: Call) -> None:
        self.calls[call.request_id] = call
        call.sent = True
        seconds = max(0.001, call.deadline - asyncio.get_running_loop().time())
        self._outbox.send(*self.dialect.call(call, seconds))

    def _pump(self) -> None:
        while self.alive and self._waiting and self._may_send(self._waiting[0]):
            call = self._waiting.popleft()
            self._waiting_bytes -= call.frame_size
            if not call.over:
                self._send(call)
