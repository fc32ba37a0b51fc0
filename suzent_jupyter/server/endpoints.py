"""What each REST route does. An endpoint returns a model, a dict, a page, or JSON bytes that are sent as they are."""

from __future__ import annotations

from typing import Any

from ..gateway.call_requests import submit_call
from ..protocol.rest import (
    ApprovedDeviceListResponse,
    AuditResponse,
    ConfigChangeResponse,
    ConfigRequest,
    ConfigResponse,
    ConnectionListResponse,
    ConnectRequest,
    ConnectResponse,
    DisconnectRequest,
    DisconnectResponse,
    DiscoverResponse,
    HostTokenRequest,
    HostTokenResponse,
    NodeInfo,
    NodeListResponse,
    PairingActionResponse,
    PendingListResponse,
    StatusRequest,
    StatusResponse,
)
from ..protocol.wire import decode_call
from . import invitations
from .listener.shortcut import invoke_answer
from .page import node_page
from .request import Page, Request


async def list_nodes(request: Request) -> NodeListResponse:
    """List the connected nodes."""
    nodes = request.gateway.list_nodes(request.principal)
    return NodeListResponse.model_construct(nodes=nodes, count=len(nodes))


async def get_node(request: Request) -> NodeInfo:
    """Describe one connected node."""
    return request.gateway.node(request.principal, request.path["node"])


async def invoke(request: Request) -> bytes:
    """Call a command of a node and wait for its answer."""
    call = decode_call(request.body)
    call.node = request.path["node"]
    request.waits_for = submit_call(request.gateway, request.principal, call)
    return b"".join(invoke_answer(await request.waits_for))


async def list_pending(request: Request) -> PendingListResponse:
    """List the devices and new commands that wait for approval."""
    pending = request.gateway.approvals.waiting(request.principal)
    return PendingListResponse(pending=pending, count=len(pending))


async def approve(request: Request) -> PairingActionResponse:
    """Approve what one exact code stands for."""
    return await request.gateway.approvals.approve(request.principal, request.path["code"])


async def deny(request: Request) -> PairingActionResponse:
    """Deny it."""
    return await request.gateway.approvals.deny(request.principal, request.path["code"])


async def list_devices(request: Request) -> ApprovedDeviceListResponse:
    """List every token that was issued."""
    devices = request.gateway.credentials.listing(request.principal)
    return ApprovedDeviceListResponse(devices=devices, count=len(devices))


async def revoke(request: Request) -> PairingActionResponse:
    """Revoke a device or token: its socket closes and its calls fail at once."""
    return await request.gateway.credentials.revoke(request.principal, request.path["id"])


async def set_status(request: Request) -> StatusResponse:
    """Pause or resume a device or token."""
    status = request.model(StatusRequest).status
    in_force = await request.gateway.credentials.set_status(request.principal, request.path["id"], status)
    return StatusResponse(success=True, status=in_force)


async def host_token(request: Request) -> HostTokenResponse:
    """Make a token of full authority for one's own programs, shown this once."""
    device, token = await request.gateway.credentials.host_token(
        request.principal, request.model(HostTokenRequest).name
    )
    return HostTokenResponse(device_id=device.device_id, token=token)


async def get_config(request: Request) -> ConfigResponse:
    """Show settings, addresses and limits in force."""
    gateway = request.gateway
    return ConfigResponse(
        **gateway.settings.values(),
        **await invitations.config_fields(request),
        fixed=sorted(gateway.settings.fixed),
        restart_required=gateway.restart_required,
        limits=gateway.limits.as_dict(),
        version=gateway.version,
        store=gateway.store.problem or "ok",
    )


async def set_config(request: Request) -> ConfigChangeResponse:
    """Change settings and remember them."""
    changes = request.model(ConfigRequest).model_dump(exclude_none=True)
    gateway = request.gateway
    await gateway.configure(request.principal, changes)
    request.service.settings_changed()
    return ConfigChangeResponse(success=True, restart_required=gateway.restart_required, **gateway.settings.values())


async def discover(request: Request) -> DiscoverResponse:
    """Look for gateways on the local network and in the tailnet; `timeout` is in seconds, 3 by default, 10 at most."""
    seconds = request.seconds("timeout", 3.0)
    return await request.service.discovery.discover(seconds)


async def list_audit(request: Request) -> AuditResponse:
    """Show who did what, newest first."""
    limit = request.number("limit", 100, 1, 1000)
    before = request.number("before", None, 1, 2**53)
    assert limit is not None
    entries = await request.gateway.audit.page(request.principal, limit, before)
    following = entries[-1].id if len(entries) == limit else None
    return AuditResponse(entries=entries, count=len(entries), next=following)


async def connect(request: Request) -> ConnectResponse:
    """Become a node of another gateway."""
    info = await request.service.joining.connect(request.principal, request.model(ConnectRequest))
    return ConnectResponse(success=True, **info.model_dump())


async def disconnect(request: Request) -> DisconnectResponse:
    """Leave another gateway, or drop one from the list that was left before."""
    address = request.model(DisconnectRequest).gateway_url
    done = await request.service.joining.disconnect(request.principal, address)
    return DisconnectResponse(success=True, message=done)


async def list_connections(request: Request) -> ConnectionListResponse:
    """List the gateways this one has joined as a node."""
    joining = request.service.joining
    await joining.listed()
    found = joining.list(request.principal)
    offers = await joining.offers() if request.number("offers", 0, 0, 1) else None
    name = request.gateway.settings.display_name
    return ConnectionListResponse(connections=found, count=len(found), display_name=name, offers=offers)


async def browser_node(request: Request) -> Page:
    """Serve the page that makes a browser a node."""
    return node_page(request.scheme, request.host, request.place)


async def openapi(request: Request) -> dict[str, Any]:
    """Describe every route of this API (OpenAPI 3.1)."""
    from .openapi import document

    return document(request.gateway.version)
