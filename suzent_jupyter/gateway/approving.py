"""What the operator says of devices and their commands: expected, let in, or turned away."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.rest import PairingActionResponse, PendingNodeInfo
from ..protocol.text import clean_text
from .audit import Row
from .pairing import Pending
from .principals import Principal
from .tickets import Invitation

if TYPE_CHECKING:
    from .gateway import Gateway


class Approvals:
    """Invites devices, and approves and denies what is in the waiting room (:class:`.pairing.Pairing`).

    Parameters
    ----------
    gateway : Gateway
        Whose waiting room.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def invite(self, principal: Principal, name: str | None) -> Invitation:
        """Make a ticket for a pairing link. It says that the operator expects the device; it approves nothing."""
        invitation = self._gateway.tickets.mint(
            principal.account, clean_text(name or "", int(self._gateway.limits.name_chars))
        )
        self._gateway.audit.record(
            Row(principal.account, principal.actor, "device.invite", node=invitation.ticket.name)
        )
        return invitation

    def waiting(self, principal: Principal) -> list[PendingNodeInfo]:
        """Return what waits for this caller's approval."""
        return [entry.info() for entry in self._gateway.pairing.visible(principal)]

    async def approve(self, principal: Principal, code: str) -> PairingActionResponse:
        """Approve what one exact code stands for. Answered only after it is on disk.

        Raises
        ------
        SuzentError
            How the code ended, ``store_unreadable`` or ``store_failed``; the device then waits on.
        """
        entry = self._gateway.pairing.find(principal, code)
        with self._gateway.pairing.deciding(entry):
            if entry.kind == "capabilities":
                return await self._approve_capabilities(principal, entry)
            return await self._approve_device(principal, entry)

    async def deny(self, principal: Principal, code: str) -> PairingActionResponse:
        """Deny what one exact code stands for: a device is sent away, new commands stay refused."""
        entry = self._gateway.pairing.find(principal, code)
        self._gateway.pairing.end(entry, "denied")
        entry.refuse("denied")
        action = "device.deny" if entry.kind == "device" else "capabilities.deny"
        self._gateway.audit.record(
            Row(principal.account, principal.actor, action, node_id=entry.node_id or "", node=entry.display_name)
        )
        return PairingActionResponse(success=True, message=f"Denied {entry.display_name}.")

    async def _approve_device(self, principal: Principal, entry: Pending) -> PairingActionResponse:
        device = entry.link.new_device(principal)
        row = Row(principal.account, principal.actor, "device.approve", node=device.display_name)
        row.detail = {"remote": entry.remote, "commands": device.approved}
        if entry.invited:
            row.detail |= {"invited": True, "invitation": entry.invitation}
        device, token = await self._gateway.credentials.adopt(
            device, row, lambda: self._gateway.pairing.end(entry, "used")
        )
        entry.link.approved(device, token)
        message = f"Approved {device.display_name}."
        return PairingActionResponse(success=True, message=message, device_id=device.device_id)

    async def _approve_capabilities(self, principal: Principal, entry: Pending) -> PairingActionResponse:
        device = self._gateway.devices.find(principal, entry.node_id or "")
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
        await self._gateway.credentials.change(device, {"approved": approved}, row)
        self._gateway.pairing.end(entry, "used")
        entry.link.capabilities_approved(entry)
        self._gateway.sessions.tell_of(device)
        message = f"Approved {', '.join(shown)} of {device.display_name}."
        return PairingActionResponse(success=True, message=message, device_id=device.device_id)
