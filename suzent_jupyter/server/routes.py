"""The route table: every URL with its method, endpoint and the least authority that may call it.

It is mounted twice, under the Jupyter server and on the listener, and it is what ``/openapi.json`` shows.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel

from ..gateway import Authority
from ..protocol import artifacts as artifact_bodies
from ..protocol import chat, multinode, peers, rest, routing
from ..protocol import memory as memory_bodies
from ..protocol import permissions as permission_bodies
from ..protocol.address import NODE_PATH
from . import artifacts, channel, choosing, endpoints, granting, invitations, memory, permissions
from .files import routes as transfer
from .peering import routes as peer_routes
from .request import Answer, Page, Request
from .stream import Stream

if TYPE_CHECKING:
    from tornado.web import RequestHandler

Endpoint = Callable[[Request], Awaitable[BaseModel | dict[str, Any] | bytes | Answer | Page | Stream]]


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one URL.

    Attributes
    ----------
    method, path : str
        ``{name}`` in the path is one segment.
    endpoint : callable
        See :mod:`.endpoints`; the name of the socket kind for WebSockets.
    authority : Authority
        The least that may call it.
    action : str
        What Jupyter's authorizer is asked for resource ``suzent``: ``read`` look, ``execute`` invoke, ``write`` change.
    body, answer : model, optional
        For the OpenAPI document.
    large : bool
        Whether the body may be as large as an invoke's.
    page : bool
        Whether the answer is a page for people, which is served only under names of this machine's own.
    recognises : bool
        Whether callers who show a token, or are logged in to Jupyter, are known although anyone may come.
    owner : bool
        Whether it is for the account alone that owns the gateway.
    streamed : bool
        Whether the body is a file, which the endpoint takes as it comes.
    media, status : str, int
        What a good answer is, for the OpenAPI document.
    """

    method: Literal["GET", "POST", "DELETE", "WS"]
    path: str
    endpoint: Endpoint | Literal["device", "client", "multinode"]
    authority: Authority
    action: Literal["read", "execute", "write"]
    body: type[BaseModel] | None = None
    answer: type[BaseModel] | None = None
    large: bool = False
    page: bool = False
    media: str = "application/json"
    status: int = 200
    recognises: bool = False
    owner: bool = False
    streamed: bool = False

    @property
    def pattern(self) -> str:
        """The path as a regular expression with named groups."""
        parts = re.split(r"\{(\w+)\}", self.path)
        return "".join(f"(?P<{part}>[^/]+)" if index % 2 else re.escape(part) for index, part in enumerate(parts))


_EVENTS, _FILE = "text/event-stream", "application/octet-stream"
_NONE, _AGENT, _FULL = Authority.NONE, Authority.AGENT, Authority.FULL

