"""The gateway: holds the parts together and is the only door in."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..agent.clients import close_clients
from ..protocol.device import AGENT_COMMAND
from ..protocol.errors import SuzentError
from ..protocol.limits import Limits
from ..protocol.rest import ApprovedDeviceInfo, AuditEntry, NodeInfo, PairingActionResponse, PendingNodeInfo
from ..protocol.text import clean_text
from .answering.agents import Agents
from .answering.conversations import Conversations
from .answering.inbox import Inbox
from .answering.model_agents import of_model
from .answering.runs import Runs
from .artifacts.artifacts import Artifacts
from .artifacts.call_files import CallFiles
from .audit import Audit, Row
from .changes import Changes
from .chooser import Chooser
from .clients import ClientLink
from .clock import now_text
from .credentials import Credentials
from .device_rows import load_devices
from .devices import Departure, Device, Devices
from .dispatch import Dispatcher
from .executors import newest_agent
from .granting.coverage import covered_nodes
from .granting.grants import Grants
from .granting.unauthorized import Unauthorized
from .identity import load_identity, new_identity
from .link import DeviceLink
from .memory import Memories
from .multinode.link import MultinodeLink
from .node_link import NodeLink
from .pairing import Pairing, Pending
from .peer_files import PeerFiles
from .permissions.permissions import Permissions
from .principals import Principal
from .registry import Registry
from .session import NodeSession
from .settings import NEEDS_RESTART, Settings, save_settings
from .sharing import Sharing
from .sockets import Sockets
from .store import Store
from .tickets import Invitation, Tickets
from .transport import Transport
from .turns import Turns

if TYPE_CHECKING:
    import sqlalchemy as sa
    from pydantic import BaseModel

    from ..agent.tools import FileAccess

log = logging.getLogger("suzent_jupyter")

_REPLACEMENT_WINDOW = 60.0


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
    router_model : str
        The model that chooses nodes, likewise.
    artifact_url : str
        Where large files are kept, as fsspec names it; ``""`` for a directory in ``data_dir``.
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
        router_model: str = "",
        artifact_url: str = "",
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
        self.router_model = router_model
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
        self.store = Store(data_dir, limits.store_poll, self._store_changed)
        self.audit = Audit(self.store, self.changes, int(limits.audit_rows))
        self.dispatcher = Dispatcher(self.registry, settings, self.audit, limits)
        #: Topic → what a subscriber starts from, for what is not the gateway's own.
        self.snapshots: dict[str, Callable[[Principal], Sequence[BaseModel]]] = {}
        #: Called when a token stops speaking for anyone: with its device, and ``revoked`` or ``paused``.
        self.departures: list[Callable[[Device, Departure], None]] = [self.dispatcher.caller_departed]
        self.credentials = Credentials(self)
        self.sharing = Sharing(self)
        self.chooser = Chooser(self)
        self.agents = Agents()
        self.agents.of_device = partial(newest_agent, self)
        if agent_model:
            self.agents.of_model = of_model(self)
        #: What an agent sees of the server's files; None when alone.
        self.files: FileAccess | None = None
        self.conversations = Conversations(self.store, self.changes, limits)
        self.snapshots["conversations"] = self.conversations.snapshot
        self.permissions = Permissions(self)
        self.memories = Memories(self.store)
        self.artifacts = Artifacts(self, artifact_url)
        self.dispatcher.files = CallFiles(self.artifacts, limits)
        self.runs = Runs(self)
        self.inbox = Inbox(self)
        self.peer_files = PeerFiles(limits)
        self.departures.append(self.peer_files.departed)
        self.grants = Grants(self)
        self.unauthorized = Unauthorized(limits)
        self._as_started: dict[str, Any] = {}
        self._links: dict[NodeSession, NodeLink] = {}
        self._clients: set[ClientLink | MultinodeLink] = set()
        self._replacements: dict[str, deque[float]] = {}

    # -- life --

    async def start(self) -> None:
        """Load the store; devices that knock before it is loaded wait for it."""

        identity: list[str] = []

        def load(connection: sa.Connection) -> list[Device]:
            self.settings.remember(connection)
            identity.append(load_identity(connection))
            self.artifacts.load(connection)
            self.inbox.load(connection)
            self.conversations.load(connection)
            self.permissions.load(connection)
            return load_devices(connection)

        devices = await self.store.open(load)
        if devices is not None:
            self.identity = identity[-1]
        self._as_started = self.settings.values()
        self.credentials.start(devices)
        self.ready.set()
        self.permissions.start()
        self.artifacts.begin()
        self.inbox.begin()
        if self.router_model:
            self.chooser.prepare()

    async def stop(self) -> None:
        """Close every socket with 1001 and finish writing. Listening must have stopped already."""
        await self.permissions.stop()
        self.runs.end_all()
        for link in [*self._links.values(), *self.sockets.all()]:
            link.going_away()
        await self.runs.told()
        for client in list(self._clients):
            client.close()
        await asyncio.gather(self.inbox.stop(), self.runs.stop(), self.chooser.close())
        self.peer_files.close()
        self.grants.close()
        await self.artifacts.stop()
        await self.credentials.stop()
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

    def open_multinode(self, transport: Transport, principal: Principal) -> MultinodeLink:
        """Take a new ``/ws/gateway`` socket; of a user who is logged in, or of nobody, who then must show a JWT."""
        return MultinodeLink(self, transport, principal)

    def open_client(self, transport: Transport, principal: Principal) -> ClientLink:
        """Take a new ``/ws/client`` socket of an authenticated caller."""
        return ClientLink(self, transport, principal)

    # -- sockets (called by the links) --

    def session_opened(self, session: NodeSession, link: NodeLink) -> None:
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
        self.credentials.tell("changed", session.device)
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

    def client_opened(self, client: ClientLink | MultinodeLink) -> None:
        """Keep a client so that it can be closed."""
        self._clients.add(client)

    def client_closed(self, client: ClientLink | MultinodeLink) -> None:
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
            self.credentials.note_last_seen(session.device)
            self._tell_node("removed", session)
            self.credentials.tell("changed", session.device)
            self._note(session, "disconnect")

    # -- sockets (called by the parts) --

    def end_session(self, device: Device, error: SuzentError) -> None:
        """End the session of a device, if it has one; its calls fail with the same error."""
        session = self.registry.by_id(device.device_id)
        if session is None:
            return
        link = self._links.get(session)
        self.dispatcher.session_ended(session, error)
        if link is not None:
            link.end(error)

    def close_clients(self, device: Device) -> None:
        """Close the sockets a token opened, when it no longer speaks for anyone."""
        if self.devices.by_id(device.device_id) is device and device.speaks:
            return
        for client in list(self._clients):
            if client.credential_id == device.device_id:
                client.close(4003, "this token was revoked or paused")

    def tell_node_of(self, device: Device) -> None:
        """Tell subscribers that a device changed, where it is connected."""
        session = self.registry.by_id(device.device_id)
        if session is not None:
            self._tell_node("changed", session)

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
        device = entry.link.new_device(principal)
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
        await self.credentials.change(device, {"approved": approved}, row)
        self.pairing.end(entry, "used")
        entry.link.capabilities_approved(entry)
        self.tell_node_of(device)
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

    # -- devices and tokens --

    async def adopt(
        self, device: Device, row: Row | None = None, wanted: Callable[[], bool] = lambda: True
    ) -> tuple[Device, str]:
        """Give a new device its id and token; see :meth:`.credentials.Credentials.adopt`."""
        return await self.credentials.adopt(device, row, wanted)

    async def issue_grant(self, device: Device, row: Row, *, replaces: bool = True) -> tuple[Device, str]:
        """Give a control grant its id and token; see :meth:`.credentials.Credentials.issue_grant`."""
        return await self.credentials.issue_grant(device, row, replaces=replaces)

    async def host_token(self, principal: Principal, name: str | None) -> tuple[Device, str]:
        """Make a token of full authority for the caller's own programs; it is shown this once."""
        return await self.credentials.host_token(principal, name)

    def list_devices(self, principal: Principal) -> list[ApprovedDeviceInfo]:
        """Return every token of the caller's account."""
        return self.credentials.listing(principal)

    async def revoke(self, principal: Principal, device_id: str) -> PairingActionResponse:
        """Revoke a token: its socket closes and its calls fail at once, answered after it is on disk."""
        return await self.credentials.revoke(principal, device_id)

    async def set_status(self, principal: Principal, device_id: str, status: str) -> str:
        """Pause or resume a token; returns the status in force."""
        return await self.credentials.set_status(principal, device_id, status)

    def still_speaks(self, principal: Principal) -> bool:
        """Tell whether the token a caller came with, if any, still speaks for it: asked while an answer goes on."""
        if not principal.credential_id:
            return True
        device = self.devices.by_id(principal.credential_id)
        return device is not None and device.speaks

    def note_use(self, principal: Principal) -> None:
        """Count a use of the control grant a caller holds; nothing for all others."""
        self.credentials.note_use(principal)

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
        if "denied_commands" in changes:
            self.chooser.commands_changed()
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

    def _store_changed(self, connection: sa.Connection) -> None:
        self.credentials.read_again(connection)

    # -- telling --

    def _tell_node(self, kind: str, session: NodeSession) -> None:
        self.chooser.changed(session)
        self.changes.publish(
            "nodes", kind, lambda: session.info().model_dump(), lambda principal: Registry.may_see(principal, session)
        )
        if kind != "removed" and AGENT_COMMAND in session.capabilities:
            self.agents.tell()

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
