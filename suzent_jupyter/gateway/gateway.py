"""The gateway: holds the parts together and is the only door in."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from .._version import __version__
from ..agent.clients import close_clients
from ..protocol.device import AGENT_COMMAND
from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from ..protocol.rest import ApprovedDeviceInfo, AuditEntry, NodeInfo, PairingActionResponse, PendingNodeInfo
from ..protocol.text import clean_text
from .answering.agents import Agents
from .answering.conversations import Conversations
from .answering.device_agent import agent_of_device
from .answering.inbox import Inbox
from .answering.model_agents import of_model
from .answering.runs import Runs
from .audit import Audit, Row
from .changes import Changes
from .clients import ClientLink
from .clock import now_text
from .devices import Device, Devices
from .dispatch import Dispatcher
from .granting.coverage import covered_nodes
from .granting.expiry import Expiry
from .granting.grants import Grants, is_same_holder
from .granting.unauthorized import Unauthorized
from .granting.usage import Usage
from .identity import load_identity, new_identity
from .link import DeviceLink
from .pairing import Pairing, Pending
from .peer_files import PeerFiles
from .principals import Principal
from .registry import Registry
from .session import NodeSession
from .settings import NEEDS_RESTART, Settings, save_settings
from .sockets import Sockets
from .store import Store
from .tickets import Invitation, Tickets
from .tokens import mint_token, token_digest, token_hint
from .transport import Transport
from .turns import Turns

if TYPE_CHECKING:
    import sqlalchemy as sa
    from pydantic import BaseModel

    from ..agent.tools import FileAccess

log = logging.getLogger("suzent_jupyter")

_REPLACEMENT_WINDOW = 60.0
#: What another process may have changed of a device that is known here.
_FOLLOWED = (
    "status",
    "approved",
    "sharing",
    "node_identity",
    "callback_url",
    "covers",
    "commands",
    "unattended_tools",
    "expires_at",
)


class Gateway:
    """The hub. Make it on the event loop it works on.

    Parameters
    ----------
    data_dir : Path
        Where the store lies.
    settings : Settings
        As command line and config file say; the store's are added at start.
    limits : Limits
        The numbers in force.
    account : str
        Who owns this gateway.
    org : str
        Their organisation, ``""`` for none.
    single_account : bool
        Whether every waiting device belongs to ``account``; otherwise to whoever enters its code.
    require_ticket : bool
        Whether a device that is not known must come by a pairing link to wait for approval.
    agent_model : str
        The model that answers prompts, as pydantic-ai names it; ``""`` for none.
    trusted_token : callable, optional
        Token → principal for tokens the server holds itself (the kernels' token).
    """

    def __init__(
        self,
        data_dir: Path,
        settings: Settings,
        limits: Limits,
        *,
        account: str,
        org: str = "",
        single_account: bool = True,
        require_ticket: bool = False,
        agent_model: str = "",
        trusted_token: Callable[[str], Principal | None] = lambda token: None,
    ) -> None:
        self.data_dir = data_dir
        self.settings = settings
        self.limits = limits
        self.account = account
        self.org = org
        self.waiting_account = account if single_account else None
        self.require_ticket = require_ticket
        self.agent_model = agent_model
        self.trusted_token = trusted_token
        #: This gateway's id for good; a passing one while the store can't be read.
        self.identity = new_identity()
        self.version = __version__
        #: Set when the store is loaded: until then nobody's token is known.
        self.ready = asyncio.Event()
        self.turns = Turns()
        self.changes = Changes()
        self.devices = Devices()
        self.registry = Registry()
        self.sockets = Sockets(limits)
        self.pairing = Pairing(limits, self.changes)
        self.tickets = Tickets(limits)
        self.store = Store(data_dir, limits.store_poll, self._read_again)
        self.audit = Audit(self.store, self.changes, int(limits.audit_rows))
        self.dispatcher = Dispatcher(self.registry, settings, self.audit, limits)
        #: Topic → what a subscriber starts from, for what is not the gateway's own.
        self.snapshots: dict[str, Callable[[Principal], Sequence[BaseModel]]] = {}
        #: Called when a token stops speaking for anyone: with its device, and ``revoked`` or ``paused``.
        self.departures: list[Callable[[Device, Literal["revoked", "paused"]], None]] = [
            self.dispatcher.caller_departed
        ]
        self.agents = Agents(self.registry)
        self.agents.of_device = partial(agent_of_device, self)
        if agent_model:
            self.agents.of_model = of_model(self)
        #: What an agent sees of the server's files; None when alone.
        self.files: FileAccess | None = None
        self.conversations = Conversations(self.store, self.changes)
        self.snapshots["conversations"] = self.conversations.snapshot
        self.runs = Runs(self)
        self.inbox = Inbox(self)
        self.peer_files = PeerFiles(limits)
        self.departures.append(self.peer_files.departed)
        self.grants = Grants(self)
        self.unauthorized = Unauthorized(limits)
        self._usage = Usage(self.store, self._used)
        self._expiry = Expiry(self.devices, self._expired)
        self._as_started: dict[str, Any] = {}
        self._loop = asyncio.get_running_loop()
        self._links: dict[NodeSession, DeviceLink] = {}
        self._clients: set[ClientLink] = set()
        self._replacements: dict[str, deque[float]] = {}

    # -- life --

    async def start(self) -> None:
        """Load the store; devices that knock before it is loaded wait for it."""

        identity: list[str] = []

        def load(connection: sa.Connection) -> list[Device]:
            self.settings.remember(connection)
            identity.append(load_identity(connection))
            self.inbox.load(connection)
            self.conversations.load(connection)
            return _load_devices(connection)

        devices = await self.store.open(load)
        if devices is not None:
            self.devices.replace_all(devices)
            self.identity = identity[-1]
        self._as_started = self.settings.values()
        self._expiry.start()
        self.ready.set()
        self.inbox.begin()

    async def stop(self) -> None:
        """Close every socket with 1001 and finish writing. Listening must have stopped already."""
        self.runs.end_all()
        for link in [*self._links.values(), *self.sockets.all()]:
            link.going_away()
        for client in list(self._clients):
            client.close()
        await asyncio.gather(self.inbox.stop(), self.runs.stop())
        self.peer_files.close()
        self._expiry.stop()
        self.grants.close()
        await self._usage.flush()
        await close_clients()
        await self.audit.flush()
        await self.store.close()

    # -- who is asking --

    def authenticate(self, token: str) -> Principal | None:
        """Return whom a token we issued stands for; None if unknown, revoked or paused."""
        return self.devices.authenticate(token)

    def is_itself(self, node_identity: str, code: str | None, node_id: str | None) -> bool:
        """Tell whether the gateway that gave a device of this identity that code, or that id, is this one."""
        if code:
            return self.pairing.identity_behind(code) == node_identity
        device = self.devices.by_id(node_id or "")
        return device is not None and device.node_identity == node_identity

    # -- sockets (called by the server) --

    def open_device(self, transport: Transport) -> DeviceLink:
        """Take a new ``/ws/node`` socket."""
        return DeviceLink(self, transport)

    def open_client(self, transport: Transport, principal: Principal) -> ClientLink:
        """Take a new ``/ws/client`` socket of an authenticated caller."""
        return ClientLink(self, transport, principal)

    # -- sockets (called by the links) --

    def session_opened(self, session: NodeSession, link: DeviceLink) -> None:
        """Register a node that just connected; an older connection of the same device makes room.

        Raises
        ------
        SuzentError
            ``token_shared`` when that happens too often: then two devices take turns with one token.
        """
        old = self.registry.by_id(session.node_id)
        if old is not None:
            self._count_replacement(session)
            old_link = self._links.get(old)
            self._forget_session(
                old, SuzentError("node_disconnected", f"{old.display_name} connected anew."), tell=False
            )
            if old_link is not None:
                old_link.end(SuzentError("replaced", "This device connected again elsewhere."))
        self.registry.add(session)
        self._links[session] = link
        session.device.last_seen = session.connected_at
        self._tell_node("added" if old is None else "changed", session)
        self._tell_device("changed", session.device)
        self._note(session, "connect")
        self.agents.tell()  # its program may be one

    def session_closed(self, session: NodeSession) -> None:
        """Take note that a node's socket is gone. A newer session of the same device stays untouched."""
        self._forget_session(
            session, SuzentError("node_disconnected", f"{session.display_name} disconnected."), tell=True
        )

    def session_changed(self, session: NodeSession) -> None:
        """Take note that a node declares other capabilities now."""
        self._tell_node("changed", session)

    def event(self, session: NodeSession, frame: dict[str, Any]) -> None:
        """Tell subscribers what a device reports."""
        item = {
            "node_id": session.node_id,
            "display_name": session.display_name,
            "event": clean_text(frame.get("event"), 128),
            "data": frame.get("data"),
            "received_at": now_text(),
        }
        if item["event"]:
            self.changes.publish("events", "added", item, lambda principal: Registry.may_see(principal, session))

    def client_opened(self, client: ClientLink) -> None:
        """Keep a client so that it can be closed."""
        self._clients.add(client)

    def client_closed(self, client: ClientLink) -> None:
        """Forget it."""
        self._clients.discard(client)

    def _count_replacement(self, session: NodeSession) -> None:
        now = time.monotonic()
        recent = self._replacements.setdefault(session.node_id, deque())
        while recent and recent[0] < now - _REPLACEMENT_WINDOW:
            recent.popleft()
        if len(recent) >= self.limits.replacements_per_minute:
            raise SuzentError(
                "token_shared", f"{session.display_name} connects over and over; is its token used twice?"
            )
        recent.append(now)

    def _forget_session(self, session: NodeSession, error: SuzentError, *, tell: bool) -> None:
        self._links.pop(session, None)
        self.dispatcher.session_ended(session, error)
        session.device.last_seen = now_text()
        if self.registry.remove(session) and tell:
            self._remember_last_seen(session.device)
            self._tell_node("removed", session)
            self._tell_device("changed", session.device)
            self._note(session, "disconnect")

    def _remember_last_seen(self, device: Device) -> None:
        if self.devices.by_id(device.device_id) is not device:
            return

        seen = {"last_seen": device.last_seen}
        try:
            # Nobody waits for it, and a failure is in the store's log.
            written = self.store.run(lambda connection: _update_device(connection, device, seen))
            written.add_done_callback(lambda done: done.cancelled() or done.exception())
        except SuzentError:
            return  # the gateway is stopping

    # -- nodes --

    def list_nodes(self, principal: Principal) -> list[NodeInfo]:
        """Return the connected nodes a caller may see."""
        nodes = [session.info() for session in self.registry.visible(principal)]
        return nodes if principal.grant is None else covered_nodes(principal.grant, nodes)

    def node(self, principal: Principal, reference: str) -> NodeInfo:
        """Return one of them; ``node_not_found`` or ``node_ambiguous`` otherwise."""
        return self.registry.find(principal, reference).info()

    # -- pairing --

    def list_pending(self, principal: Principal) -> list[PendingNodeInfo]:
        """Return what waits for this caller's approval."""
        return [entry.info() for entry in self.pairing.visible(principal)]

    async def approve(self, principal: Principal, code: str) -> PairingActionResponse:
        """Approve what one exact code stands for. Answered only after it is on disk.

        Raises
        ------
        SuzentError
            How the code ended, ``store_unreadable`` or ``store_failed``; the device then waits on.
        """
        entry = self.pairing.find(principal, code)
        with self.pairing.deciding(entry):
            if entry.kind == "capabilities":
                return await self._approve_capabilities(principal, entry)
            return await self._approve_device(principal, entry)

    async def _approve_device(self, principal: Principal, entry: Pending) -> PairingActionResponse:
        device = entry.link.new_device(principal.account)
        row = Row(principal.account, principal.actor, "device.approve", node=device.display_name)
        row.detail = {"remote": entry.remote, "commands": device.approved}
        if entry.invited:
            row.detail |= {"invited": True, "invitation": entry.invitation}
        device, token = await self.adopt(device, row, lambda: self.pairing.end(entry, "used"))
        entry.link.approved(device, token)
        message = f"Approved {device.display_name}."
        return PairingActionResponse(success=True, message=message, device_id=device.device_id)

    async def _approve_capabilities(self, principal: Principal, entry: Pending) -> PairingActionResponse:
        device = self.devices.find(principal, entry.node_id or "")
        shown = [capability.name for capability in entry.capabilities]
        approved = list(dict.fromkeys([*device.approved, *shown]))
        row = Row(
            principal.account,
            principal.actor,
            "capabilities.approve",
            node_id=device.device_id,
            node=device.display_name,
            detail={"commands": shown},
        )
        await self._change_device(device, {"approved": approved}, row)
        self.pairing.end(entry, "used")
        entry.link.capabilities_approved(entry)
        session = self.registry.by_id(device.device_id)
        if session is not None:
            self._tell_node("changed", session)
        message = f"Approved {', '.join(shown)} of {device.display_name}."
        return PairingActionResponse(success=True, message=message, device_id=device.device_id)

    def invite(self, principal: Principal, name: str | None) -> Invitation:
        """Make a ticket for a pairing link. It says that the operator expects the device; it approves nothing."""
        invitation = self.tickets.mint(principal.account, clean_text(name or "", int(self.limits.name_chars)))
        self.audit.record(Row(principal.account, principal.actor, "device.invite", node=invitation.ticket.name))
        return invitation

    async def deny(self, principal: Principal, code: str) -> PairingActionResponse:
        """Deny what one exact code stands for: a device is sent away, new commands stay refused."""
        entry = self.pairing.find(principal, code)
        self.pairing.end(entry, "denied")
        entry.refuse("denied")
        action = "device.deny" if entry.kind == "device" else "capabilities.deny"
        self.audit.record(
            Row(principal.account, principal.actor, action, node_id=entry.node_id or "", node=entry.display_name)
        )
        return PairingActionResponse(success=True, message=f"Denied {entry.display_name}.")

    async def adopt(
        self, device: Device, row: Row | None = None, wanted: Callable[[], bool] = lambda: True
    ) -> tuple[Device, str]:
        """Give a new device its id and token and keep it; return both.

        A device whose identity is known already takes its own place, so that pairing again leaves no ghost behind.
        ``wanted`` is asked once it is on disk; if the device has hung up by then, all is put back as it was.

        Raises
        ------
        SuzentError
            ``code_gone`` in that case.
        """
        token = mint_token()
        device.digest = token_digest(token)
        device.token_hint = token_hint(token)
        device.approved_at = device.last_seen = now_text()
        if row is None:
            row = Row(device.account, "kernel", "device.adopt", node=device.display_name)
        former: list[dict[str, Any]] = []

        def work(connection: sa.Connection) -> None:
            # Whom it replaces is decided here, one after the other, also when another process shares the file.
            former[:] = _same_installation(connection, device)
            device.device_id = former[0]["device_id"] if former else secrets.token_hex(8)
            row.node_id = device.device_id
            _replace_device(connection, device, [asdict(device)])

        rows = await self.audit.change([row], work)
        if not wanted():
            gone = msgspec.structs.replace(row, outcome="code_gone")
            rows += await self.audit.change(
                [gone], lambda connection: _replace_device(connection, device, former, only_if_same=True)
            )
            self.audit.publish(rows)
            raise SuzentError("code_gone", f"{device.display_name} hung up before it could be approved.")
        known = self.devices.by_id(device.device_id)
        self.devices.put(device)
        if known is not None:
            self._end_session(known, SuzentError("replaced", "This device was paired again."))
        self._tell_device("added" if known is None else "changed", device)
        self.audit.publish(rows)
        return device, token

    # -- control grants --

    async def issue_grant(self, device: Device, row: Row) -> tuple[Device, str]:
        """Give a control grant its id and token and keep it; return both.

        Earlier grants of the same holder end with that. The new one has an id of its own, since an identity is only
        claimed: nothing that belonged to the earlier one is handed over.

        Raises
        ------
        SuzentError
            ``store_unreadable`` or ``store_failed``; then nothing has changed.
        """
        token = mint_token()
        device.device_id = row.node_id = secrets.token_hex(8)
        device.digest, device.token_hint = token_digest(token), token_hint(token)
        device.approved_at = device.last_seen = now_text()
        rows, ended = [row], set[str]()

        def work(connection: sa.Connection) -> None:
            # Decided here, one after the other, also when another process shares the file.
            for former in _load_devices(connection):
                if former.account == device.account and is_same_holder(
                    former, device.node_identity, device.callback_url
                ):
                    ended.add(former.device_id)
                    detail = {"replaced_by": device.device_id}
                    rows.append(
                        Row(
                            row.account,
                            row.actor,
                            "grant.replace",
                            former.device_id,
                            former.display_name,
                            detail=detail,
                        )
                    )
                    _replace_device(connection, former, [])
            _replace_device(connection, device, [asdict(device)])

        written = await self.audit.change(rows, work)
        self.devices.put(device)
        self._tell_device("added", device)
        for device_id in ended:
            former = self.devices.by_id(device_id)
            if former is not None:
                self._drop_device(former)
        self._expiry.look()
        self.audit.publish(written)
        return device, token

    def note_use(self, principal: Principal) -> None:
        """Count a use of the control grant a caller holds; nothing for all others."""
        device = self.devices.by_id(principal.credential_id) if principal.grant is not None else None
        if device is not None:
            self._usage.note(device)

    def _used(self, device: Device) -> None:
        if self.devices.by_id(device.device_id) is device:
            self._tell_device("changed", device)

    def _expired(self, device: Device) -> None:
        """End what a token has under way whose time is over."""
        self._depart(device, "revoked")
        self._close_clients(device)
        self._tell_device("changed", device)

    # -- devices and tokens --

    def list_devices(self, principal: Principal) -> list[ApprovedDeviceInfo]:
        """Return every token of the caller's account."""
        return [self._device_info(device) for device in self.devices.visible(principal)]

    async def revoke(self, principal: Principal, device_id: str) -> PairingActionResponse:
        """Revoke a token: its socket closes and its calls fail at once, answered after it is on disk."""
        device = self.devices.find(principal, device_id)
        row = self._device_row(principal, "device.revoke", device)

        rows = await self.audit.change([row], lambda connection: _replace_device(connection, device, []))
        self._drop_device(device)
        self.audit.publish(rows)
        return PairingActionResponse(
            success=True, message=f"Revoked {device.display_name}.", device_id=device.device_id
        )

    async def set_status(self, principal: Principal, device_id: str, status: str) -> str:
        """Pause or resume a token; returns the status in force."""
        device = self.devices.find(principal, device_id)
        if device.status != status:
            action = "device.pause" if status == "paused" else "device.resume"
            await self._change_device(device, {"status": status}, self._device_row(principal, action, device))
            session = self.registry.by_id(device.device_id)
            if session is not None:
                self._tell_node("changed", session)
            self._close_clients(device)
            if status == "paused":
                self._depart(device, "paused")
            else:
                self.inbox.wake()
        return device.status

    async def host_token(self, principal: Principal, name: str | None) -> tuple[Device, str]:
        """Make a token of full authority for the caller's own programs; it is shown this once."""
        device = Device(
            device_id="",
            digest=b"",
            display_name=clean_text(name or "", int(self.limits.name_chars)) or "host token",
            platform="token",
            scope="full",
            account=principal.account,
            org=principal.org,
        )
        row = Row(principal.account, principal.actor, "token.create", node=device.display_name)
        return await self.adopt(device, row)

    async def _change_device(self, device: Device, changes: dict[str, Any], row: Row) -> None:
        rows = await self.audit.change([row], lambda connection: _update_device(connection, device, changes))
        for name, value in changes.items():
            setattr(device, name, value)
        self._tell_device("changed", device)
        self.audit.publish(rows)

    def _depart(self, device: Device, how: Literal["revoked", "paused"]) -> None:
        for hear in self.departures:
            hear(device, how)

    def _drop_device(self, device: Device) -> None:
        self.devices.remove(device.device_id)
        self._depart(device, "revoked")
        self._end_session(device, SuzentError("revoked", f"{device.display_name} was revoked."))
        self._close_clients(device)
        self._tell_device("removed", device)

    def _end_session(self, device: Device, error: SuzentError) -> None:
        session = self.registry.by_id(device.device_id)
        if session is None:
            return
        link = self._links.get(session)
        self.dispatcher.session_ended(session, error)
        if link is not None:
            link.end(error)

    def _close_clients(self, device: Device) -> None:
        """Close the sockets a token opened, when it no longer speaks for anyone."""
        if self.devices.by_id(device.device_id) is device and device.status == "active" and not device.expired:
            return
        for client in list(self._clients):
            if client.credential_id == device.device_id:
                client.close(4003, "this token was revoked or paused")

    def _device_info(self, device: Device) -> ApprovedDeviceInfo:
        return device.info(connected=self.registry.by_id(device.device_id) is not None)

    @staticmethod
    def _device_row(principal: Principal, action: str, device: Device) -> Row:
        return Row(principal.account, principal.actor, action, node_id=device.device_id, node=device.display_name)

    # -- settings and audit --

    @property
    def restart_required(self) -> bool:
        """Whether a setting differs from what is in force and takes effect only at the next start."""
        now = self.settings.values()
        return any(now[name] != self._as_started.get(name, now[name]) for name in NEEDS_RESTART)

    def started_with(self, **settings: Any) -> None:
        """Take note of what the server really did with settings that take effect at start."""
        self._as_started |= settings

    async def configure(self, principal: Principal, changes: dict[str, Any]) -> None:
        """Change settings and remember them; ``invalid_request`` for what can't be set."""
        changes = self.settings.check(changes)
        if not changes:
            return
        row = Row(principal.account, principal.actor, "config", detail=changes)

        rows = await self.audit.change([row], lambda connection: save_settings(connection, changes))
        self.settings.apply(changes)
        if changes.get("nodes_enabled") is False:
            error = SuzentError("nodes_disabled", "This gateway's nodes were switched off.")
            for link in [*self._links.values(), *self.sockets.all()]:
                link.end(error)
        self.audit.publish(rows)

    async def audit_page(self, principal: Principal, limit: int, before: int | None) -> list[AuditEntry]:
        """Return audit entries of the caller's account, newest first."""
        return await self.audit.page(principal, limit, before)

    def snapshot(self, topic: str, principal: Principal) -> list[dict[str, Any]]:
        """Return what a subscriber of ``topic`` starts from; audit and events start empty."""
        items: list[Any] = []
        match topic:
            case "nodes":
                items = self.list_nodes(principal)
            case "pending":
                items = self.list_pending(principal)
            case "devices":
                items = self.list_devices(principal)
            case _ if topic in self.snapshots:
                items = list(self.snapshots[topic](principal))
        return [item.model_dump() for item in items]

    # -- telling --

    def _tell_node(self, kind: str, session: NodeSession) -> None:
        self.changes.publish(
            "nodes", kind, lambda: session.info().model_dump(), lambda principal: Registry.may_see(principal, session)
        )
        if kind != "removed" and AGENT_COMMAND in session.capabilities:
            self.agents.tell()

    def _tell_device(self, kind: str, device: Device) -> None:
        self.changes.publish(
            "devices",
            kind,
            lambda: self._device_info(device).model_dump(),
            lambda principal: principal.account == device.account,
        )

    def _note(self, session: NodeSession, what: str) -> None:
        name, remote = clean_text(session.display_name, 128), clean_text(session.transport.remote, 128)
        log.info("Device '%s' (%s) at %s %sed", name, session.node_id, remote, what)
        self.audit.record(
            Row(
                session.device.account,
                f"device:{session.node_id}",
                f"node.{what}",
                node_id=session.node_id,
                node=session.display_name,
                detail={"remote": session.transport.remote},
            )
        )

    # -- another process wrote to the store --

    def _read_again(self, connection: sa.Connection) -> None:
        devices = _load_devices(connection)
        self._loop.call_soon_threadsafe(self._take_over, devices)

    def _take_over(self, devices: list[Device]) -> None:
        """Follow what another process did to the devices: a token revoked there is dead here at once."""
        current = {device.device_id: device for device in devices}
        for old in self.devices:
            new = current.pop(old.device_id, None)
            if new is None or new.digest != old.digest:
                self._drop_device(old)
                if new is not None:
                    self.devices.put(new)
                    self._tell_device("added", new)
                continue
            if new.trigger_count > old.trigger_count:
                old.trigger_count, old.last_triggered_at = new.trigger_count, new.last_triggered_at
                self._tell_device("changed", old)
            if any(getattr(new, name) != getattr(old, name) for name in _FOLLOWED):
                newly_paused = new.status == "paused" != old.status
                for name in _FOLLOWED:
                    setattr(old, name, getattr(new, name))
                self._tell_device("changed", old)
                if newly_paused:
                    self._depart(old, "paused")
                self._close_clients(old)
                session = self.registry.by_id(old.device_id)
                if session is not None:
                    self._tell_node("changed", session)
        for new in current.values():
            self.devices.put(new)
            self._tell_device("added", new)
        self._expiry.look()


def _load_devices(connection: sa.Connection) -> list[Device]:
    import sqlalchemy as sa

    from . import schema

    return [Device(**row) for row in connection.execute(sa.select(schema.devices)).mappings()]


def _same_installation(connection: sa.Connection, device: Device) -> list[dict[str, Any]]:
    """Return the row of the node that claimed this identity within the account, if there is one."""
    import sqlalchemy as sa

    from . import schema

    if not device.node_identity or device.scope != "node":
        return []
    table = schema.devices
    query = sa.select(table).where(
        table.c.scope == "node", table.c.node_identity == device.node_identity, table.c.account == device.account
    )
    return [dict(row) for row in connection.execute(query.limit(1)).mappings()]


def _update_device(connection: sa.Connection, device: Device, changes: dict[str, Any]) -> None:
    import sqlalchemy as sa

    from . import schema

    table = schema.devices
    connection.execute(sa.update(table).where(table.c.device_id == device.device_id).values(**changes))


def _replace_device(
    connection: sa.Connection, device: Device, rows: list[dict[str, Any]], only_if_same: bool = False
) -> None:
    """Put rows in the place of a device; ``only_if_same``: unless its id has got yet another token meanwhile."""
    import sqlalchemy as sa

    from . import schema

    table = schema.devices
    out = sa.delete(table).where(table.c.device_id == device.device_id)
    if only_if_same:
        out = out.where(table.c.digest == device.digest)
    if connection.execute(out).rowcount or not only_if_same:
        for row in rows:
            connection.execute(sa.insert(table).values(**row))
