"""A WebSocket to the address that was named, and to no other; and nothing of what passes in any log."""

from __future__ import annotations

import logging

from websockets.asyncio.client import connect

# websockets logs whole frames at DEBUG, tokens and tickets among them, whatever the root logger is set to.
quiet = logging.getLogger("suzent_jupyter.node.socket")
quiet.setLevel(logging.CRITICAL)


class Direct(connect):
    """Follows no redirect: it would carry a device's token to wherever it points, also without TLS."""

    def process_redirect(self, exc: Exception) -> Exception | str:
        """Return the redirect as the failure it is."""
        return exc
