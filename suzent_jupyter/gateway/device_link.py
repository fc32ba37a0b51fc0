"""One device socket of ``/ws/node``, from its first frame to its last.

What a device may be told depends on what it understands. Devices that know only Suzent's frames take every ``error``
as final, so whatever they may try again closes with 1013 and without a frame, and a connected one never gets another.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..protocol.capabilities import CapabilitySchema, read_capabilities
from ..protocol.device import FEATURES, ConnectedResponse, PingMessage
from ..protocol.errors import SuzentError
from ..protocol.permissions import FEATURE as PERMISSIONS
from ..protocol.text import clean_text
from ..protocol.wire import ResultFrame, decode_frame, encode_ascii, is_frame_id
from .clock import now_text
from .devices import Device
from .liveness import Liveness
from .node_link import NodeLink, read_platform
from .permissions.answers import Answers
from .permissions.own_tools import OwnTools
from .principals import Authority, Principal
from .session import NodeSession
from .transport import Transport

if TYPE_CHECKING:
    from .gateway import Gateway

log = logging.getLogger("suzent_jupyter")

_PING = PingMessage().encode()


class DeviceLink(NodeLink):
    """The gateway's end of one ``/ws/node`` socket."""

    def __init__(self, gateway: Gateway, transport: Transport) -> None:
        super().__init__(gateway, transport)
        self._features: frozenset[str] | None = None
        self._identity = ""
        self._answers: Answers | None = None
        self._own_tools: OwnTools | None = None

    def closed(self) -> None:
        """Take note that the socket is gone, whoever closed it."""
        super().closed()
        if self._own_tools is not None:
            self._own_tools.close()

    def _may_be_told(self, error: SuzentError) -> bool:
        return self._features is not None or (not error.retryable and self._session is None)

    # -- handshake --

    def _first_frame(self, data: str | bytes) -> None:
        frame = self._read_first_frame(data)
        if frame.get("type") != "connect":
            raise SuzentError("bad_handshake", "The first frame must have the type `connect`.")
        name = clean_text(frame.get("display_name"), int(self._limits.name_chars))
        if not name:
            raise SuzentError("bad_handshake", "`display_name` must be a name that can be read.")
        features = frame.get("features")
        if isinstance(features, list):
            self._features = frozenset(item for item in features if isinstance(item, str) and item in FEATURES)
        self._silence.cancel()
        self._when_ready(self._enter, name, frame)

    def _enter(self, name: str, frame: dict[str, Any]) -> None:
        """Connect a device that is known, and let any other wait for the operator."""
        self._check_open()
        capabilities, self._warnings = read_capabilities(frame.get("capabilities"), self._limits)
        for warning in self._warnings:
            log.warning("Device '%s' at %s: %s", name, self._transport.remote, warning)
        identity = frame.get("node_identity")
        self._identity = identity if isinstance(identity, str) and 0 < len(identity) <= 128 else ""
        token = frame.get("device_token")
        if not isinstance(token, str):
            token = ""
        device = self._gateway.devices.by_token(token)
        if device is not None and device.scope == "node":
            self._gateway.sockets.leave(self)
            self._open_session(device, name, capabilities, frame)
        elif self._transport.local and (principal := self._gateway.trusted_token(token)) is not None:
            # The notebook's own token already speaks for the operator.
            self._go_on(self._adopt(self._new_device(name, frame, capabilities, principal), frame, capabilities))
        else:
            ticket, known = frame.pop("ticket", None), device is not None
            self._check_ticket(name, ticket, known, bool(token))
            self._wait_for_approval(name, capabilities, frame)

    async def _adopt(self, device: Device, frame: dict[str, Any], capabilities: list[CapabilitySchema]) -> None:
        device, token = await self._gateway.credentials.adopt(device, wanted=lambda: not self._closed)
        self._gateway.sockets.leave(self)
        self._open_session(device, device.display_name, capabilities, frame, token)

    def _node_identity(self) -> str:
        return self._identity

    def _new_session(
        self, device: Device, name: str, capabilities: list[CapabilitySchema], frame: dict[str, Any]
    ) -> NodeSession:
        return NodeSession(
            device, self._transport, name, read_platform(frame), capabilities, self._features, self._limits
        )

    def _greet(self, session: NodeSession, minted: str) -> None:
        self._liveness = Liveness(self._transport, self._limits, self._dead, self._json_ping)
        self._send(
            ConnectedResponse(
                node_id=session.node_id,
                device_token=minted,
                limits={
                    "max_frame_bytes": int(self._limits.frame_bytes),
                    "max_params_bytes": int(self._limits.frame_bytes),
                },
                features=sorted(self._features or ()),
                approved=[capability.name for capability in session.approved()],
                pending_approval=[capability.name for capability in session.unapproved()],
                warnings=self._warnings,
            )
        )

    def _tell_approved(self, session: NodeSession) -> None:
        if self._features is not None and "update" in self._features:
            session.send_frame(self._approved_frame(session))

    # -- connected --

    def _frame(self, session: NodeSession, data: str | bytes) -> None:
        if isinstance(data, bytes):
            log.debug("Binary frame from %s ignored", session.node_id)
            return
        frame = decode_frame(data)
        if isinstance(frame, ResultFrame):
            is_ascii = data.isascii()
            size = len(data) if is_ascii else len(data.encode())
            self._gateway.dispatcher.result(session, frame, size, is_ascii=is_ascii)
        elif isinstance(frame, dict):
            self._other_frame(session, frame, len(data))
        else:
            log.debug("Frame from %s ignored: %s", session.node_id, frame)

    def _other_frame(self, session: NodeSession, frame: dict[str, Any], size: int) -> None:
        match frame.get("type"):
            case "result":
                request_id = frame.get("request_id")
                if isinstance(request_id, str):
                    self._gateway.dispatcher.bad_result(session, request_id, "a field has the wrong type.")
            case "progress":
                self._gateway.dispatcher.progress(session, frame)
            case "agent.event" if self._features is not None and "agent" in self._features:
                self._gateway.dispatcher.agent_event(session, frame, size)
            case "pong":
                session.last_seen = now_text()
            case "event":
                self._gateway.sessions.event(session, frame)
            case "update" if self._features is not None and "update" in self._features:
                capabilities, _ = read_capabilities(frame.get("capabilities"), self._limits)
                session.declare(capabilities)
                self._ask_for_new_capabilities(session)
                self._tell_approved(session)
                self._gateway.sessions.changed(session)
            case "permission.response" | "permission.request" if self._features and PERMISSIONS in self._features:
                self._permission(session, frame)
            case "ping":
                session.send_frame(b'{"type":"pong"}')

    def _permission(self, session: NodeSession, frame: dict[str, Any]) -> None:
        """Take an answer of the person before the device, or what its agent asks that person and others."""
        device = session.device
        if self._answers is None or self._own_tools is None:
            actor = f"device:{device.device_id}"
            principal = Principal(Authority.NODE, device.account, device.org, device.device_id, actor)
            self._answers = Answers(self._gateway, principal, self._tell)
            self._own_tools = OwnTools(self._gateway, session, self._tell)
        try:
            if not device.speaks:
                raise SuzentError("paused", "The gateway's operator has paused this device.")
            if frame["type"] == "permission.response":
                self._answers.receive(frame)
            else:
                self._own_tools.receive(frame)
        except SuzentError as error:
            # With this feature a device copes with errors, and this one ends nothing.
            self._tell({**error.as_frame(), **({"id": frame["id"]} if is_frame_id(frame.get("id")) else {})})

    def _tell(self, frame: dict[str, Any]) -> None:
        if self._session is not None and not self._closed:
            self._session.send_frame(encode_ascii(frame))

    def _json_ping(self) -> None:
        if self._session is not None:
            self._session.send_frame(_PING)
