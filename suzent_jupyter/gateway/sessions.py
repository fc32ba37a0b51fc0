"""Nodes that connect and leave: one session for each device, its link, and who is told."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ..protocol.device import AGENT_COMMAND
from ..protocol.errors import SuzentError
from ..protocol.text import clean_text
from .audit import Row
from .clock import now_text
from .devices import Device
from .principals import Principal
from .registry import Registry
from .session import NodeSession

if TYPE_CHECKING:
    from .gateway import Gateway
    from .node_link import NodeLink

log = logging.getLogger("suzent_jupyter")

_REPLACEMENT_WINDOW = 60.0
_CALM_SECONDS = 0.2  # between two changes that a node makes: colleagues hear of them too, at megabytes each


class Sessions:
    """The links of the connected nodes.

    Parameters
    ----------
    gateway : Gateway
        Whose nodes they are; its registry knows them by id and by name.
    """

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._links: dict[NodeSession, NodeLink] = {}
        self._replacements: dict[str, deque[float]] = {}
        #: Nodes whose change was told a moment ago, and whether they have changed again since.
        self._told_lately: dict[NodeSession, bool] = {}

    def __len__(self) -> int:
        return len(self._links)

    def links(self) -> Iterator[NodeLink]:
        """Give the gateway's end of each connection."""
        return iter(list(self._links.values()))

    def opened(self, session: NodeSession, link: NodeLink) -> None:
        """Register a node that just connected; an older connection of the same device makes room.

        Raises
        ------
        SuzentError
            ``token_shared`` when that happens too often: then two devices take turns with one token.
        """
        old = self._gateway.registry.by_id(session.node_id)
        if old is not None:
            self._count_replacement(session)
            old_link = self._links.get(old)
            self._forget(old, SuzentError("node_disconnected", f"{old.display_name} connected anew."), tell=False)
            if old_link is not None:
                old_link.end(SuzentError("replaced", "This device connected again elsewhere."))
        self._gateway.registry.add(session)
        self._links[session] = link
        session.device.last_seen = session.connected_at
        self._tell("added" if old is None else "changed", session)
        self._gateway.credentials.tell("changed", session.device)
        self._note(session, "connect")
        self._gateway.agents.tell()  # its program may be one

    def closed(self, session: NodeSession) -> None:
        """Take note that a node's socket is gone. A newer session of the same device stays untouched."""
        self._forget(session, SuzentError("node_disconnected", f"{session.display_name} disconnected."), tell=True)

    def changed(self, session: NodeSession) -> None:
        """Take note that a node declares other capabilities now; of many changes in a row the last is told."""
        if session in self._told_lately:
            self._told_lately[session] = True
            self._gateway.chooser.changed(session)
            return
        self._told_lately[session] = False
        asyncio.get_running_loop().call_later(_CALM_SECONDS, self._tell_last, session)
        self._tell("changed", session)

    def _tell_last(self, session: NodeSession) -> None:
        if self._told_lately.pop(session) and session.alive:
            self.changed(session)

    def event(self, session: NodeSession, frame: dict[str, Any]) -> None:
        """Tell subscribers what a device reports."""
        item = {
            "node_id": session.node_id,
            "display_name": session.display_name,
            "event": clean_text(frame.get("event"), 128),
            "data": frame.get("data"),
            "received_at": now_text(),
        }
        if item["event"]:
            self._gateway.changes.publish(
                "events", "added", item, lambda principal: Registry.may_see(principal, session)
            )

    def end(self, device: Device, error: SuzentError) -> None:
        """End the session of a device, if it has one; its calls fail with the same error."""
        session = self._gateway.registry.by_id(device.device_id)
        if session is None:
            return
        link = self._links.get(session)
        self._gateway.dispatcher.session_ended(session, error)
        if link is not None:
            link.end(error)

    def tell_of(self, device: Device) -> None:
        """Tell subscribers that a device changed, where it is connected."""
        session = self._gateway.registry.by_id(device.device_id)
        if session is not None:
            self._tell("changed", session)

    def _count_replacement(self, session: NodeSession) -> None:
        now = time.monotonic()
        recent = self._replacements.setdefault(session.node_id, deque())
        while recent and recent[0] < now - _REPLACEMENT_WINDOW:
            recent.popleft()
        if len(recent) >= self._gateway.limits.replacements_per_minute:
            raise SuzentError(
                "token_shared", f"{session.display_name} connects over and over; is its token used twice?"
            )
        recent.append(now)

    def _forget(self, session: NodeSession, error: SuzentError, *, tell: bool) -> None:
        self._links.pop(session, None)
        self._gateway.dispatcher.session_ended(session, error)
        session.device.last_seen = now_text()
        if self._gateway.registry.remove(session) and tell:
            self._gateway.credentials.note_last_seen(session.device)
            self._tell("removed", session)
            self._gateway.credentials.tell("changed", session.device)
            self._note(session, "disconnect")

    def _tell(self, kind: str, session: NodeSession) -> None:
        self._gateway.chooser.changed(session)
        self.publish(kind, session, lambda principal: Registry.may_see(principal, session))
        if kind != "removed" and AGENT_COMMAND in session.capabilities:
            self._gateway.agents.tell()

    def publish(self, kind: str, session: NodeSession, may_see: Callable[[Principal], bool], **told: Any) -> None:
        """Tell those who may see a node, each as they see it; ``told`` are fields as they were."""

        def is_owner(principal: Principal) -> bool:
            return principal.account == session.device.account

        publish = self._gateway.changes.publish
        publish(
            "nodes", kind, lambda: session.info().model_dump() | told, lambda each: is_owner(each) and may_see(each)
        )
        publish(
            "nodes",
            kind,
            lambda: session.shown().model_dump() | told,
            lambda each: not is_owner(each) and may_see(each),
        )

    def _note(self, session: NodeSession, what: str) -> None:
        name, remote = clean_text(session.display_name, 128), clean_text(session.transport.remote, 128)
        log.info("Device '%s' (%s) at %s %sed", name, session.node_id, remote, what)
        self._gateway.audit.record(
            Row(
                session.device.account,
                f"device:{session.node_id}",
                f"node.{what}",
                node_id=session.node_id,
                node=session.display_name,
                detail={"remote": session.transport.remote},
            )
        )
