"""The gateway: holds the parts together and is the only door in."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._version import __version__
from ..agent.clients import close_clients
from ..protocol.errors import CLOSE_REVOKED, SuzentError
from ..protocol.limits import Limits
from ..protocol.rest import NodeInfo
from .answering.agents import Agents
from .answering.conversations import Conversations
from .answering.inbox import Inbox
from .answering.model_agents import of_model
from .answering.runs import Runs
from .approving import Approvals
from .artifacts.artifacts import Artifacts
from .artifacts.call_files import CallFiles
from .audit import Audit, Row
from .changes import Changes
from .choosing.chooser import Chooser
from .clients import ClientLink
from .credentials import Credentials
from .device_link import DeviceLink
from .device_rows import load_devices
from .devices import Departure, Device, Devices
from .dispatch import Dispatcher
from .executors import newest_agent
from .granting.coverage import covered_nodes
from .granting.grants import Grants
from .granting.unauthorized import Unauthorized
from .identity import load_identity, new_identity
from .memory.memories import Memories
from .multinode.link import MultinodeLink
from .pairing import Pairing
from .peer_files import PeerFiles
from .permissions.permissions import Permissions
from .principals import Principal
from .registry import Registry
from .sessions import Sessions
from .settings import NEEDS_RESTART, Settings, save_settings
from .sharing import Sharing
from .sockets import Sockets
from .store import Store
from .tickets import Tickets
from .transport import Transport
from .turns import Turns

if TYPE_CHECKING:
    import sqlalchemy as sa
    from pydantic import BaseModel

    from ..agent.tools import FileAccess


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
        #: Topic → what a subscriber starts from; those that are not here start empty.
        self.snapshots: dict[str, Callable[[Principal], Sequence[BaseModel]]] = {"nodes": self.list_nodes}
        #: Called when a token stops speaking for anyone: with its device, and ``revoked`` or ``paused``.
        self.departures: list[Callable[[Device, Departure], None]] = [self.dispatcher.caller_departed]
        self.credentials = Credentials(self)
        self.sessions = Sessions(self)
        self.snapshots["devices"] = self.credentials.listing
        self.approvals = Approvals(self)
        self.snapshots["pending"] = self.approvals.waiting
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
        self.memories = Memories(self.store, self.audit, limits, account)
        self.artifacts = Artifacts(self, artifact_url)
        self.dispatcher.files = CallFiles(self.artifacts, limits)
        self.runs = Runs(self)
        self.inbox = Inbox(self)
        self.peer_files = PeerFiles(limits)
        self.departures.append(self.peer_files.departed)
        self.grants = Grants(self)
        self.unauthorized = Unauthorized(limits)
        self._as_started: dict[str, Any] = {}
        self._stopped = False
        self._clients: set[ClientLink | MultinodeLink] = set()

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
        if self._stopped:
            return  # while it loaded: nothing may begin that nobody ends any more
        self.permissions.start()
        self.artifacts.begin()
        self.inbox.begin()
        if self.router_model:
            self.chooser.prepare()

    async def stop(self) -> None:
        """Close every socket with 1001 and finish writing. Listening must have stopped already."""
        self._stopped = True
        await self.permissions.stop()
        self.runs.end_all()
        for link in [*self.sessions.links(), *self.sockets.all()]:
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

    def still_speaks(self, principal: Principal) -> bool:
        """Tell whether the token a caller came with, if any, still speaks for it: asked while an answer goes on."""
        if not principal.credential_id:
            return True
        device = self.devices.by_id(principal.credential_id)
        return device is not None and device.speaks

    def is_itself(self, node_identity: str, code: str | None, node_id: str | None) -> bool:
        """Tell whether the gateway that gave a device of this identity that code, or that id, is this one."""
        if code:
            return self.pairing.identity_behind(code) == node_identity
        device = self.devices.by_id(node_id or "")
        return device is not None and device.node_identity == node_identity

    # -- sockets --

    def open_device(self, transport: Transport) -> DeviceLink:
        """Take a new ``/ws/node`` socket."""
        return DeviceLink(self, transport)

    def open_multinode(self, transport: Transport, principal: Principal) -> MultinodeLink:
        """Take a new ``/ws/gateway`` socket; of a user who is logged in, or of nobody, who then must show a JWT."""
        return MultinodeLink(self, transport, principal)

    def open_client(self, transport: Transport, principal: Principal) -> ClientLink:
        """Take a new ``/ws/client`` socket of an authenticated caller."""
        return ClientLink(self, transport, principal)

    def client_opened(self, client: ClientLink | MultinodeLink) -> None:
        """Keep a client so that it can be closed."""
        self._clients.add(client)

    def client_closed(self, client: ClientLink | MultinodeLink) -> None:
        """Forget it."""
        self._clients.discard(client)

    def close_clients(self, device: Device) -> None:
        """Close the sockets a token opened, when it no longer speaks for anyone."""
        if self.devices.by_id(device.device_id) is device and device.speaks:
            return
        for client in list(self._clients):
            if client.credential_id == device.device_id:
                client.close(CLOSE_REVOKED, "this token was revoked or paused")

    # -- nodes --

    def list_nodes(self, principal: Principal) -> list[NodeInfo]:
        """Return the connected nodes a caller may see."""
        nodes = [session.info_for(principal) for session in self.registry.visible(principal)]
        return nodes if principal.grant is None else covered_nodes(principal.grant, nodes)

    def node(self, principal: Principal, reference: str) -> NodeInfo:
        """Return one of them; ``node_not_found`` or ``node_ambiguous`` otherwise."""
        return self.registry.find(principal, reference).info_for(principal)

    # -- settings --

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
            for link in [*self.sessions.links(), *self.sockets.all()]:
                link.end(error)
        self.audit.publish(rows)

    def snapshot(self, topic: str, principal: Principal) -> list[dict[str, Any]]:
        """Return what a subscriber of ``topic`` starts from."""
        items = self.snapshots.get(topic)
        return [] if items is None else [item.model_dump() for item in items(principal)]

    def _store_changed(self, connection: sa.Connection) -> None:
        self.credentials.read_again(connection)