# Fixed segments stand before {node}: a node named `pending` is reached by its id.
ROUTES: tuple[Route, ...] = (
    Route("WS", NODE_PATH, "device", _NONE, "execute"),
    Route("WS", "/ws/client", "client", _FULL, "execute"),
    Route("WS", multinode.PATH, "multinode", _NONE, "execute", recognises=True),
    Route("GET", "/node", endpoints.browser_node, _NONE, "read", page=True),
    Route("POST", "/nodes/{node}/invoke", endpoints.invoke, _FULL, "execute",
          rest.InvokeRequest, rest.InvokeResponse, large=True),
    Route("GET", "/nodes", endpoints.list_nodes, _AGENT, "read", None, rest.NodeListResponse),
    Route("GET", "/nodes/pending", endpoints.list_pending, _FULL, "read", None, rest.PendingListResponse),
    Route("POST", "/nodes/pending/{code}/approve", endpoints.approve, _FULL, "write",
          None, rest.PairingActionResponse),
    Route("POST", "/nodes/pending/{code}/deny", endpoints.deny, _FULL, "write", None, rest.PairingActionResponse),
    Route("GET", "/nodes/devices", endpoints.list_devices, _FULL, "read", None, rest.ApprovedDeviceListResponse),
    Route("POST", "/nodes/devices/{id}/revoke", endpoints.revoke, _FULL, "write", None, rest.PairingActionResponse),
    Route("POST", "/nodes/devices/{id}/status", endpoints.set_status, _FULL, "write",
          rest.StatusRequest, rest.StatusResponse),
    Route("POST", "/nodes/host-token", endpoints.host_token, _FULL, "write",
          rest.HostTokenRequest, rest.HostTokenResponse),
    Route("GET", "/nodes/config", endpoints.get_config, _FULL, "read", None, rest.ConfigResponse),
    Route("POST", "/nodes/config", endpoints.set_config, _FULL, "write",
          rest.ConfigRequest, rest.ConfigChangeResponse, owner=True),
    Route("POST", "/nodes/invite", invitations.invite, _FULL, "write", rest.InviteRequest, rest.InviteResponse),
    Route("GET", "/nodes/discover", endpoints.discover, _FULL, "read", None, rest.DiscoverResponse, owner=True),
    Route("POST", "/nodes/connect", endpoints.connect, _FULL, "write",
          rest.ConnectRequest, rest.ConnectResponse, owner=True),
    Route("POST", "/nodes/connect/stop", endpoints.disconnect, _FULL, "write",
          rest.DisconnectRequest, rest.DisconnectResponse, owner=True),
    Route("GET", "/nodes/connections", endpoints.list_connections, _FULL, "read",
          None, rest.ConnectionListResponse, owner=True),
    Route("POST", "/nodes/grant-request", granting.grant_request, _NONE, "write",
          peers.GrantRequest, peers.GrantRequestResponse),
    Route("GET", "/nodes/grant-status/{id}", granting.grant_status, _NONE, "read", None, peers.GrantStatusResponse),
    Route("GET", "/nodes/grants", granting.list_grants, _FULL, "read", None, peers.GrantListResponse),
    Route("POST", "/nodes/grants/{id}/approve", granting.approve_grant, _FULL, "write",
          peers.GrantApproval, rest.PairingActionResponse),
    Route("POST", "/nodes/grants/{id}/deny", granting.deny_grant, _FULL, "write", None, rest.PairingActionResponse),
    Route("GET", "/nodes/unauthorized", granting.list_unauthorized, _FULL, "read",
          None, peers.UnauthorizedListResponse),
    Route("POST", "/nodes/control", peer_routes.control, _FULL, "write",
          peers.ControlRequest, peers.ControlResponse, owner=True),
    Route("GET", "/nodes/control-status", peer_routes.control_status, _FULL, "read",
          None, peers.ControlResponse, owner=True),
    Route("GET", "/nodes/peers", peer_routes.list_peers, _FULL, "read", None, peers.PeerListResponse, owner=True),
    Route("GET", "/nodes/peers/{id}/capabilities", peer_routes.peer_capabilities, _FULL, "read",
          None, peers.PeerCapabilitiesResponse, owner=True),
    Route("POST", "/nodes/peers/{id}/invoke", peer_routes.invoke_peer, _FULL, "execute",
          peers.PeerInvokeRequest, rest.InvokeResponse, large=True, owner=True),
    Route("POST", "/nodes/peers/{id}/trigger", transfer.trigger, _FULL, "execute",
          peers.TriggerRequest, media=_EVENTS, owner=True),
    Route("POST", "/nodes/peers/{id}/stop", transfer.stop_peer, _FULL, "execute", None, chat.StopResponse, owner=True),
    Route("POST", "/nodes/peers/{id}/mode", peer_routes.set_mode, _FULL, "write",
          peers.PeerModeRequest, peers.PeerModeResponse, owner=True),
    Route("POST", "/nodes/peers/{id}/reverse", peer_routes.set_reverse, _FULL, "write",
          peers.PeerReverseRequest, peers.PeerReverseResponse, owner=True),
    Route("POST", "/nodes/peers/{id}/remove", peer_routes.remove_peer, _FULL, "write",
          None, peers.DoneResponse, owner=True),
    Route("GET", "/nodes/peers/{id}/files/{file}", transfer.proxy_file, _FULL, "read", media=_FILE, owner=True),
    Route("POST", "/nodes/peer-offer", peer_routes.peer_offer, _AGENT, "write",
          peers.PeerOffer, peers.OfferResponse, owner=True),
    Route("POST", "/nodes/peer-invoke", granting.peer_invoke, _AGENT, "execute",
          peers.PeerInvokeRequest, rest.InvokeResponse, large=True),
    Route("GET", "/nodes/peer-files/{file}", transfer.serve_file, _NONE, "read", media=_FILE),
    Route("POST", "/nodes/{node}/scope", choosing.set_scope, _FULL, "write",
          routing.ScopeRequest, routing.ScopeResponse),
    Route("POST", "/route", choosing.route, _FULL, "execute", routing.RouteRequest, routing.Decision),
    Route("GET", "/nodes/{node}", endpoints.get_node, _FULL, "read", None, rest.NodeInfo),
    Route("POST", "/chat", channel.chat, _AGENT, "execute", chat.ChatRequest, media=_EVENTS),
    Route("POST", "/chat/stop", channel.stop, _AGENT, "execute", chat.ChatStopRequest, chat.StopResponse),
    Route("POST", "/channels/suzent/inbound", channel.inbound, _AGENT, "execute",
          chat.InboundRequest, media=_EVENTS),
    Route("POST", "/channels/suzent/inbox", channel.inbox, _AGENT, "execute",
          chat.InboxRequest, chat.InboxResponse, status=202),
    Route("GET", "/channels/suzent/session", channel.session, _AGENT, "read", None, chat.SessionResponse),
    Route("POST", "/channels/suzent/stop", channel.stop, _AGENT, "execute", None, chat.StopResponse),
    Route("GET", "/channels/suzent/whoami", granting.whoami, _AGENT, "read", None, peers.WhoamiResponse),
    Route("POST", "/channels/suzent/grant-changed", peer_routes.grant_changed, _NONE, "write",
          peers.GrantChanged, peers.GrantChangedResponse),
    Route("POST", "/channels/suzent/prove", peer_routes.prove, _NONE, "write",
          peers.ProofRequest, peers.ProofResponse),
    Route("GET", "/conversations", channel.list_conversations, _FULL, "read", None, chat.ConversationListResponse),
    Route("GET", "/conversations/{id}", channel.get_conversation, _FULL, "read", None, chat.ConversationResponse),
    Route("GET", "/permissions", permissions.list_permissions, _FULL, "read",
          None, permission_bodies.PermissionListResponse),
    Route("POST", "/permissions/{id}", permissions.answer_permission, _FULL, "execute",
          permission_bodies.PermissionAnswer, permission_bodies.PermissionAnswerResponse),
    Route("GET", "/memory", memory.list_memories, _FULL, "read", None, memory_bodies.MemoryListResponse),
    Route("POST", "/memory", memory.save_memory, _FULL, "write", memory_bodies.MemorySave, memory_bodies.MemorySaved),
    Route("DELETE", "/memory", memory.forget_memories, _FULL, "write",
          memory_bodies.MemoryForget, memory_bodies.MemoryForgotten),
    Route("POST", "/artifacts", artifacts.keep_artifact, _FULL, "execute",
          None, artifact_bodies.ArtifactResponse, streamed=True),
    Route("GET", "/artifacts/{id}", artifacts.serve_artifact, _NONE, "read", media=_FILE),
    Route("GET", "/audit", endpoints.list_audit, _FULL, "read", None, rest.AuditResponse),
    Route("GET", "/openapi.json", endpoints.openapi, _FULL, "read"),
)  # fmt: skip


def mounted(
    plain: type[RequestHandler], socket: type[RequestHandler]
) -> list[tuple[str, type[RequestHandler], dict[str, Route]]]:
    """Return each path's pattern, the handler class that serves it, and its routes by method, in the table's order.

    Parameters
    ----------
    plain, socket : type
        The handler classes of the mount, for requests and for WebSockets.
    """
    table: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        table.setdefault(route.pattern, {})[route.method] = route
    return [(f"{pattern}/?", socket if "WS" in routes else plain, routes) for pattern, routes in table.items()]
