"""Inviting devices: the pairing links that ``GET /nodes/config`` and ``POST /nodes/invite`` hand out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..protocol.rest import Address, InviteRequest, InviteResponse
from .public_url import best_url
from .request import Request

if TYPE_CHECKING:
    from .service import GatewayService


async def invite(request: Request) -> InviteResponse:
    """Make a pairing link on purpose: a fresh ticket, as a link for every address."""
    service = request.service
    made = request.gateway.approvals.invite(request.principal, request.model(InviteRequest).name)
    links = await service.addresses.links(best_url(request.mount_url, service.public_url), made.text)
    return InviteResponse(
        ticket=made.text,
        expires_at=made.ticket.expires_at,
        name=made.ticket.name,
        gateway_id=service.gateway.identity,
        links=links,
        problem=service.host.problem,
        warnings=_warnings(service, links),
    )


async def config_fields(request: Request) -> dict[str, Any]:
    """Return what ``GET /nodes/config`` says of addresses; with a ticket in its links for callers who may invite."""
    service, gateway = request.service, request.gateway
    ticket = expires_at = ""
    if request.may_write is None or await request.may_write():
        shown = gateway.tickets.current(request.principal.account)
        ticket, expires_at = shown.text, shown.ticket.expires_at
    bound = service.host.bound
    addresses = await service.addresses.links(best_url(request.mount_url, service.public_url), ticket)
    return {
        "binding_active": bound.for_others,
        "port": bound.port,
        "tls_port": bound.tls_port,
        "pin": bound.pin,
        "addresses": addresses,
        "lan_host": next((each.host for each in addresses if each.kind not in ("local", "public")), None),
        "gateway_url": addresses[0].gateway_url if addresses else None,
        "gateway_id": service.gateway.identity,
        "require_ticket": gateway.require_ticket,
        "ticket_expires_at": expires_at,
        "problem": service.host.problem,
        "warnings": _warnings(service, addresses),
    }


def _warnings(service: GatewayService, addresses: list[Address]) -> list[str]:
    warnings = service.host.warnings
    if all(each.kind == "local" for each in addresses):
        if service.host.bound.public_first:
            warnings.append(
                "The public address of this Jupyter server is not known yet; open it in a browser, then invite again."
            )
        elif service.host.bound.for_others:
            warnings.append("This machine has no address others could use; is it connected to a network?")
    return warnings
