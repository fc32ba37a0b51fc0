"""One ``/ws/gateway`` socket, from its challenge to its last frame.

At its other end is an app node, which has proven with a key who it is and may be called; a web client with such a key;
or a person's browser, which the server knows already and which is no node.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from ...protocol import errors, multinode
from ...protocol.capabilities import CapabilitySchema, read_capabilities, read_tags
from ...protocol.device import AGENT_COMMAND
from ...protocol.errors import SuzentError
from ...protocol.text import clean_text
from ...protocol.wire import decode, decode_node_result, encode_ascii, is_frame_id
from ..devices import Device
from ..failures import internal
from ..node_link import NodeLink, read_platform
from ..outbox import Outbox
from ..pairing import Pending
from ..principals import Authority, Principal
from ..session import NodeSession
from ..tokens import key_digest
from ..transport import Transport
from . import proof
from .challenge import Challenge, new_challenge
from .dialect import MultinodeDialect
from .news import NodeNews, node_list
from .ticks import Ticks

if TYPE_CHECKING:
    from ..answering.chats import Chats
    from ..gateway import Gateway
    from ..permissions.answers import Answers
    from ..permissions.own_tools import OwnTools
    from .invocations import Invocations
    from .remembering import Remembering

_ROLES = ("app", "web")
_CHALLENGES = 16  # of one socket: whoever does not read them would have them pile up here
_AGENT = "Answer a prompt."
_CONNECT = "Send `connect.challenge`, then `connect` with `role` and, of an app, `node`."
#: What may be as large as the socket takes: files in it are kept, and references go on.
_MAY_CARRY_FILES = frozenset(["chat.send", "node.invoke.request"])
#: What a node that is paused may not do.
_ACTS = frozenset(
    [
        "chat.send",
        "chat.watch",
        "chat.abort",
        "memory.query",
        "memory.save",
        "node.invoke.request",
        "node.list",
        "permission.request",
        "permission.response",
    ]
)


class MultinodeLink(NodeLink):
    """The gateway's end of one ``/ws/gateway`` socket.

    Parameters
    ----------
    gateway : Gateway
        Whose node this may become.
    transport : Transport
        The socket, just opened.
    principal : Principal
        Who the server says it is: a user who is logged in, the holder of a token, or nobody.
    """

    def __init__(self, gateway: Gateway, transport: Transport, principal: Principal) -> None:
        super().__init__(gateway, transport)
        self._principal = principal
        self._outbox = Outbox(transport)
        self._challenge: Challenge | None = None
        self._challenges = 0
        self._role = "app"
        self._features: frozenset[str] = frozenset()
        self._proof: proof.Proof | None = None
        self._device: Device | None = None
        #: Whom it acts as, once it is let in.
        self._acts_as: Principal | None = None
        self._ticks: Ticks | None = None
        self._news: NodeNews | None = None
        self._chats: Chats | None = None
        self._invocations: Invocations | None = None
        self._answers: Answers | None = None
        self._own_tools: OwnTools | None = None
        self._memory: Remembering | None = None

    @property
    def credential_id(self) -> str:
        """The device id of the key or token this socket was opened with, or ``""``."""
        return self._acts_as.credential_id if self._acts_as is not None else ""

    def closed(self) -> None:
        """Take note that the socket is gone, whoever closed it."""
        if self._closed:
            return
        for part in (self._ticks, self._news):
            if part is not None:
                part.stop()
        super().closed()
        for work in (self._chats, self._invocations, self._own_tools):
            if work is not None:
                work.close()
        self._gateway.permissions.surfaces.closed(self)
        if self._acts_as is not None and self._session is None:
            self._gateway.client_closed(self)

    def close(self, code: int = errors.CLOSE_GOING_AWAY, reason: str = "the gateway is stopping") -> None:
        """Close the socket."""
        self._close(code, reason)

    # -- handshake --

    def _may_be_told(self, error: SuzentError) -> bool:
        return True

    def _declared(self, frame: dict[str, Any]) -> int:
        node = frame.get("node")
        return super()._declared(node) if isinstance(node, dict) else 0

    def _first_frame(self, data: str | bytes) -> None:
        if self._acts_as is not None:
            self._take(data)
            return
        frame = self._read_first_frame(data)
        match frame.get("type"):
            case "connect.challenge":
                self._when_ready(self._give_challenge)
            case "connect":
                self._connect(frame)
            case "tick":
                pass
            case _:
                raise SuzentError("bad_handshake", "The first frame must be `connect.challenge`.", hint=_CONNECT)

    def _give_challenge(self) -> None:
        self._check_open()
        if self._gateway.store.problem:
            # It would go by a passing id, for which no device that pinned the real one may sign.
            raise SuzentError("store_failed", "The gateway can't read its database and knows no device.")
        challenge = self._challenge = new_challenge()
        if not self._challenges and self._late is None:
            self._silence.cancel()
            self._silence = self._after(self._limits.nonce_ttl + self._limits.handshake_timeout)
        self._challenges += 1
        if self._challenges > _CHALLENGES:
            raise SuzentError("bad_handshake", f"{_CHALLENGES} challenges were given already; sign one.", hint=_CONNECT)
        self._send(multinode.Challenge(nonce=challenge.nonce, ts=challenge.ts, aud=self._gateway.identity))

    def _connect(self, frame: dict[str, Any]) -> None:
        role = frame.get("role", "app")
        if role not in _ROLES:
            raise SuzentError("bad_handshake", "`role` must be `app` or `web`.", hint=_CONNECT)
        self._role = role
        features = frame.get("features")
        if isinstance(features, list):
            known = [item for item in features if isinstance(item, str) and item in multinode.FEATURES]
            self._features = frozenset(known)
        self._silence.cancel()
        if frame.get("jwt") not in (None, ""):
            self._go_on(self._prove(frame))
        elif self._principal.authority < Authority.FULL:
            raise SuzentError("jwt_required", "Nobody is known here without a JWT.")
        elif role == "app":
            raise SuzentError("jwt_required", "An app node shows a key of its own, whoever it belongs to.")
        else:
            self._when_ready(self._welcome, self._principal)

    async def _prove(self, frame: dict[str, Any]) -> None:
        await self._gateway.ready.wait()
        await proof.load()
        challenge, self._challenge = self._challenge, None
        proven = proof.verify(frame.pop("jwt"), challenge, self._gateway.identity, self._limits)
        if not self._closed:
            self._proof = proven
            self._enter(frame, proven)

    def _enter(self, frame: dict[str, Any], proven: proof.Proof) -> None:
        """Connect a key that is known, and let any other wait for the operator."""
        self._check_open()
        node = frame.get("node")
        if not isinstance(node, dict):
            node = {}
        name = clean_text(node.get("name"), int(self._limits.name_chars))
        if not name and self._role == "web":
            name = "Web client"
        if not name:
            raise SuzentError("bad_handshake", "`node.name` must be a name that can be read.", hint=_CONNECT)
        declared = node.get("capabilities") if self._role == "app" else None
        capabilities, self._warnings = read_capabilities(declared, self._limits)
        if self._role == "app":
            capabilities = with_agent(capabilities, node.get("agent") is True)
        device = self._gateway.devices.by_key(proven.public)
        if device is not None:
            if self._role == "web" and not device.may_be_a_person:
                raise SuzentError(
                    "bad_handshake",
                    f"This key was approved for the node {device.display_name}, and not for a person's page.",
                    hint="Let the page have a key of its own.",
                )
            self._gateway.sockets.leave(self)
            self._open_session(device, name, capabilities, node)
            return
        self._check_ticket(name, frame.get("ticket"), known=False, has_proof=True)
        self._wait_for_approval(name, capabilities, node)

    def _new_device(
        self, name: str, frame: dict[str, Any], capabilities: list[CapabilitySchema], principal: Principal
    ) -> Device:
        assert self._proof is not None
        device = super()._new_device(name, frame, capabilities, principal)
        device.public_key = self._proof.thumbprint
        device.digest = key_digest(self._proof.public)
        device.role = self._role
        return device

    def _complete(self, entry: Pending) -> None:
        if entry.frame.get("scope") == "enterprise":
            entry.wanted_scope = "enterprise"

    # -- let in --

    def _open_session(
        self,
        device: Device,
        name: str,
        capabilities: list[CapabilitySchema],
        frame: dict[str, Any],
        minted: str = "",
    ) -> None:
        self._device = device
        # A person's own page is no node: people of the account are asked there.
        actor = f"{'web' if self._role == 'web' else 'node'}:{device.device_id}"
        principal = Principal(Authority.FULL, device.account, device.org, device.device_id, actor)
        if self._role == "web":
            if not device.speaks:
                raise SuzentError("paused", f"{device.display_name} is paused.")
            self._welcome(principal)
            return
        self._acts_as = principal
        try:
            super()._open_session(device, name, capabilities, frame, minted)
        except BaseException:
            self._acts_as = None
            raise

    def _new_session(
        self, device: Device, name: str, capabilities: list[CapabilitySchema], frame: dict[str, Any]
    ) -> NodeSession:
        session = NodeSession(
            device,
            self._transport,
            name,
            read_platform(frame),
            capabilities,
            self._features,
            self._limits,
            MultinodeDialect(),
        )
        session.runs_chats = frame.get("agent") is True
        if frame.get("scope") == "enterprise" and device.sharing == "account":
            self._warnings.append("who may see this node is its owner's to say: %suzent scope NODE enterprise")
        return session

    def _welcome(self, principal: Principal) -> None:
        """Let in somebody who is no node."""
        self._check_open()
        self._gateway.sockets.leave(self)
        self._acts_as = principal
        self._transport.allow_bytes(int(self._limits.socket_bytes))
        self._gateway.client_opened(self)
        self._send(self._hello(principal))
        self._begin(principal)
        permissions = self._gateway.permissions
        permissions.surfaces.opened(self, principal, self._tell)
        for frame in permissions.open_frames(principal):
            self._tell(frame)

    def _greet(self, session: NodeSession, minted: str) -> None:
        assert self._acts_as is not None
        hello = self._hello(self._acts_as)
        hello.node_id = session.node_id
        hello.scope = session.device.sharing
        hello.approved = [capability.name for capability in session.approved()]
        hello.pending_approval = [capability.name for capability in session.unapproved()]
        self._send(hello)
        self._begin(self._acts_as)

    def _hello(self, principal: Principal) -> multinode.HelloOk:
        limits = self._limits
        return multinode.HelloOk(
            account=principal.account,
            org=principal.org,
            policy=multinode.Policy(
                tick_interval_ms=round(limits.tick_interval * 1000),
                max_payload=int(limits.frame_bytes),
                run_ttl_ms=round(limits.run_ttl * 1000),
                delta_throttle_ms=round(limits.delta_throttle * 1000),
            ),
            gateway=self._gateway.settings.display_name,
            warnings=self._warnings,
        )

    def _begin(self, principal: Principal) -> None:
        self._silence.cancel()
        self._ticks = Ticks(self._transport, self._limits, self._tick, self._dead)
        self._news = NodeNews(self._gateway, principal, self._write, self._speaks)

    def _tick(self) -> None:
        self._tell({"type": "tick", "ts": int(time.time() * 1000)})
        self._transport.ping(b"%.6f" % asyncio.get_running_loop().time())

    # -- frames --

    def _frame(self, session: NodeSession, data: str | bytes) -> None:
        self._take(data)

    def _take(self, data: str | bytes) -> None:
        """Take a frame of somebody who was let in; what is wrong with it is said, and ends nothing."""
        frame: Any = None
        try:
            if isinstance(data, bytes):
                raise SuzentError("bad_frame", "Frames are text, not binary.")
            size = len(data) if (is_ascii := data.isascii()) else len(data.encode())
            if self._session is not None and (result := decode_node_result(data)) is not None:
                self._gateway.dispatcher.result(self._session, result, size, is_ascii=is_ascii)
                return
            frame = decode(data)
            if not isinstance(frame, dict) or not isinstance(frame.get("type"), str):
                raise SuzentError("bad_frame", "A frame is a JSON object with a `type`.")
            if size > self._limits.frame_bytes and frame["type"] not in _MAY_CARRY_FILES:
                raise SuzentError("too_large", f"The frame takes {size:,} bytes.")
            self._act(frame["type"], frame, size)
        except SuzentError as error:
            self._tell_error(error, frame)
        except Exception as error:
            self._tell_error(internal("A frame of a node", error), frame)

    def _act(self, kind: str, frame: dict[str, Any], size: int) -> None:
        if kind in _ACTS and not self._speaks():
            raise SuzentError("paused", "The gateway's operator has paused this device.")
        session = self._session
        match kind:
            case "chat.send" | "chat.abort" | "chat.watch" | "chat.unwatch":
                self._chat().receive(frame)
            case "chat.event" if session is not None:
                run_id = frame.get("run_id")
                taker = session.executing.get(run_id) if isinstance(run_id, str) else None
                if taker is not None:
                    taker(frame, size)
            case "node.invoke.request" | "node.invoke.cancel":
                self._invoking().receive(frame, size)
            case "permission.response":
                self._answering().receive(frame)
            case "permission.request" if session is not None:
                self._asking(session).receive(frame)
            case "node.invoke.progress" if session is not None:
                self._gateway.dispatcher.progress(session, {**frame, "request_id": frame.get("id")})
            case "node.invoke.result" if session is not None:
                call_id = frame.get("id")
                if isinstance(call_id, str):
                    self._gateway.dispatcher.bad_result(session, call_id, "a field has the wrong type.")
            case "memory.query" | "memory.save" if session is not None:
                self._remembering(session).receive(frame)
            case "node.list":
                self._list(frame)
            case "node.update" if session is not None:
                self._update(session, frame)

    def _list(self, frame: dict[str, Any]) -> None:
        assert self._acts_as is not None
        answer = node_list(self._gateway, self._acts_as)
        if is_frame_id(frame.get("id")):
            answer["id"] = frame["id"]
        self._tell(answer)

    def _update(self, session: NodeSession, frame: dict[str, Any]) -> None:
        """Take what a node says of itself now. Its name is what it was when it connected."""
        node = frame.get("node")
        if not isinstance(node, dict):
            raise SuzentError("bad_frame", "`node.update` must have a `node`.")
        if "agent" in node:
            session.runs_chats = node["agent"] is True
        if "capabilities" in node or "agent" in node:
            capabilities = list(session.capabilities.values())
            if "capabilities" in node:
                capabilities, _ = read_capabilities(node["capabilities"], self._limits)
            session.declare(with_agent(capabilities, session.runs_chats))
            self._ask_for_new_capabilities(session)
        if "description" in node:
            session.description = clean_text(node["description"], int(self._limits.description_chars))
        if "tags" in node:
            session.tags = read_tags(node["tags"], self._limits)
        self._tell_approved(session)
        self._gateway.sessions.changed(session)

    def _tell_approved(self, session: NodeSession) -> None:
        self._write(self._approved_frame(session))

    def _speaks(self) -> bool:
        """Tell whether it may act: a device that is paused stays connected and only listens."""
        return self._device is None or self._device.speaks

    def _chat(self) -> Chats:
        if self._chats is None:
            from ..answering.chats import Chats

            assert self._acts_as is not None
            self._chats = Chats(self._gateway, self._acts_as, self._tell, self._write, self._outbox)
        return self._chats

    def _invoking(self) -> Invocations:
        if self._invocations is None:
            from .invocations import Invocations

            assert self._acts_as is not None
            self._invocations = Invocations(self._gateway, self._acts_as, self._tell, self._session, self._write)
        return self._invocations

    def _answering(self) -> Answers:
        if self._answers is None:
            from ..permissions.answers import Answers

            assert self._acts_as is not None
            self._answers = Answers(self._gateway, self._acts_as, self._tell)
        return self._answers

    def _asking(self, session: NodeSession) -> OwnTools:
        if self._own_tools is None:
            from ..permissions.own_tools import OwnTools

            self._own_tools = OwnTools(self._gateway, session, self._tell)
        return self._own_tools

    def _remembering(self, session: NodeSession) -> Remembering:
        if self._memory is None:
            from .remembering import Remembering

            assert self._acts_as is not None
            self._memory = Remembering(self._gateway, self._acts_as, session, self._tell)
        return self._memory

    # -- sending --

    def _tell(self, frame: dict[str, Any]) -> None:
        self._write(encode_ascii(frame))

    def _tell_error(self, error: SuzentError, frame: Any) -> None:
        body = error.as_frame()
        if isinstance(frame, dict) and is_frame_id(frame.get("id")):
            body["id"] = frame["id"]
        self._tell(body)

    def _write(self, *parts: bytes | memoryview) -> None:
        if self._closed:
            return
        if self._outbox.unsent > self._limits.client_buffer_bytes:
            self._close(errors.CLOSE_SLOW_READER, "slow reader: connect again")
            return
        self._outbox.send(*parts)


def with_agent(capabilities: list[CapabilitySchema], has_agent: bool) -> list[CapabilitySchema]:
    """Return what an app node declares with its agent as ``agent.run``, or without one.

    So an agent is approved like everything else that a node offers, and one that comes later waits for the operator.
    """
    others = [each for each in capabilities if each.name != AGENT_COMMAND]
    return [*others, CapabilitySchema(name=AGENT_COMMAND, description=_AGENT)] if has_agent else others
