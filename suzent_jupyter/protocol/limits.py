"""Every number of the protocol in one place, each with its unit and the reason for its value.

The gateway takes a :class:`Limits` at start; configuration traits of the same names override single
numbers, and ``GET /nodes/config`` shows the ones in force.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

KIB = 1024
MIB = 1024 * KIB


def _limit(default: Any, unit: str, why: str) -> Any:
    return field(default=default, metadata={"unit": unit, "why": why})


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The numbers in force on one gateway.

    Each field's metadata holds its ``unit`` (``s``, ``bytes``, ``count``, ``chars`` or ``share``) and ``why``.
    """

    # A call
    invoke_timeout: float = _limit(30.0, "s", "a call that names no timeout")
    invoke_timeout_max: float = _limit(600.0, "s", "no call may hold its resources for longer")
    calls_in_flight: int = _limit(64, "count", "calls one node works on at once")
    calls_waiting: int = _limit(256, "count", "calls that wait for a node; further ones get 429")
    idempotency_ttl: float = _limit(300.0, "s", "a repeated key gets the stored result this long")
    idempotency_bytes: int = _limit(64 * MIB, "bytes", "stored results kept in all")
    late_results: int = _limit(256, "count", "timed-out calls remembered per node, to know late answers")

    # Frames and bodies
    frame_bytes: int = _limit(25 * MIB, "bytes", "a frame of a connected node")
    socket_bytes: int = _limit(32 * MIB, "bytes", "above it the socket closes with 1009")
    first_frame_bytes: int = _limit(64 * KIB, "bytes", "the connect frame of an unknown device")
    capability_bytes: int = _limit(4 * KIB, "bytes", "what each declared capability may add to it")
    plain_params_bytes: int = _limit(
        1 * MIB, "bytes", "parameters for nodes without features: old clients close on more"
    )
    body_bytes: int = _limit(1 * MIB, "bytes", "an HTTP request body")
    invoke_body_bytes: int = _limit(
        28 * MIB, "bytes", "the body of an invoke: base64 of 20 MiB, which may go to its node as a reference"
    )
    stranger_body_bytes: int = _limit(
        64 * KIB, "bytes", "of a body, what is kept before its sender is known; and the most where anyone may send one"
    )
    url_bytes: int = _limit(8 * KIB, "bytes", "a URL with its query; longer ones get 414")
    header_bytes: int = _limit(32 * KIB, "bytes", "the headers of a request; larger ones get 431, twice that a hang-up")
    send_buffer_bytes: int = _limit(32 * MIB, "bytes", "unsent bytes for a node that reads slowly")
    waiting_bytes: int = _limit(64 * MIB, "bytes", "calls that wait for such a node; then 429")
    client_buffer_bytes: int = _limit(
        64 * MIB, "bytes", "unsent bytes for a kernel or panel; a slower reader is dropped"
    )

    # Handshake and pairing
    handshake_timeout: float = _limit(15.0, "s", "until the first frame")
    pairing_ttl: float = _limit(600.0, "s", "how long a device waits for approval")
    pairing_code_length: int = _limit(6, "chars", "short enough to read out loud")
    pending_total: int = _limit(50, "count", "devices waiting at once")
    pending_per_address: int = _limit(5, "count", "of them from one address")
    ticket_ttl: float = _limit(600.0, "s", "how long a pairing link is good: time to walk over with the phone")
    tickets: int = _limit(64, "count", "unused pairing links of one account; the oldest end first")
    sockets_per_address: int = _limit(32, "count", "unauthenticated sockets of one address")
    sockets_unauthenticated: int = _limit(512, "count", "unauthenticated sockets in all")
    sockets_late: int = _limit(
        64, "count", "sockets beyond those that may still show a known token; the oldest makes room"
    )
    late_timeout: float = _limit(3.0, "s", "how long these have for it")
    codes_remembered: int = _limit(512, "count", "ended codes, to say how each ended")
    replacements_per_minute: int = _limit(3, "count", "more means that two devices share a token")

    # Connections and attempts
    request_timeout: float = _limit(15.0, "s", "a request of somebody unknown, from its connection to its answer")
    body_timeout: float = _limit(120.0, "s", "a request's body; 25 MiB in it are 1.7 Mbit/s")
    idle_timeout: float = _limit(300.0, "s", "a connection between two requests; programs keep theirs for minutes")
    connections_per_address: int = _limit(64, "count", "of one address without a token; the oldest makes room")
    connections_unknown: int = _limit(256, "count", "connections without a token in all; the oldest makes room")
    bad_tokens_per_address: int = _limit(30, "count", "bad tokens of one address in a minute; further ones get 429")
    bad_token_delay: float = _limit(0.25, "s", "how long each of those 429s is kept back: a flood comes no faster")
    bad_tokens_shared: int = _limit(300, "count", "the same where many share an address: loopback and proxies")

    # Certificates and joins
    certificate_check: float = _limit(
        3600.0,
        "s",
        "how often the TLS certificate is looked at: files get renewed, laptops carried elsewhere",
    )
    join_probe: float = _limit(3.0, "s", "in which a gateway that is to be joined must answer, or it is unreachable")

    # Liveness
    ping_interval: float = _limit(25.0, "s", "under the 30 to 60 s after which proxies drop a silent socket")
    ping_timeout: float = _limit(25.0, "s", "silence after a written ping that means gone")

    # Text from devices
    capabilities: int = _limit(256, "count", "capabilities of one node")
    name_chars: int = _limit(64, "chars", "a display name")
    capability_name_chars: int = _limit(128, "chars", "a capability name")
    description_chars: int = _limit(2000, "chars", "a description")
    tags: int = _limit(32, "count", "tags of one node")

    # Peers and grants
    grant_requests: int = _limit(50, "count", "control requests that wait at once; further ones get 429")
    grant_requests_per_address: int = _limit(5, "count", "of them from one address")
    grant_request_ttl: float = _limit(600.0, "s", "how long a control request waits")
    unauthorized_rows: int = _limit(50, "count", "refused attempts to drive the agent that are remembered")
    peer_timeout: float = _limit(10.0, "s", "in which a peer must answer a question")
    peer_status_ttl: float = _limit(15.0, "s", "how long a peer's live status is taken for true")
    peer_answer_bytes: int = _limit(32 * MIB, "bytes", "an answer of a peer, such as a call's result")
    peer_line_bytes: int = _limit(1 * MIB, "bytes", "one event of a peer's stream; a longer one ends it")
    offered_peers: int = _limit(64, "count", "peers of an account, up to which others may add themselves by an offer")
    callback_timeout: float = _limit(5.0, "s", "in which an address that somebody gave must answer")

    # Nodes that prove who they are with a key
    tick_interval: float = _limit(30.0, "s", "how often both sides of /ws/gateway show that they live")
    ticks_missed: int = _limit(2, "count", "ticks missing in a row that mean gone")
    nonce_ttl: float = _limit(60.0, "s", "how long a challenge is good")
    jwt_lifetime: float = _limit(60.0, "s", "how far after the challenge a JWT may expire")
    jwt_bytes: int = _limit(4 * KIB, "bytes", "the JWT by which a node says who it is")

    # Routing
    router_timeout: float = _limit(3.0, "s", "in which the model must choose a node, or words decide")
    router_confidence: float = _limit(0.5, "share", "confidence below which the model's choice does not count")
    router_questions: int = _limit(16, "count", "choices the model is asked for at once; beyond these words decide")
    route_candidates: int = _limit(50, "count", "nodes the model is shown, and a decision names; the best ones")
    delta_throttle: float = _limit(0.15, "s", "pieces of text that come within it travel together")
    dispatch_depth: int = _limit(3, "count", "agents in a row that ask each other")
    watchers: int = _limit(64, "count", "runs one socket watches at once")

    # Permission prompts
    permission_ttl: float = _limit(300.0, "s", "no answer by then means no")
    permissions_open: int = _limit(256, "count", "prompts of one account that wait at once; further ones are refused")
    permission_history: float = _limit(
        2_592_000.0, "s", "how long it is kept what was asked, and who allowed it: 30 days"
    )
    permissions_remembered: int = _limit(
        1024, "count", "answers remembered for their conversation; the oldest go first"
    )

    # Memory
    memory_chars: int = _limit(8000, "chars", "one entry; longer texts belong into a file")
    memory_entries: int = _limit(10_000, "count", "entries of one account, organisation or conversation")
    memory_results: int = _limit(20, "count", "entries one question gets, the best ones, unless it says how many")
    memory_sessions: int = _limit(200, "count", "conversations of one account that keep entries; the oldest go first")

    # Turns
    run_ttl: float = _limit(600.0, "s", "how long a turn may take")
    run_kept: float = _limit(3600.0, "s", "how long a finished turn can be read again from any event on")
    run_bytes: int = _limit(16 * MIB, "bytes", "events of one turn; a longer answer ends it")
    runs_in_flight: int = _limit(
        256, "count", "turns at once; further ones get 429. Of several accounts one gets three quarters"
    )
    runs_per_peer: int = _limit(128, "count", "of them by one peer; all peers together get three quarters")
    streams_per_peer: int = _limit(256, "count", "answers in pieces to one grant at once: turns that are read, files")
    heartbeat: float = _limit(15.0, "s", "silence after which a stream gets a comment: proxies drop silent ones")
    prompt_chars: int = _limit(200_000, "chars", "a prompt")
    inbox_chars: int = _limit(20_000, "chars", "a message to the inbox")
    inbox_waiting: int = _limit(256, "count", "messages of one peer that wait for their turn")
    transcript_messages: int = _limit(100, "count", "of a conversation, the newest messages a peer is shown")
    history_messages: int = _limit(40, "count", "of a conversation, the newest messages an agent is given")
    agent_steps: int = _limit(25, "count", "requests a model may be asked within one turn")
    agent_tokens: int = _limit(200_000, "count", "tokens a model may use within one turn")
    agent_event_bytes: int = _limit(1 * MIB, "bytes", "one event that a notebook or device sends for a turn")
    agent_events_waiting: int = _limit(4096, "count", "of these, not yet taken on; more end the turn")
    agent_attachment_bytes: int = _limit(8 * MIB, "bytes", "of a turn's files, what is sent along to a device's agent")
    agent_file_bytes: int = _limit(256 * KIB, "bytes", "of a file, what a model may read at once")
    agent_result_bytes: int = _limit(64 * KIB, "bytes", "of a device's result, what a model is shown")
    agent_image_bytes: int = _limit(1 * MIB, "bytes", "a picture in a result, up to which a model is shown it")
    agent_upload_bytes: int = _limit(5 * MIB, "bytes", "a picture attached to a prompt, likewise")
    model_timeout: float = _limit(120.0, "s", "silence of a model's server that ends the turn")
    model_patience: float = _limit(20.0, "s", "how long a model's server that is busy is asked again, in all")

    # Files between peers
    peer_file_ttl: float = _limit(3600.0, "s", "how long a file a peer may fetch is kept")
    transfer_ttl: float = _limit(300.0, "s", "how long an attachment can be fetched")
    transfer_downloads: int = _limit(2, "count", "how often it can be")
    attachments: int = _limit(8, "count", "files of one prompt")
    attachment_bytes: int = _limit(50 * MIB, "bytes", "these files together")

    # Files that are too large for frames
    hoist_bytes: int = _limit(
        64 * KIB, "bytes", "base64 in parameters and attachments, beyond which it is kept as a file"
    )
    artifact_bytes: int = _limit(1024 * MIB, "bytes", "one such file")
    artifact_ttl: float = _limit(3600.0, "s", "how long it is kept after it was last sent, and its address is good")
    artifact_store_bytes: int = _limit(
        4096 * MIB, "bytes", "all of them together, of a colleague a quarter; further ones are refused"
    )
    transfer_shown: int = _limit(4 * MIB, "bytes", "files from which on a transfer shows how far it is")

    # Keeping
    peer_conversations: int = _limit(100, "count", "conversations of one peer that are kept; the oldest go first")
    peer_messages_bytes: int = _limit(
        64 * MIB, "bytes", "messages of one peer's conversations that are kept, about; the oldest go first"
    )
    inbox_known: int = _limit(1000, "count", "finished messages of one peer that are known when sent again")
    audit_rows: int = _limit(100_000, "count", "audit entries kept; the oldest go first")
    store_poll: float = _limit(1.0, "s", "how often changes by another process are looked for")
    request_id_bytes: int = _limit(128, "bytes", "ids and idempotency keys chosen by callers")

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e15:
                raise ValueError(f"{item.name} must be a number greater than 0, not {value!r}")

    def as_dict(self) -> dict[str, int | float]:
        """Return name → value."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def describe_limits() -> dict[str, tuple[float | int, str, str]]:
    """Return name → (default, unit, why), for configuration traits and documentation."""
    return {
        item.name: (item.default, item.metadata["unit"], item.metadata["why"])  # type: ignore[misc]
        for item in fields(Limits)
    }
