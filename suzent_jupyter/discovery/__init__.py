"""Finding other gateways, and being found: mDNS on the local network, and Tailscale.

Discovery finds; it never approves. Its failure never harms the server.
"""

from __future__ import annotations

from .addresses import LocalAddress, local_addresses
from .discover import BROWSE_SECONDS, Discovery, DiscoverySettings
from .reach import reachable_addresses

__all__ = ["BROWSE_SECONDS", "Discovery", "DiscoverySettings", "LocalAddress", "local_addresses", "reachable_addresses"]
