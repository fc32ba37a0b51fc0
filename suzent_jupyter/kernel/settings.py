"""The gateway's settings by name, as people type them."""

from __future__ import annotations

from typing import Any

from ..protocol.text import split_list
from .errors import UsageError
from .plain import one_line
from .values import typed

#: Those that can be changed while it runs.
SETTINGS = ("nodes_enabled", "node_discovery_enabled", "node_lan_bind", "display_name", "denied_commands")
_CHANGEABLE = f"Changeable are: {', '.join(SETTINGS)}."


def parse_value(key: str, text: str) -> Any:
    """Return a setting's value as its type wants it; a single pattern is a list of one.

    Raises
    ------
    UsageError
        It is none that can be changed while the gateway runs.
    """
    if key not in SETTINGS:
        raise UsageError(f"'{one_line(key, 40)}' can't be changed while the gateway runs.", hint=_CHANGEABLE)
    value = typed(text)
    if key == "display_name":
        return text
    if key == "denied_commands" and not isinstance(value, list):
        return split_list(text)
    return value


def lookup(config: dict[str, Any], key: str) -> Any:
    """Return a setting or limit by name.

    Raises
    ------
    UsageError
        There is none of that name.
    """
    for place in (config, config.get("limits") or {}):
        if key in place:
            return place[key]
    raise UsageError(f"There is no setting '{one_line(key, 40)}'.", hint=_CHANGEABLE)
