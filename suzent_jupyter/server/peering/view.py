"""A peer as people see it: both directions side by side; and which grants are a peer's."""

from __future__ import annotations

from ...gateway.devices import Device
from ...gateway.peers import KeptPeer
from ...protocol.peers import PeerInfo
from .status import Seen


def is_grant(device: Device, account: str) -> bool:
    """Tell whether a token is a control grant of an account."""
    return device.scope == "agent" and device.account == account


def is_of(device: Device, peer: KeptPeer) -> bool:
    """Tell whether a grant was given to a peer."""
    return device.device_id == peer.reverse_device_id or device.is_held_by(peer.node_identity, peer.base_url)


def is_near(device: Device, peer: KeptPeer) -> bool:
    """Tell the same more broadly, for severing: nothing may stay that could be the peer's."""
    return is_of(device, peer) or device.callback_url == peer.base_url


def inbound_info(device: Device) -> PeerInfo:
    """Return a gateway that only drives us."""
    info = PeerInfo(
        peer_id=device.device_id,
        name=device.display_name,
        base_url=device.callback_url,
        mode="off",
        node_identity=device.node_identity,
        added_at=device.approved_at,
    )
    return _with_inbound(info, device)


def _with_inbound(info: PeerInfo, device: Device) -> PeerInfo:
    info.inbound = "expired" if device.expired else "paused" if device.status == "paused" else "active"
    info.inbound_device_id = device.device_id
    info.inbound_count = device.trigger_count
    info.inbound_last = device.last_triggered_at
    info.inbound_expires_at = device.expires_at
    info.inbound_covers = device.covers
    return info


def peer_info(peer: KeptPeer, theirs: list[Device], seen: Seen | None) -> PeerInfo:
    """Return a peer with the grants it holds and what was last seen of it."""
    info = PeerInfo(
        peer_id=peer.peer_id,
        name=peer.name,
        base_url=peer.base_url,
        mode=peer.mode,
        node_identity=peer.node_identity,
        reverse_enabled=any(device.device_id == peer.reverse_device_id for device in theirs),
        added_at=peer.added_at,
    )
    if seen is not None:
        info.online = seen.status != "offline"
        info.outbound_status, info.checked_at = seen.status, seen.checked_at
    elif peer.revoked:
        info.outbound_status = "revoked"
    best = next((each for each in theirs if each.speaks), next(iter(theirs), None))
    return info if best is None else _with_inbound(info, best)
