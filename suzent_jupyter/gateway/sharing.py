"""Who may see a node: its owner shares it with their organisation and takes it back, and all take note at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..protocol.errors import SuzentError
from ..protocol.routing import ScopeResponse
from .answering.run import End
from .audit import Row
from .device_rows import update_device
from .devices import Device
from .principals import Principal
from .registry import Registry

if TYPE_CHECKING:
    from .gateway import Gateway


class Sharing:
    """Changes the scope of nodes. A change is on disk before it is in force.

    Parameters
    ----------
    gateway : Gateway
        Whose nodes they are.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._changing = asyncio.Lock()

    async def set_scope(self, principal: Principal, reference: str, scope: str) -> ScopeResponse:
        """Share a node with its owner's organisation, or with nobody.

        Parameters
        ----------
        principal : Principal
            The owner; the node is shared with the organisation they have now.
        reference : str
            As in :meth:`.Registry.find`; the id of a node of theirs that is not connected will do too.
        scope : str
            ``account`` or ``enterprise``.

        Raises
        ------
        SuzentError
            ``node_not_found``, ``node_ambiguous``, ``not_owner``, ``no_org``; ``store_unreadable`` or ``store_failed``,
            then all stays as it was.
        """
        async with self._changing:
            return await self._set(principal, self._find(principal, reference), scope)

    async def _set(self, principal: Principal, device: Device, scope: str) -> ScopeResponse:
        if device.account != principal.account:
            raise SuzentError("not_owner", f"{device.display_name} is somebody else's.")
        changes: dict[str, Any] = {"sharing": scope}
        if scope == "enterprise":
            if not principal.org:
                raise SuzentError("no_org", f"You have no organisation to share {device.display_name} with.")
            changes["org"] = principal.org
        if any(getattr(device, name) != value for name, value in changes.items()):
            row = Row(principal.account, principal.actor, "node.scope", device.device_id, device.display_name)
            row.detail = dict(changes)
            rows = await self._gateway.audit.change(
                [row], lambda connection: update_device(connection, device, changes)
            )
            was = replace(device)
            for name, value in changes.items():
                setattr(device, name, value)
            self._gateway.credentials.tell("changed", device)
            self.changed(device, was)
            self._gateway.audit.publish(rows)
        org = device.org if device.sharing == "enterprise" else ""
        return ScopeResponse(node_id=device.device_id, scope=device.sharing, org=org)

    def changed(self, device: Device, was: Device) -> None:
        """Bring a change of who may see a node to those who hear of it, and end what they may no longer do.

        ``was`` is the device as it was before.
        """
        session = self._gateway.registry.by_id(device.device_id)
        if session is None:
            return

        def loses(principal: Principal) -> bool:
            return Registry.sees(principal, was) and not Registry.sees(principal, device)

        def gains(principal: Principal) -> bool:
            return Registry.sees(principal, device) and not Registry.sees(principal, was)

        def keeps(principal: Principal) -> bool:
            return Registry.sees(principal, device) and Registry.sees(principal, was)

        self._gateway.chooser.changed(session)
        error = SuzentError("node_disconnected", f"{session.display_name} is no longer shared.")
        for run in self._gateway.runs.executed_by(device.device_id):
            if not Registry.sees(run.principal, device):
                run.finish(End.of(error))
        for call in session.open_calls():
            if not Registry.sees(call.principal, device):
                session.give_up(call, "cancelled")
                self._gateway.dispatcher.fail(call, error)
        self._gateway.permissions.shared_anew(device)
        # What the node answers all the same is not theirs to read, in the audit trail either.
        session.forget_late(lambda call: Registry.sees(call.principal, device))
        publish = self._gateway.sessions.publish
        publish("removed", session, loses, scope=was.sharing)
        publish("added", session, gains)
        publish("changed", session, keeps)
        self._gateway.agents.tell()

    def _find(self, principal: Principal, reference: str) -> Device:
        try:
            return self._gateway.registry.find(principal, reference).device
        except SuzentError as error:
            device = self._gateway.devices.by_id(reference)
            if error.code != "node_not_found" or device is None:
                raise
            if device.scope != "node" or device.account != principal.account:
                raise
            return device
