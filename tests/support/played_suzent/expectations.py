"""What Suzent takes on each route, and what is wrong with a request that it would refuse or misread."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Body:
    """Fields that must be there, those that may, and whether others are refused; ``None`` as a kind takes anything."""

    required: dict[str, type | tuple[type, ...] | None] = field(default_factory=dict)
    optional: dict[str, type | tuple[type, ...] | None] = field(default_factory=dict)
    exact: bool = False


_NUMBER = (int, float)
BODIES: dict[tuple[str, str], Body] = {
    ("POST", "/nodes/grant-request"): Body(
        {"controller_name": str}, {"controller_addr": str, "controller_identity": str}
    ),
    ("POST", "/nodes/peer-offer"): Body({"base_url": str, "token": str}, {"name": str}),
    ("POST", "/nodes/peer-invoke"): Body({"command": str}, {"params": dict, "timeout": _NUMBER}),
    ("POST", "/channels/suzent/inbound"): Body({"content": str}, {"chat_id": str, "attachments": list, "from_id": str}),
    ("POST", "/channels/suzent/inbox"): Body({"message_id": str, "content": str}, exact=True),
    ("POST", "/channels/suzent/grant-changed"): Body(),
    ("POST", "/channels/suzent/stop"): Body(),
    ("POST", "/chat/stop"): Body({"chat_id": str}, {"reason": str}),
}
_REFERENCE = {"id": str, "url": str, "token": str, "name": str, "media_type": str, "size": int}


def problems(method: str, path: str, headers: dict[str, str], body: Any) -> list[str]:
    """Return why Suzent would refuse or misread a request."""
    found = []
    if method == "POST" and body is not None and "json" not in headers.get("content-type", ""):
        found.append("content-type is not JSON")
    rule = BODIES.get((method, path))
    if rule is None:
        return found
    if body is None and not rule.required:
        return found
    if not isinstance(body, dict):
        return [*found, "the body is no object"]
    for name, kind in rule.required.items():
        if not body.get(name):
            found.append(f"{name} is missing")
        elif kind is not None and not isinstance(body[name], kind):
            found.append(f"{name} has the wrong type")
    for name, kind in rule.optional.items():
        if name in body and kind is not None and not isinstance(body[name], kind):
            found.append(f"{name} has the wrong type")
    if rule.exact and set(body) - set(rule.required):
        found.append("fields that are refused")
    for item in body.get("attachments") or [] if path.endswith("/inbound") else []:
        found += _attachment(item)
    return found


def unread(method: str, path: str, body: Any) -> list[str]:
    """Return the fields that Suzent does not look at."""
    rule = BODIES.get((method, path))
    if rule is None or not isinstance(body, dict):
        return []
    return sorted(set(body) - set(rule.required) - set(rule.optional))


def _attachment(item: Any) -> list[str]:
    if not isinstance(item, dict):
        return ["an attachment is no object"]
    found = [f"attachment {name}" for name, kind in _REFERENCE.items() if not isinstance(item.get(name), kind)]
    url = item.get("url", "")
    if not re.fullmatch(r"https?://[^/@?#]+:\d+/nodes/peer-files/" + re.escape(str(item.get("id"))), str(url)):
        found.append(f"attachment url {url}")
    return found
