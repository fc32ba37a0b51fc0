"""Every address at which other machines reach this one: its own, and its names in the tailnet."""

from __future__ import annotations

import asyncio
import time

from .addresses import LocalAddress, local_addresses
from .tailscale import TailscaleStatus, find_tailscale, tailscale_status

# Settings pages ask often, and a Tailscale that hangs costs 3 s each time.
_KEPT_SECONDS, _KEPT_SECONDS_AFTER_PROBLEM = 5.0, 30.0
_kept: dict[str | None, tuple[float, TailscaleStatus]] = {}


async def reachable_addresses(*, ipv6: bool = False) -> list[LocalAddress]:
    """Return the addresses other machines can use, the best first; Tailscale's after those of the LAN.

    Parameters
    ----------
    ipv6 : bool
        Whether the listener is bound to IPv6 too. Names are always listed.

    Notes
    -----
    Takes milliseconds; at most 3 s where Tailscale hangs, and then not again for half a minute.
    """
    local, status = await asyncio.gather(local_addresses(), _status())
    own = [LocalAddress("Tailscale IPv6" if ":" in ip else "Tailscale", ip, "tailscale") for ip in status.own.ips]
    unique = {address.host: address for address in [*local, *own] if ipv6 or ":" not in address.host}
    listed = sorted(unique.values(), key=lambda address: address.kind == "tailscale")
    if status.own.dns_name and status.magic_dns:
        listed.append(LocalAddress("Tailscale (MagicDNS)", status.own.dns_name, "tailscale"))
    return listed


async def _status() -> TailscaleStatus:
    command = await asyncio.to_thread(find_tailscale)
    until, status = _kept.get(command, (0.0, None))
    if status is None or time.monotonic() > until:
        status = await tailscale_status()
        seconds = _KEPT_SECONDS_AFTER_PROBLEM if status.problem else _KEPT_SECONDS
        _kept.clear()
        _kept[command] = (time.monotonic() + seconds, status)
    return status
