"""Control grants: others ask for control of this gateway, the operator decides, and what was granted is held to."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ...protocol.address import http_base
from ...protocol.peers import GrantApproval, GrantInfo, GrantRequestResponse, GrantStatusResponse
from ...protocol.rest import PairingActionResponse
from ...protocol.text import clean_text
from ..audit import Row
from ..clock import now_text
from ..devices import Departure, Device
from ..principals import Principal
from .requests import GrantEntry, GrantRequests

if TYPE_CHECKING:
    from ..gateway import Gateway

log = logging.getLogger("suzent_jupyter")

_IDENTITY_CHARS = 128


class Grants:
    """The requests that wait, and what becomes of them.

    Parameters
    ----------
    gateway : Gateway
        Whose control is asked for.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._requests = GrantRequests(
            gateway.limits, gateway.changes, lambda entry: self._info(entry).model_dump(), gateway.pairing.knows
        )
        gateway.pairing.taken = self._requests.knows
        gateway.snapshots["grants"] = self.waiting
        gateway.departures.append(self._departed)

    def ask(self, body: dict[str, Any], host: str, *, limited: bool) -> GrantRequestResponse:
        """Let a request wait for the operator.

        Parameters
        ----------
        body : dict
            As in :class:`~suzent_jupyter.protocol.peers.GrantRequest`; whatever is in it was chosen by a stranger.
        host : str
            The address it came from.
        limited : bool
            Whether requests of this address are counted: not where many share it.

        Raises
        ------
        SuzentError
            ``too_many_requests`` or ``nodes_disabled``.
        """
        gateway = self._gateway
        gateway.settings.check_nodes_enabled()
        entry = GrantEntry(
            name=clean_text(body.get("controller_name"), int(gateway.limits.name_chars)) or "unknown",
            host=host,
            limited=limited,
            account=gateway.waiting_account,
            addr=http_base(body.get("controller_addr")),
            identity=clean_text(body.get("controller_identity"), _IDENTITY_CHARS),
        )
        if self._requests.add(entry):
            log.info(
                "'%s' at %s asks for control of this gateway; its code is %s: `%%suzent grants` shows it.",
                entry.name,
                host or "this machine",
                entry.code,
            )
        return GrantRequestResponse(request_id=entry.request_id, code=entry.code, expires_at=entry.expires_at)

    def status(self, request_id: str) -> GrantStatusResponse:
        """Tell the one who asked how it stands; ``request_unknown``. The token is served once."""
        status, token = self._requests.take(request_id)
        return GrantStatusResponse(
            status=status, token=token, node_identity=self._gateway.identity if token is not None else None
        )

    def waiting(self, principal: Principal) -> list[GrantInfo]:
        """Return what waits for this caller's answer, oldest first."""
        return [self._info(entry) for entry in self._requests.visible(principal)]

    async def approve(self, principal: Principal, reference: str, terms: GrantApproval) -> PairingActionResponse:
        """Grant what a request asks for. Answered only after it is on disk.

        Parameters
        ----------
        principal : Principal
            The operator; the grant belongs to their account.
        reference : str
            The request's id, or its code in any case.
        terms : GrantApproval
            What is granted, and for how long.

        Raises
        ------
        SuzentError
            ``request_unknown``, ``request_expired``, ``request_decided``; ``store_unreadable`` or ``store_failed``,
            then the request waits on.
        """
        entry = self._requests.find(principal, reference)
        with self._requests.deciding(entry):
            device = Device(
                "",
                b"",
                entry.name,
                platform="peer",
                scope="agent",
                account=principal.account,
                org=principal.org,
                node_identity=entry.identity,
                callback_url=entry.addr,
                covers=terms.covers,
                commands=list(dict.fromkeys(terms.commands)),
                unattended_tools=terms.unattended_tools,
                expires_at=now_text(terms.expires_in) if terms.expires_in is not None else "",
            )
            row = Row(principal.account, principal.actor, "grant.approve", node=device.display_name)
            row.detail = {"remote": entry.host, "address": entry.addr, **terms.model_dump()}
            device, token = await self._gateway.credentials.issue_grant(device, row)
            self._requests.approve(entry, device.device_id, token, principal.account)
        message = f"Approved {device.display_name}."
        return PairingActionResponse(success=True, message=message, device_id=device.device_id)

    async def deny(self, principal: Principal, reference: str) -> PairingActionResponse:
        """Refuse a request; fails as :meth:`approve` where none waits."""
        entry = self._requests.find(principal, reference)
        self._requests.deny(entry, principal.account)
        row = Row(principal.account, principal.actor, "grant.deny", node=entry.name, detail={"remote": entry.host})
        self._gateway.audit.record(row)
        return PairingActionResponse(success=True, message=f"Denied {entry.name}.")

    def close(self) -> None:
        """Forget what waits."""
        self._requests.close()

    def _info(self, entry: GrantEntry) -> GrantInfo:
        replaced = [
            device.display_name
            for device in self._gateway.devices
            if device.account == entry.account and device.is_held_by(entry.identity, entry.addr)
        ]
        return GrantInfo(
            request_id=entry.request_id,
            code=entry.code,
            controller_name=entry.name,
            controller_host=entry.host,
            controller_addr=entry.addr,
            controller_identity=entry.identity,
            requested_at=entry.requested_at,
            expires_at=entry.expires_at,
            replaces=replaced[0] if replaced and entry.status == "pending" else None,
        )

    def _departed(self, device: Device, how: Departure) -> None:
        if how == "revoked":
            self._requests.revoked(device.device_id)
