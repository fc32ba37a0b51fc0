"""Error codes: what each means over HTTP, and the one exception that carries them.

A code is part of the contract: callers branch on it, so that the sentence beside it can stay a sentence.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class ErrorSpec(NamedTuple):
    """How a code looks from outside: HTTP status, whether trying again can help, and a general hint."""

    status: int
    retryable: bool
    hint: str


ERRORS: dict[str, ErrorSpec] = {
    # requests
    "bad_json": ErrorSpec(400, False, "Send one JSON object, UTF-8, without NaN or Infinity."),
    "invalid_request": ErrorSpec(422, False, "Compare the body with /openapi.json."),
    "invalid_params": ErrorSpec(422, False, "`%suzent describe NODE` shows every parameter and its type."),
    "invalid_timeout": ErrorSpec(422, False, "Give seconds as a number greater than 0."),
    "too_large": ErrorSpec(413, False, "Send less at once, or pass a file by URL."),
    "url_too_long": ErrorSpec(414, False, "Put what is long into the body."),
    "headers_too_large": ErrorSpec(431, False, "Send fewer or shorter headers and cookies."),
    "no_route": ErrorSpec(404, False, "/openapi.json lists every URL."),
    "upgrade_required": ErrorSpec(426, False, "Open this URL as a WebSocket (RFC 6455)."),
    "method_not_allowed": ErrorSpec(405, False, "/openapi.json lists the methods of every URL."),
    # authority
    "unauthorized": ErrorSpec(401, False, "Send a valid token: `Authorization: Bearer szt_…`."),
    "forbidden": ErrorSpec(403, False, "This token's scope does not reach that URL."),
    "forbidden_host": ErrorSpec(403, False, "Use this machine's address, or set `SuzentApp.allowed_hosts`."),
    "bad_host": ErrorSpec(400, False, "Send a Host header with one host name or address."),
    "too_many_attempts": ErrorSpec(429, True, "Wait, then send a token that is valid."),
    # nodes and calls
    "node_not_found": ErrorSpec(404, False, "`%suzent list` shows the connected nodes."),
    "node_ambiguous": ErrorSpec(409, False, "Use the node id, or more of its first characters."),
    "unknown_command": ErrorSpec(404, False, "`%suzent describe NODE` lists what it can do."),
    "command_denied": ErrorSpec(403, False, "The setting `denied_commands` of this gateway forbids it."),
    "pending_reapproval": ErrorSpec(409, False, "`%suzent pending` shows the new commands and their code."),
    "paused": ErrorSpec(409, False, "`%suzent resume DEVICE` lets it work again."),
    "idempotency_conflict": ErrorSpec(409, False, "Use a new key for a different call."),
    "node_busy": ErrorSpec(429, True, "Wait for calls under way to end, then try again."),
    "node_disconnected": ErrorSpec(502, True, "Wait for the node to reconnect, then try again."),
    "bad_answer": ErrorSpec(502, False, "The device's program answered with something else than a result."),
    "capability_failed": ErrorSpec(502, False, "The device's own program failed; the message is what it said."),
    "revoked": ErrorSpec(502, False, "The device was revoked; pair it again to use it."),
    "deadline": ErrorSpec(504, True, "Give the call more time with `--timeout`, up to 600 s."),
    "cancelled": ErrorSpec(499, False, "The caller cancelled the call."),
    # pairing and devices
    "code_unknown": ErrorSpec(404, False, "`%suzent pending` and `%suzent grants` show the codes that wait."),
    "code_expired": ErrorSpec(410, False, "Let the device connect again for a new code."),
    "code_denied": ErrorSpec(409, False, "It was denied; let the device connect again for a new code."),
    "code_used": ErrorSpec(409, False, "It was approved already; `%suzent devices` shows it."),
    "code_gone": ErrorSpec(410, False, "The device hung up; let it connect again for a new code."),
    "device_unknown": ErrorSpec(404, False, "`%suzent devices` lists every device and token."),
    "pairing_denied": ErrorSpec(403, False, "Ask the gateway's operator, then connect again."),
    "pairing_expired": ErrorSpec(408, True, "Connect again for a new code."),
    "ticket_required": ErrorSpec(
        403, False, "Scan the gateway's QR code or join by its pairing link: `%suzent invite` makes one."
    ),
    "too_many_pending": ErrorSpec(429, True, "Approve or deny the devices that wait, then connect again."),
    "too_many_sockets": ErrorSpec(429, True, "Close unused connections, then connect again."),
    "token_shared": ErrorSpec(409, True, "Two devices use one token: pair each of them on its own."),
    "replaced": ErrorSpec(409, False, "The same device connected again; this older connection was closed."),
    # gateways joined as a node
    "gateway_unreachable": ErrorSpec(
        502, True, "Check the address; on that machine `node_lan_bind` must be true and the server restarted."
    ),
    "not_a_gateway": ErrorSpec(502, False, "Check address and port; behind Jupyter the path ends in /suzent/ws/node."),
    "gateway_refused": ErrorSpec(502, False, "Ask that gateway's operator, then connect again."),
    "own_gateway": ErrorSpec(409, False, "Give the address of another gateway."),
    "connection_unknown": ErrorSpec(404, False, "`%suzent connections` lists the gateways that were joined."),
    # control grants
    "request_unknown": ErrorSpec(404, False, "`%suzent grants` shows the requests that wait."),
    "request_expired": ErrorSpec(410, False, "Let the other side ask again: `%suzent control ADDRESS`."),
    "request_decided": ErrorSpec(409, False, "It was approved or denied already; `%suzent devices` shows grants."),
    "too_many_requests": ErrorSpec(429, True, "Approve or deny the requests that wait, then ask again."),
    "not_granted": ErrorSpec(403, False, "Ask the other side's operator for a grant that covers it."),
    # peers
    "peer_unknown": ErrorSpec(404, False, "`%suzent peers` lists them; `%suzent control ADDRESS` asks for one."),
    "peer_off": ErrorSpec(409, False, "`%suzent mode PEER trigger` lets you drive it again."),
    "peer_revoked": ErrorSpec(502, False, "`%suzent control PEER` asks it for control again."),
    "peer_unreachable": ErrorSpec(502, True, "See that it runs and listens for other machines, then try again."),
    "peer_refused": ErrorSpec(502, False, "Ask that machine's operator."),
    "bad_peer_answer": ErrorSpec(502, False, "Check the address: what answers there is no gateway, or it is broken."),
    "address_refused": ErrorSpec(400, False, "Only the other side's own address is fetched from."),
    # turns
    "no_agent": ErrorSpec(
        503,
        True,
        "Set `SuzentApp.agent_model`, or give a notebook's function: `@sz.agent`, which lasts as long as its kernel.",
    ),
    "agent_failed": ErrorSpec(502, False, "The agent's own program failed; its log says why."),
    "agent_gone": ErrorSpec(502, True, "Start the notebook or device that runs the agent, then ask again."),
    "model_failed": ErrorSpec(502, True, "Look at the model's server and the setting `agent_model`."),
    "turn_limit": ErrorSpec(422, False, "Ask for less at once, or raise the limit named in the message."),
    "too_many_turns": ErrorSpec(429, True, "Wait for turns under way to end, then ask again."),
    "inbox_full": ErrorSpec(429, True, "Wait until messages were worked off, then send again."),
    "invalid_inbox": ErrorSpec(400, False, "Send exactly `message_id` and `content`."),
    "conversation_busy": ErrorSpec(409, True, "Wait for the turn under way, or stop it."),
    "conversation_unknown": ErrorSpec(404, False, "`%suzent conversations` lists them."),
    "foreign_conversation": ErrorSpec(403, False, "Leave out chat_id, or name a conversation of your own."),
    "nothing_running": ErrorSpec(409, False, "There is no turn to stop."),
    "run_unknown": ErrorSpec(410, False, "Its turn is over for too long; the conversation holds the answer."),
    "run_expired": ErrorSpec(504, False, "A turn may take ten minutes; ask for less at once."),
    # nodes that prove who they are with a key
    "jwt_required": ErrorSpec(401, False, "Send `connect` with a JWT that this device's own key signed."),
    "jwt_malformed": ErrorSpec(401, False, "Send a compact JWT (RFC 7519) with `jwk` and `kid` in its header."),
    "jwt_algorithm": ErrorSpec(401, False, "Sign with EdDSA and an Ed25519 key; nothing else is taken."),
    "jwt_key": ErrorSpec(
        401, False, "Put the public part of an Ed25519 key and its RFC 7638 thumbprint in the header."
    ),
    "jwt_signature": ErrorSpec(401, False, "Sign the JWT with the key whose public part its header holds."),
    "jwt_audience": ErrorSpec(401, False, "Sign for this gateway's identity, which its pairing link names."),
    "jwt_nonce": ErrorSpec(401, True, "Ask for a new challenge on this very socket and sign that."),
    "jwt_expired": ErrorSpec(401, True, "Count `exp` from the challenge's `ts`, at most 60 s after it."),
    # routing and chats
    "no_executor": ErrorSpec(
        503, True, "Start an app node that has an agent: `jupyter suzent node host --protocol multinode --agent FILE`."
    ),
    "not_executable": ErrorSpec(409, False, "Choose a node that has an agent: `%suzent route QUERY` shows which do."),
    "not_owner": ErrorSpec(403, False, "Ask its owner."),
    "no_org": ErrorSpec(409, False, "Set `SuzentApp.org` or `orgs`, so that there is somebody to share with."),
    "permission_needed": ErrorSpec(403, False, "A person at that device must allow it; nobody can be asked here."),
    "permission_denied": ErrorSpec(
        403, False, "Somebody must allow it; `%suzent permissions` shows what waits for you."
    ),
    "permission_unknown": ErrorSpec(404, False, "`%suzent permissions` shows what waits for your answer."),
    "permission_expired": ErrorSpec(410, False, "Too late to answer; let it be asked again."),
    "permission_resolved": ErrorSpec(409, False, "It was answered already; `%suzent permissions --history` says how."),
    "too_many_permissions": ErrorSpec(429, True, "Answer the prompts that wait, then try again."),
    "dispatch_too_deep": ErrorSpec(409, False, "Let this agent finish the work itself."),
    "dispatch_cycle": ErrorSpec(409, False, "That agent is waiting for this one; let another do it."),
    # files
    "file_unknown": ErrorSpec(404, False, "It never was, is over, or was downloaded already; ask for it anew."),
    "attachment_refused": ErrorSpec(400, False, "Attach files that exist on the gateway's machine."),
    "artifact_unknown": ErrorSpec(404, False, "Its address is not valid, or not any more; send the file again."),
    "artifact_store_full": ErrorSpec(507, True, "Wait until older files expire, or raise `artifact_store_bytes`."),
    "artifact_store_failed": ErrorSpec(503, True, "Look at the setting `artifact_url` and at the server's log."),
    "artifact_corrupt": ErrorSpec(502, True, "The file is not what was sent; send it again."),
    # memory
    "memory_unknown": ErrorSpec(404, False, "`%suzent memory` lists what is kept."),
    "memory_full": ErrorSpec(409, False, "Forget what is not needed any more: `%suzent memory forget ID`."),
    # frames
    "bad_frame": ErrorSpec(400, False, "Send one JSON object with a `type` as a text frame."),
    "bad_handshake": ErrorSpec(400, False, "The first frame must be `connect` with a `display_name`."),
    "handshake_timeout": ErrorSpec(408, True, "Send `connect` right after opening the socket."),
    # the gateway itself
    "nodes_disabled": ErrorSpec(503, True, "Set `nodes_enabled` to true: `%suzent config nodes_enabled true`."),
    "store_unreadable": ErrorSpec(
        503, False, "The gateway's database can't be read and is left untouched; see the server log."
    ),
    "store_failed": ErrorSpec(503, True, "The gateway could not write to its database; see the server log."),
    "stopping": ErrorSpec(503, True, "The gateway is stopping or starting; try again in a moment."),
    "internal": ErrorSpec(500, False, "A bug in the gateway; the server log has the traceback."),
}

_UNKNOWN = ErrorSpec(500, False, "")
_WITH_RETRY_AFTER = (429, 503)


class SuzentError(Exception):
    """A failure that a person or program can act on.

    Parameters
    ----------
    code : str
        One of :data:`ERRORS`.
    message : str
        One sentence: what went wrong.
    hint : str, optional
        What to do about it; the code's own hint otherwise.
    details : dict, optional
        Further JSON fields of the error body, such as ``ids`` or ``commands``.
    """

    def __init__(
        self, code: str, message: str, *, hint: str | None = None, details: dict[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        spec = ERRORS.get(code, _UNKNOWN)  # a newer gateway may know more codes
        self.code = code
        self.message = message
        self.hint = spec.hint if hint is None else hint
        self.retryable = spec.retryable
        self.status = spec.status
        self.details = details or {}

    @property
    def retry_after(self) -> int | None:
        """Seconds after which to try again, where a limit or the gateway's state refused (RFC 9110 section 10.2.3)."""
        if not self.retryable or self.status not in _WITH_RETRY_AFTER:
            return None
        return int(self.details.get("retry_after", 1))

    @property
    def sentences(self) -> str:
        """What went wrong and what to do about it; a message that others wrote may lack its full stop."""
        if not self.hint or not self.message:
            return self.message or self.hint
        stop = "" if self.message.endswith((".", "!", "?", ":", "…")) else "."
        return f"{self.message}{stop} {self.hint}"

    def as_body(self) -> dict[str, Any]:
        """Return the REST error body: ``{error, code, hint, retryable}``, ``retry_after`` and the details."""
        body: dict[str, Any] = {
            "error": self.message,
            "code": self.code,
            "hint": self.hint,
            "retryable": self.retryable,
        }
        if (after := self.retry_after) is not None:
            body["retry_after"] = after
        return {**body, **self.details}

    def as_frame(self) -> dict[str, Any]:
        """Return the same as an ``error`` frame of a WebSocket protocol."""
        return {
            "type": "error",
            "message": self.message,
            "code": self.code,
            "hint": self.hint,
            "retryable": self.retryable,
            **self.details,
        }


# WebSocket close codes (RFC 6455 section 7.4; 4000 and up are our own).
CLOSE_GOING_AWAY = 1001
CLOSE_PROTOCOL = 1002
CLOSE_REFUSED = 1008
CLOSE_TOO_LARGE = 1009
CLOSE_TRY_AGAIN = 1013
CLOSE_REPLACED = 4001
CLOSE_REVOKED = 4003
CLOSE_SLOW_READER = 4008
CLOSE_DEAD = 4009
