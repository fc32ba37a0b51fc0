"""Lists of the gateway as frames with real types: the same columns and dtypes whether there are rows or none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..protocol.text import clean_lines
from .errors import ContentError
from .icons import ICONS, icon
from .plain import one_line
from .results import Binary

if TYPE_CHECKING:
    import pandas as pd

Record = dict[str, Any]

_TIME = "datetime64[us, UTC]"
_SPAN = "timedelta64[us]"
_LINES = "lines"  # text with its line ends and blanks
_REASONS = ["answered", "remembered", "granted", "expired", "no_interface", "disconnected", "cancelled", "restarted"]
_FIELDS: dict[str, dict[str, str | list[str]]] = {
    "nodes": {
        "node": "string",
        "node_id": "string",
        "platform": "string",
        "status": ["connected", "paused"],
        "scope": ["account", "enterprise"],
        "commands": "string",
        "waiting": "int64",
        "calls": "int64",
        "latency": _SPAN,
        "connected_at": _TIME,
        "last_seen": _TIME,
        "tags": "string",
        "description": "string",
        "remote": "string",
    },
    "capabilities": {
        "node": "string",
        "command": "string",
        "parameters": "string",
        "description": "string",
        "approved": "bool",
        "node_id": "string",
    },
    "pending": {
        "code": "string",
        "name": "string",
        "platform": "string",
        "kind": ["device", "capabilities"],
        "invited": "bool",
        "commands": "string",
        "requested_at": _TIME,
        "expires_at": _TIME,
        "remote": "string",
        "replaces": "string",
        "node_id": "string",
        "description": "string",
        "invitation": "string",
    },
    "devices": {
        "device": "string",
        "device_id": "string",
        "platform": "string",
        "scope": ["node", "agent", "full"],
        "status": ["active", "paused"],
        "connected": "bool",
        "sharing": ["account", "enterprise"],
        "commands": "string",
        "approved_at": _TIME,
        "last_seen": _TIME,
        "token_hint": "string",
        "triggers": "int64",
        "last_triggered_at": _TIME,
    },
    "connections": {
        "gateway": "string",
        "status": ["connecting", "pending", "connected", "reconnecting", "refused", "stopped"],
        "code": "string",
        "name": "string",
        "error": "string",
        "commands": "string",
        "waiting": "string",
        "since": _TIME,
        "added_at": _TIME,
        "node_id": "string",
    },
    "peers": {
        "peer": "string",
        "mode": ["trigger", "paused", "off"],
        "status": ["ready", "revoked", "offline", "none"],
        "inbound": ["active", "paused", "expired", "none"],
        "uses": "Int64",
        "last_used": _TIME,
        "expires": _TIME,
        "covers": ["both", "agent", "devices"],
        "reverse": "bool",
        "base_url": "string",
        "identity": "string",
        "added_at": _TIME,
        "checked_at": _TIME,
        "peer_id": "string",
    },
    "grants": {
        "code": "string",
        "controller": "string",
        "host": "string",
        "address": "string",
        "identity": "string",
        "requested_at": _TIME,
        "expires_at": _TIME,
        "replaces": "string",
    },
    "permissions": {
        "id": "string",
        "command": "string",
        "node": "string",
        "caller": "string",
        "params": _LINES,
        "files": "string",
        "description": "string",
        "relation": ["local", "web", "app", "cross_account", "grant"],
        "asked_at": _TIME,
        "expires_at": _TIME,
        "resolved_at": _TIME,
        "decision": ["allow", "deny"],
        "reason": _REASONS,
        "remember": ["once", "session"],
        "by": "string",
        "run_id": "string",
        "conversation_id": "string",
        "node_id": "string",
        "params_bytes": "int64",
        "sha256": "string",
    },
    "unauthorized": {
        "at": _TIME,
        "host": "string",
        "claimed_id": "string",
        "path": "string",
    },
    "candidates": {
        "node": "string",
        "chosen": "bool",
        "score": "Float64",
        "matched": "string",
        "confidence": "Float64",
        "reason": "string",
        "executes": "bool",
        "scope": ["account", "enterprise"],
        "platform": "string",
        "connected_at": _TIME,
        "node_id": "string",
    },
    "conversations": {
        "conversation": "string",
        "icon": "string",
        "kind": list(ICONS),
        "title": "string",
        "node": "string",
        "messages": "int64",
        "updated_at": _TIME,
        "status": ["active", "idle"],
        "go_on": "string",
        "folder": "string",
        "created_at": _TIME,
        "target_node_id": "string",
    },
    "messages": {
        "n": "int64",
        "at": _TIME,
        "role": ["user", "assistant"],
        "text": _LINES,
        "outcome": "string",
        "chosen": "string",
        "tier": ["llm", "bm25", "recent", "manual"],
        "reason": "string",
        "run_id": "string",
    },
    "memories": {
        "memory": "string",
        "text": _LINES,
        "level": ["account", "enterprise", "session"],
        "score": "Float64",
        "tags": "string",
        "created_at": _TIME,
        "by": "string",
        "conversation": "string",
    },
    "events": {
        "seq": "int64",
        "at": _TIME,
        "type": "string",
        "message_id": "string",
        "delta": _LINES,
        "tool": "string",
        "tool_call_id": "string",
        "content": _LINES,
        "code": "string",
        "error": "string",
    },
    "audit": {
        "at": _TIME,
        "id": "int64",
        "actor": "string",
        "action": "string",
        "node": "string",
        "command": "string",
        "outcome": "string",
        "duration": _SPAN,
        "node_id": "string",
        "notebook": "string",
        "cell": "Int64",
        "detail": "string",
    },
    "discovered": {
        "name": "string",
        "source": ["lan", "tailscale"],
        "gateway_url": "string",
        "reachable": "bool",
        "auth_mode": "string",
        "host": "string",
        "port": "int64",
        "tls_port": "Int64",
        "tailscale_ip": "string",
        "dns_name": "string",
    },
}
_INDEX = {
    "nodes": ["node"],
    "capabilities": ["node", "command"],
    "pending": ["code"],
    "devices": ["device"],
    "connections": ["gateway"],
    "peers": ["peer"],
    "grants": ["code"],
    "permissions": ["id"],
    "unauthorized": ["at"],
    "candidates": ["node"],
    "conversations": ["conversation"],
    "messages": ["n"],
    "memories": ["memory"],
    "events": ["seq"],
    "audit": ["at"],
    "discovered": ["name"],
}


def build(kind: str, records: Iterable[Record]) -> pd.DataFrame:
    """Return one of the frames of this module from rows of its fields."""
    import pandas as pd

    rows = list(records)
    columns: dict[str, Any] = {}
    for name, dtype in _FIELDS[kind].items():
        values = [row.get(name) for row in rows]
        if isinstance(dtype, list):
            known = [value if value in dtype else None for value in values]
            columns[name] = pd.Categorical(known, categories=dtype)
        elif dtype == _TIME:
            columns[name] = _times(values)
        elif dtype == _SPAN:
            columns[name] = pd.to_timedelta(pd.Series(values, dtype="float64"), unit="ms").astype("timedelta64[us]")
        elif dtype == _LINES:
            columns[name] = pd.array(
                [clean_lines(value) if isinstance(value, str) else pd.NA for value in values], dtype="string"
            )
        elif dtype == "string":
            columns[name] = pd.array([one_line(value, 2000) for value in values], dtype="string")
        elif dtype == "Int64":
            columns[name] = pd.array([value if isinstance(value, int) else None for value in values], dtype="Int64")
        elif dtype == "Float64":
            columns[name] = pd.array(
                [
                    float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
                    for value in values
                ],
                dtype="Float64",
            )
        else:
            columns[name] = pd.Series([value or 0 for value in values], dtype=dtype)
    frame = pd.DataFrame(columns)
    return frame.set_index(_INDEX[kind])


def _times(values: list[Any]) -> pd.Series[Any]:
    import pandas as pd

    texts = pd.Series([value if isinstance(value, str) and value else None for value in values], dtype="object")
    return pd.to_datetime(texts, utc=True, format="ISO8601", errors="coerce").astype("datetime64[us, UTC]")


def nodes(items: list[Record]) -> pd.DataFrame:
    """Connected nodes, indexed by display name.

    Columns: ``node_id``, ``platform``, ``status`` and ``scope`` (categories), ``commands``, ``waiting`` (commands that
    wait for approval), ``calls`` (under way), ``latency`` (Timedelta; NaT until measured), ``connected_at`` and
    ``last_seen`` (UTC), ``tags``, ``description``, ``remote``.
    """
    return build(
        "nodes",
        (
            {
                **item,
                "node": item.get("display_name"),
                "commands": _names(item.get("capabilities")),
                "waiting": len(item.get("pending_capabilities") or ()),
                "latency": item.get("latency_ms"),
                "tags": ", ".join(item.get("tags") or ()),
            }
            for item in items
        ),
    )


def capabilities(items: list[Record]) -> pd.DataFrame:
    """Every command of every connected node, by node and command; ``approved``: whether it may be called."""
    return build(
        "capabilities",
        (
            {
                "node": item.get("display_name"),
                "node_id": item.get("node_id"),
                "command": capability.get("name"),
                "parameters": parameters(capability),
                "description": capability.get("description"),
                "approved": approved,
            }
            for item in items
            for approved, field in ((True, "capabilities"), (False, "pending_capabilities"))
            for capability in item.get(field) or ()
        ),
    )


def pending(items: list[Record]) -> pd.DataFrame:
    """What waits for approval, indexed by pairing code.

    ``kind`` is ``device`` or ``capabilities`` (new commands); ``invited`` devices came by a pairing link, and
    ``invitation`` is the name it was given.
    """
    return build(
        "pending",
        (
            {
                **item,
                "code": item.get("pairing_code"),
                "name": item.get("display_name"),
                "commands": _names(item.get("capabilities")),
            }
            for item in items
        ),
    )


def devices(items: list[Record]) -> pd.DataFrame:
    """Every token the gateway issued, indexed by name; ``scope`` is its authority, ``sharing`` who may see the node."""
    return build(
        "devices",
        (
            {
                **item,
                "device": item.get("display_name"),
                "commands": ", ".join(map(str, item.get("capabilities") or ())),
                "triggers": item.get("trigger_count"),
            }
            for item in items
        ),
    )


def connections(items: list[Record]) -> pd.DataFrame:
    """Gateways this one has joined, indexed by URL; ``code`` is for their operators, ``name`` is ours there."""
    return build(
        "connections",
        (
            {
                **item,
                "gateway": item.get("gateway_url"),
                "name": item.get("display_name"),
                "code": item.get("pairing_code"),
                "commands": ", ".join(map(str, item.get("capabilities") or ())),
                "waiting": ", ".join(map(str, item.get("pending_approval") or ())),
            }
            for item in items
        ),
    )


def peers(items: list[Record]) -> pd.DataFrame:
    """Gateways this one controls or is controlled by, indexed by name; both directions side by side.

    We drive it: ``mode`` (``trigger``, ``paused`` or ``off``) and its live ``status``. It drives us:
    ``inbound`` (``active``, ``paused``, ``expired`` or ``none``), ``uses`` (missing where it may not), ``last_used``
    and ``expires`` (UTC), what that ``covers``; ``reverse``: whether we gave it that control in return. ``base_url``
    is where it is reached, ``identity`` the first part of its own lasting id.
    """
    return build(
        "peers",
        (
            {
                **item,
                "peer": item.get("name"),
                "status": item.get("outbound_status"),
                "uses": item.get("inbound_count") if item.get("inbound") not in (None, "", "none") else None,
                "last_used": item.get("inbound_last"),
                "expires": item.get("inbound_expires_at"),
                "covers": item.get("inbound_covers"),
                "reverse": item.get("reverse_enabled") is True,
                "identity": one_line(item.get("node_identity"))[:12],
            }
            for item in items
        ),
    )


def grants(items: list[Record]) -> pd.DataFrame:
    """Requests for control of this gateway that wait, indexed by code (on Suzent's own servers by their id).

    ``controller`` and ``address`` are what the other side says of itself, ``host`` is where it asked from, ``replaces``
    the grant that approving it takes the place of.
    """
    return build(
        "grants",
        (
            {
                **item,
                "code": item.get("code") or item.get("request_id"),
                "controller": item.get("controller_name"),
                "host": item.get("controller_host"),
                "address": item.get("controller_addr"),
                "identity": item.get("controller_identity"),
            }
            for item in items
        ),
    )


def unauthorized(items: list[Record]) -> pd.DataFrame:
    """Refused attempts to drive the agent, indexed by time; ``claimed_id`` is what they said, and proves nothing."""
    return build("unauthorized", items)


def events(taken: list[tuple[Any, Record]]) -> pd.DataFrame:
    """Events of a turn, indexed by their number; ``at`` is when each arrived here.

    Columns: ``type``, ``message_id``, ``delta`` (a piece of text or of a tool's arguments), ``tool``,
    ``tool_call_id``, ``content`` (a tool's result), ``code`` and ``error`` (of a turn that failed).
    """
    return build(
        "events",
        (
            {
                "seq": number,
                "at": at.isoformat(),
                "type": event.get("type"),
                "message_id": event.get("messageId"),
                "delta": event.get("delta"),
                "tool": event.get("toolCallName"),
                "tool_call_id": event.get("toolCallId"),
                "content": event.get("content"),
                "code": event.get("code"),
                "error": event.get("message"),
            }
            for number, (at, event) in enumerate(taken)
        ),
    )


def candidates(decision: Record) -> pd.DataFrame:
    """Nodes that were considered for a prompt, indexed by name.

    Columns: ``chosen``, ``score`` (of tier 2; missing for all where no word was shared), ``matched`` words,
    ``confidence`` and ``reason`` (the model's, where it spoke of this one), ``executes`` (it could carry out a chat),
    ``scope``, ``platform``, ``connected_at`` (UTC) and ``node_id``.
    """
    chosen = (decision.get("choice") or {}).get("node_id")
    return build(
        "candidates",
        (
            {
                **item,
                "node": item.get("display_name"),
                "chosen": chosen is not None and item.get("node_id") == chosen,
                "score": item.get("bm25"),
                "matched": ", ".join(map(str, item.get("matched_terms") or ())),
                "confidence": item.get("llm_confidence"),
                "reason": item.get("llm_reason"),
            }
            for item in decision.get("candidates") or ()
        ),
    )


def conversations(items: Iterable[Record], names: dict[str, str] | None = None) -> pd.DataFrame:
    """What was said to this gateway and its nodes, newest first, indexed by the conversation's id.

    Columns: ``icon`` and ``kind`` (category: ``local``, ``sent-to-node``, ``received-from-node``, ``web``, ``peer`` or
    ``enterprise``), which say the same, ``title``, ``node`` (that answered last; empty for this gateway's own agent),
    ``status`` (category), ``messages`` (how many), ``updated_at`` and ``created_at`` (UTC), ``folder`` (``Social`` for
    a peer's), ``target_node_id``, and ``go_on``: what to type to go on with it.
    """
    from .conversation import go_on, node_name

    return build(
        "conversations",
        (
            {
                **item,
                "conversation": item.get("conversation_id"),
                "icon": icon(item),
                "kind": item.get("icon"),
                "node": node_name(item, names or {}),
                "messages": item.get("message_count"),
                "go_on": go_on(item),
            }
            for item in items
        ),
    )


def messages(items: Iterable[Record]) -> pd.DataFrame:
    """A conversation's messages, oldest first, numbered from 0.

    Columns: ``at`` (UTC), ``role`` (category), ``text``, ``outcome`` of an answer (``done``, ``stopped`` or an error's
    code), of a prompt the node that was ``chosen`` for it, by which ``tier`` (category) and for what ``reason``, and
    ``run_id``.
    """

    def row(number: int, item: Record) -> Record:
        routing = (item.get("detail") or {}).get("routing")
        choice = (routing.get("choice") if isinstance(routing, dict) else None) or {}
        chosen = {"chosen": choice.get("display_name"), "tier": choice.get("tier"), "reason": choice.get("reason")}
        return {**item, "n": number, "text": item.get("content"), **chosen}

    return build("messages", (row(number, item) for number, item in enumerate(items)))


def memories(items: Iterable[Record]) -> pd.DataFrame:
    """What is kept for later, indexed by the id that forgets it.

    Columns: ``text``, ``level`` (category), ``score`` (BM25, larger fits better; missing where nothing was looked for),
    ``tags``, ``created_at`` (UTC), ``by`` and, at level ``session``, the ``conversation`` it belongs to.
    """
    return build(
        "memories",
        (
            {
                **item,
                "memory": item.get("memory_id"),
                "text": item.get("content"),
                "tags": ", ".join(map(str, item.get("tags") or ())),
                "conversation": item.get("session_id"),
            }
            for item in items
        ),
    )


def audit(items: list[Record]) -> pd.DataFrame:
    """Who did what, newest first, indexed by time; ``duration`` is a Timedelta, for calls."""
    import json

    def row(item: Record) -> Record:
        origin, detail = item.get("origin") or {}, item.get("detail") or {}
        return {
            **item,
            "duration": item.get("duration_ms"),
            "notebook": origin.get("notebook"),
            "cell": origin.get("execution_count"),
            "detail": json.dumps(detail, ensure_ascii=False) if detail else "",
        }

    return build("audit", map(row, items))


def discovered(answer: Record) -> pd.DataFrame:
    """Gateways that were found, indexed by the name they give themselves; reachable ones first.

    Columns: ``source`` (category ``lan`` or ``tailscale``), ``gateway_url``, ``reachable`` (something listens there),
    ``auth_mode``, ``host``, ``port``, ``tls_port`` (missing without TLS), ``tailscale_ip``, ``dns_name``.
    """
    items = [*answer.get("lan", ()), *answer.get("tailscale", ())]
    return build("discovered", sorted(items, key=lambda item: not item.get("reachable")))


def _names(capabilities: Any) -> str:
    return ", ".join(str(capability.get("name", "")) for capability in capabilities or ())


def parameters(capability: Record) -> str:
    """Return a capability's parameters for people: ``format?: str = "png", width: int``, optional ones with a ``?``."""
    import json

    schema = capability.get("input_schema") or {}
    required = schema.get("required") or ()
    parts = []
    for name, kind in parameter_types(capability).items():
        rule = (schema.get("properties") or {}).get(name) or {}
        takes = accepted(kind, rule)
        text = f"{name}{'' if not schema or name in required else '?'}: {takes}" if takes else str(name)
        if rule.get("default") is not None:
            text += f" = {json.dumps(rule['default'], ensure_ascii=False)}"
        parts.append(one_line(text, 200))
    return ", ".join(parts)


def accepted(kind: str, rule: Record) -> str:
    """Return what a parameter takes, for people: ``"png" | "jpeg"`` where its schema lists values, else its type."""
    import json

    values = rule.get("enum") or ()
    return " | ".join(json.dumps(value, ensure_ascii=False) for value in values) if 0 < len(values) <= 12 else kind


def parameter_types(capability: Record) -> dict[str, str]:
    """Return parameter name → type for people, from the JSON Schema where there is one, else from ``params_schema``."""
    named: dict[str, Any] = capability.get("params_schema") or {}
    properties = (capability.get("input_schema") or {}).get("properties") or {}
    result = {str(name): str(kind) for name, kind in named.items()}
    for name, rule in properties.items():
        if result.get(name):
            continue
        kind = rule.get("type", "") if isinstance(rule, dict) else ""
        result[str(name)] = " or ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    return result


# -- results as tables --------------------------------------------------------------------------------------------

_TIME_NAME = re.compile(r"(^|_)(time|timestamp|date|datetime|at|t|ts|when)$", re.IGNORECASE)
_ISO = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?)?")
_SCALARS = (str, int, float, bool, type(None))


def is_table(data: Any) -> bool:
    """Whether data reads as a table: records of scalars, equal columns of scalars, or ``{"columns", "data"}``."""
    if isinstance(data, list):
        return bool(data) and all(
            isinstance(row, dict) and row and all(isinstance(value, _SCALARS) for value in row.values()) for row in data
        )
    if not isinstance(data, dict) or not data:
        return False
    if data.keys() <= {"columns", "data", "index"} and isinstance(data.get("columns"), list):
        rows = data.get("data")
        return isinstance(rows, list) and all(
            isinstance(row, list) and len(row) == len(data["columns"]) for row in rows
        )
    lengths = {len(column) if isinstance(column, list) else 0 for column in data.values()}
    return (
        len(lengths) == 1
        and min(lengths) > 0
        and all(isinstance(value, _SCALARS) for column in data.values() for value in column)
    )


def from_data(data: Any) -> pd.DataFrame:
    """Return a result's data as a frame; see :attr:`.results.Result.frame`."""
    import pandas as pd

    if isinstance(data, Binary) and data.media_type.startswith("text/csv"):
        from io import StringIO

        frame = pd.read_csv(StringIO(data.data.decode("utf-8", "replace")))
    elif isinstance(data, list) and all(isinstance(row, dict) for row in data):
        frame = pd.DataFrame.from_records(data)
    elif isinstance(data, list) and all(isinstance(row, str | int | float | bool) for row in data):
        frame = pd.DataFrame({"value": data})
    elif isinstance(data, dict) and isinstance(data.get("columns"), list) and isinstance(data.get("data"), list):
        frame = _from_split(data)
    elif isinstance(data, dict) and is_table(data):
        frame = pd.DataFrame(data)
    elif isinstance(data, dict) and (inner := [value for value in data.values() if is_table(value)]):
        return from_data(inner[0])  # a series with facts about it beside
    elif isinstance(data, dict) and data and all(isinstance(value, _SCALARS) for value in data.values()):
        frame = pd.DataFrame([data])
    else:
        raise ContentError("The result is not a table.", hint="`.data` shows what it holds.")
    return _typed(frame)


def _from_split(data: Record) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.DataFrame(data["data"], columns=[str(name) for name in data["columns"]])
    except (ValueError, TypeError) as error:
        raise ContentError(f"The result's columns and data don't fit together: {one_line(error)}.") from None


def _typed(frame: pd.DataFrame) -> pd.DataFrame:
    frame.columns = [clean_lines(str(name)) for name in frame.columns]
    if not frame.columns.is_unique:
        return frame
    for name in frame.columns:
        column = frame[name]
        texts = [value for value in column if isinstance(value, str)]
        if texts and len(texts) == column.notna().sum():
            if all(_ISO.fullmatch(value) for value in texts):
                frame[name] = _times(list(column))
            else:
                frame[name] = column.map(lambda value: clean_lines(value) if isinstance(value, str) else value)
        elif texts:
            frame[name] = column.map(lambda value: clean_lines(value) if isinstance(value, str) else value)
        elif _TIME_NAME.search(str(name)) and (times := _epoch(column)) is not None:
            frame[name] = times
    return frame


def _epoch(column: pd.Series[Any]) -> pd.Series[Any] | None:
    """Return seconds or milliseconds since 1970 as UTC times, None unless every value lies between 2001 and 2100."""
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column) or not len(column):
        return None
    known = column.dropna()
    for scale in (1, 1000):
        if len(known) and known.between(1e9 * scale, 4.1e9 * scale).all():
            spans = pd.to_timedelta(column / scale, unit="s").astype("timedelta64[us]")
            return pd.Timestamp(0, tz="UTC") + spans
    return None
