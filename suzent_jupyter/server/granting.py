"""What the routes of control grants do: others ask for control of this gateway, and use it."""

from __future__ import annotations

import time

from ..gateway.call_requests import submit_call
from ..gateway.exposed import expose_files
from ..gateway.granting.coverage import provider_of
from ..protocol.address import http_base
from ..protocol.errors import SuzentError
from ..protocol.peers import (
    GrantApproval,
    GrantListResponse,
    GrantRequestResponse,
    GrantStatusResponse,
    UnauthorizedListResponse,
    WhoamiResponse,
)
from ..protocol.rest import PairingActionResponse
from ..protocol.wire import decode_call
from .auth import has_browser_headers, is_loopback
from .listener.shortcut import invoke_answer
from .request import Request


async def grant_request(request: Request) -> GrantRequestResponse:
    """Take the request of another gateway for control of this one."""
    if has_browser_headers(request.headers):
        # No gateway is a web page; a page could have every visitor's gateway ask the operator something.
        raise SuzentError("forbidden", "Control is asked for by gateways, not by web pages.")
    from ..peers.callback import leads_inside

    body, near = request.json_object(), is_loopback(request.remote)
    if not near and leads_inside(http_base(body.get("controller_addr")), request.remote):
        # Told later that its grant is revoked, it would have us call this machine.
        body["controller_addr"] = ""
    return request.gateway.grants.ask(body, request.remote, limited=not near)


async def grant_status(request: Request) -> GrantStatusResponse:
    """Tell the one who asked how it stands; the token is served once."""
    return request.gateway.grants.status(request.path["id"])


async def list_grants(request: Request) -> GrantListResponse:
    """List the control requests that wait."""
    grants = request.gateway.grants.waiting(request.principal)
    return GrantListResponse(grants=grants, count=len(grants))


async def approve_grant(request: Request) -> PairingActionResponse:
    """Approve one of them, by its id or code; without a body everything is granted for good."""
    return await request.gateway.grants.approve(request.principal, request.path["id"], request.model(GrantApproval))


async def deny_grant(request: Request) -> PairingActionResponse:
    """Deny it."""
    return await request.gateway.grants.deny(request.principal, request.path["id"])


async def list_unauthorized(request: Request) -> UnauthorizedListResponse:
    """List refused attempts to drive the agent."""
    gateway = request.gateway
    own = request.principal.account == gateway.account
    attempts = gateway.unauthorized.newest_first() if own else []
    return UnauthorizedListResponse(attempts=attempts, count=len(attempts))


async def peer_invoke(request: Request) -> bytes:
    """Call a command of one of our nodes for a peer: of the one it names, else of one that offers the command."""
    gateway, principal = request.gateway, request.principal
    gateway.credentials.note_use(principal)
    call = decode_call(request.body)
    if isinstance(call.command, str):
        call.command = call.command.strip()
        if call.command and call.node is None:
            call.node = provider_of(gateway, principal, call.command)
    started = time.time()
    request.waits_for = submit_call(gateway, principal, call)
    outcome = await expose_files(gateway, principal, call, await request.waits_for, started)
    return b"".join(invoke_answer(outcome))


async def whoami(request: Request) -> WhoamiResponse:
    """Tell a peer whose token it holds."""
    return WhoamiResponse(ok=True, peer_id=request.principal.credential_id or None)
