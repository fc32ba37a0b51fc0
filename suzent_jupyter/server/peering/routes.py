"""What the routes of peers do: the gateways this one controls, or is controlled by."""

from __future__ import annotations

import asyncio
from typing import Any

from ...protocol.errors import SuzentError
from ...protocol.peers import (
    ControlRequest,
    ControlResponse,
    DoneResponse,
    GrantChanged,
    GrantChangedResponse,
    OfferResponse,
    PeerCapabilitiesResponse,
    PeerInvokeRequest,
    PeerListResponse,
    PeerModeRequest,
    PeerModeResponse,
    PeerOffer,
    PeerReverseRequest,
    PeerReverseResponse,
    ProofRequest,
    ProofResponse,
)
from ..auth import has_browser_headers, has_forwarding_headers
from ..request import Request


async def control(request: Request) -> ControlResponse:
    """Ask another gateway for control: by its address, its pairing link, or the name of a peer."""
    return await request.service.peering.control(request.principal, request.model(ControlRequest))


async def control_status(request: Request) -> ControlResponse:
    """Tell how that stands; asked of the other side at once."""
    query = request.query
    return await request.service.peering.control_status(
        request.principal, query.get("request_id", ""), query.get("base_url", ""), query.get("name", "")
    )


async def list_peers(request: Request) -> PeerListResponse:
    """List the peers, with how they are right now; `refresh=1` asks each of them anew."""
    refresh = request.query.get("refresh", "") in ("1", "true")
    return await request.service.peering.look(request.principal, refresh=refresh)


async def peer_capabilities(request: Request) -> PeerCapabilitiesResponse:
    """List what a peer's nodes can do."""
    found = await request.service.peering.capabilities(request.principal, request.path["id"])
    return PeerCapabilitiesResponse(capabilities=found, count=len(found))


async def invoke_peer(request: Request) -> dict[str, Any]:
    """Call a command of one of a peer's nodes."""
    wanted = request.model(PeerInvokeRequest)
    call = request.service.peering.invoke(request.principal, request.path["id"], wanted)
    # Whoever hangs up ends it, and the peer sees us hang up.
    request.waits_for = asyncio.ensure_future(call)
    return dict(await request.waits_for)


async def set_mode(request: Request) -> PeerModeResponse:
    """Drive a peer, pause that, or switch it off."""
    mode = request.model(PeerModeRequest).mode
    in_force = await request.service.peering.set_mode(request.principal, request.path["id"], mode)
    return PeerModeResponse(success=True, mode=in_force)


async def set_reverse(request: Request) -> PeerReverseResponse:
    """Let a peer drive us, or not any more."""
    enabled = request.model(PeerReverseRequest).enabled
    await request.service.peering.set_reverse(request.principal, request.path["id"], enabled=enabled)
    return PeerReverseResponse(success=True, enabled=enabled)


async def remove_peer(request: Request) -> DoneResponse:
    """Sever both directions."""
    name = await request.service.peering.remove(request.principal, request.path["id"])
    return DoneResponse(message=f"Removed {name}.")


async def peer_offer(request: Request) -> OfferResponse:
    """Take control that a gateway which drives us gives us in return."""
    offer = request.model(PeerOffer)
    return OfferResponse(taken=await request.service.peering.take_offer(request.principal, offer, _sender(request)))


async def grant_changed(request: Request) -> GrantChangedResponse:
    """Look again whether the grants we hold still hold; its sender, whoever it is, learns nothing of that."""
    request.service.peering.hear(_of_gateway(request).model(GrantChanged).base_url, _sender(request))
    return GrantChangedResponse()


async def prove(request: Request) -> ProofResponse:
    """Prove to the holder of a grant that this gateway issued it, and is reached at the address it asks about."""
    return ProofResponse(
        proof=await request.service.peering.prove(_of_gateway(request).model(ProofRequest), _sender(request))
    )


def _of_gateway(request: Request) -> Request:
    """Refuse a web page: its visitors' gateways would call, in its name, what only their machines reach."""
    if has_browser_headers(request.headers):
        raise SuzentError("forbidden", "Gateways ask this, not web pages.")
    return request


def _sender(request: Request) -> str:
    """Return the host a request came from; ``""`` where a proxy stands between, whose word it would be."""
    return "" if has_forwarding_headers(request.headers) else request.remote
