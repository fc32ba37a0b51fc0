"""What somebody means by the name of a peer."""

from __future__ import annotations

from collections.abc import Sequence

from ...gateway.devices import Device
from ...gateway.peers import KeptPeer
from ...protocol.errors import SuzentError
from ...protocol.text import clean_text

_SHORTEST_PREFIX = 4


def find_peer(peers: Sequence[KeptPeer], reference: str) -> KeptPeer | None:
    """Return the peer of this id, name, address or beginning of an id; None if it is none.

    Raises
    ------
    SuzentError
        ``peer_unknown`` if it is several.
    """
    wanted, folded = reference.strip(), reference.strip().casefold()
    for matching in (
        [peer for peer in peers if peer.peer_id == wanted],
        [peer for peer in peers if peer.base_url == wanted.rstrip("/")],
        [peer for peer in peers if peer.name.casefold() == folded],
        [peer for peer in peers if len(wanted) >= _SHORTEST_PREFIX and peer.peer_id.startswith(wanted)],
    ):
        if len(matching) == 1:
            return matching[0]
        if matching:
            ids = [peer.peer_id for peer in matching]
            message = f"Several peers are called {shown(reference)}: {', '.join(ids)}."
            raise SuzentError("peer_unknown", message, hint="Use the id.", details={"ids": ids})
    return None


def find_grant(devices: Sequence[Device], reference: str) -> Device | None:
    """Return the one grant of this id or name."""
    wanted, folded = reference.strip(), reference.strip().casefold()
    for matching in (
        [device for device in devices if device.device_id == wanted],
        [device for device in devices if device.display_name.casefold() == folded],
    ):
        if len(matching) == 1:
            return matching[0]
    return None


def shown(reference: str) -> str:
    """Return what somebody typed, as it stands in an error."""
    return f"'{clean_text(reference, 64)}'"
