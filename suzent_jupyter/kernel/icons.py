"""The sign of a conversation. A word always stands beside it and says the same."""

from __future__ import annotations

from typing import Any

#: Kind → sign.
ICONS = {
    "local": "💻",
    "sent-to-node": "📤",
    "received-from-node": "📥",
    "web": "🌐",
    "peer": "🤝",
    "enterprise": "🏢",
}


def icon(record: dict[str, Any]) -> str:
    """Return the sign of a conversation; ``""`` where the gateway is older than it."""
    return ICONS.get(str(record.get("icon")), "")
