"""The gateway itself: settings, audit trail, which one is used, help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..display import Config, Facts, Note, Page
from ..errors import UsageError
from ..plain import one_line
from ..settings import SETTINGS, lookup, parse_value
from ..values import typed
from . import Context, Verb, all_verbs, find_verb, read_arguments

if TYPE_CHECKING:
    from ..mirror import Mirror


def _config(context: Context) -> Facts:
    arguments = read_arguments(context, "config", (), ("KEY", "VALUE"))
    key, value = arguments.get("KEY"), arguments.get("VALUE")
    if key is None:
        return Config(context.gateway.config())
    if value is not None:
        changed = context.gateway.config(**{key: parse_value(key, value)})
        facts = Facts({key: changed.get(key)})
        if changed.get("restart_required"):
            facts["restart_required"] = True
        return facts
    known = context.gateway.config()
    return Facts({key: lookup(known, key)})


def _audit(context: Context) -> Any:
    text = read_arguments(context, "audit", (), ("ROWS",)).get("ROWS") or "50"
    rows = typed(text)
    if isinstance(rows, bool) or not isinstance(rows, int) or rows < 1:
        raise UsageError(f"'{one_line(text, 40)}' is not a number of rows.", hint="Such as `%suzent audit 50`.")
    return context.gateway.audit(limit=rows)


def _use(context: Context) -> Note:
    arguments = read_arguments(context, "use", (), ("URL",), options=("--token", "--pin"))
    gateway = context.use(arguments.get("URL"), arguments.get("--token"), arguments.get("--pin"))
    return Note(f"Using the gateway at {gateway.url}.")


def _help(context: Context) -> Page:
    name = read_arguments(context, "help", (), ("VERB",)).get("VERB")
    if name is not None:
        verb = find_verb(name)
        lines = [verb.line, *([f"%{verb.line} (body below)"] if verb.cell else []), f"    {verb.summary}"]
        return Page("\n".join([*lines, *(f"    {line}" for line in verb.details.splitlines())]))
    verbs = all_verbs().values()
    wide = min(max(len(verb.line) for verb in verbs), 40)
    lines = [
        f"{verb.line:{wide}}  {verb.summary}" if len(verb.line) <= wide else f"{verb.line}\n{'':{wide}}  {verb.summary}"
        for verb in verbs
    ]
    return Page("\n".join([*lines, "", "%suzent help VERB says more about one of them."]))


def _keys(mirror: Mirror, words: list[str]) -> list[str]:
    return list(SETTINGS) if not words else ["true", "false"] if len(words) == 1 and words[0].startswith("node") else []


def _verbs(mirror: Mirror, words: list[str]) -> list[str]:
    return [] if words else list(all_verbs())


VERBS = (
    Verb("audit", "[ROWS]", "who did what, newest first, as a frame", _audit),
    Verb("config", "[KEY [VALUE]]", "show the gateway's settings, or change one", _config, _keys),
    Verb("use", "[URL] [--token T] [--pin P]", "use another gateway; without URL, find one again", _use),
    Verb("help", "[VERB]", "this list, or more about one verb", _help, _verbs),
)
