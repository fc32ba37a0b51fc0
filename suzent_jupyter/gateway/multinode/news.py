"""Which nodes come, change and go, told to one ``/ws/gateway`` socket that may see them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...protocol.wire import encode_ascii
from ..principals import Principal

if TYPE_CHECKING:
    from ..gateway import Gateway

_TYPES = {"added": "node.online", "changed": "node.update", "removed": "node.offline"}


class NodeNews:
    """Passes on changes of the topic ``nodes`` until it is stopped.

    Parameters
    ----------
    principal : Principal
        Who hears them.
    write : callable
        Sends an encoded frame.
    may_hear : callable
        Whether they may be told now. What they miss is made up for by a whole ``node.list``.
    """

    def __init__(
        self,
        gateway: Gateway,
        principal: Principal,
        write: Callable[[bytes], None],
        may_hear: Callable[[], bool],
    ) -> None:
        self._gateway = gateway
        self._principal = principal
        self._write = write
        self._may_hear = may_hear
        self._missed = False
        gateway.changes.subscribe("nodes", self._changed, principal)

    def stop(self) -> None:
        """Tell nothing any more."""
        self._gateway.changes.unsubscribe("nodes", self._changed)

    def _changed(self, kind: str, item: Any) -> None:
        if not self._may_hear():
            self._missed = True
        elif self._missed:
            self._missed = False
            self._write(encode_ascii(node_list(self._gateway, self._principal)))
        else:
            self._write(_encoded(kind, item))


def node_list(gateway: Gateway, principal: Principal) -> dict[str, Any]:
    """Return ``node.list``: every node that somebody may see."""
    return {"type": "node.list", "nodes": [node.model_dump() for node in gateway.list_nodes(principal)]}


class _Encoder:
    """Encodes a change once for all who hear it, one after the other."""

    def __init__(self) -> None:
        self._last: tuple[str, Any, bytes] = "", None, b""

    def __call__(self, kind: str, item: Any) -> bytes:
        """Return the frame of a change."""
        if self._last[0] != kind or self._last[1] is not item:
            self._last = kind, item, encode_ascii({"type": _TYPES[kind], "node": item})
        return self._last[2]


_encoded = _Encoder()
