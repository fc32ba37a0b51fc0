"""What is kept for later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.memory import LEVELS
from ...protocol.text import split_list
from ..display import Note
from ..errors import UsageError
from ..plain import one_line
from ..values import split
from . import Context, Verb, find_verb
from .prose import prompt_of, read_prose

if TYPE_CHECKING:
    from ..mirror import Mirror

_OPTIONS = ("--level", "--tags", "--conversation")
_ACTIONS = ("save", "forget", "export", "query")


def _memory(context: Context) -> Any:
    usage = f"The form is `{find_verb('memory').line}`."
    action, _, rest = context.rest.partition(" ")
    if action not in _ACTIONS:
        action, rest = "query", context.rest
    if context.body is not None and action != "save":
        raise UsageError(f"memory {action} takes no cell body.", hint="`%%suzent memory save` does.")
    line = read_prose(rest, _OPTIONS, ("--all",) if action == "forget" else (), usage=usage)
    for name in line.options:
        if name == "--tags" and action != "save":
            raise UsageError(f"memory {action} has no option {name}.", hint=usage)
    level, conversation = line.options.get("--level"), line.options.get("--conversation")
    memory = context.gateway.memory
    match action:
        case "save":
            text = prompt_of(context, line.text)
            if not text.strip():
                raise UsageError("memory save needs TEXT.", hint=usage)
            tags = split_list(line.options.get("--tags", ""))
            return Note(kept(memory.save(text, level, tags, conversation)))
        case "forget":
            ids = [word.text for word in split(line.text)]
            if bool(ids) == ("--all" in line.flags):
                raise UsageError("memory forget needs ID, or --all instead.", hint=usage)
            return Note(forgotten(memory.forget(*ids, level=level, conversation=conversation, everything=not ids)))
        case "export":
            if not line.text:
                raise UsageError("memory export needs FILE.", hint=usage)
            return Note(written(memory.export(line.text, level=level, conversation=conversation), line.text))
    if line.text:
        return memory.query(line.text, level=level, conversation=conversation)
    return memory.everything(level, conversation)


def kept(entry: dict[str, Any]) -> str:
    """Say that an entry is on disk."""
    word = "Kept" if entry.get("created", True) else "Kept already"
    return f"{word} as {one_line(entry.get('memory_id'), 40)} (level {one_line(entry.get('level'), 20)})."


def forgotten(count: int) -> str:
    """Say that entries are gone."""
    return f"Forgot {count} {'entry' if count == 1 else 'entries'}."


def written(count: int, file: str) -> str:
    """Say that entries are in a file."""
    return f"{count} {'entry' if count == 1 else 'entries'} written to {one_line(file)}."


def _words(mirror: Mirror, words: list[str]) -> list[str]:
    if not words:
        return [*_ACTIONS, "--level"]
    if words[-1] == "--level":
        return list(LEVELS)
    if words[-1] == "--conversation":
        return [str(item.get("conversation_id", "")) for item in mirror.items("conversations")]
    if words[0] in _ACTIONS:
        options = [each for each in _OPTIONS if each != "--tags" or words[0] == "save"]
        return [each for each in [*options, *(["--all"] if words[0] == "forget" else [])] if each not in words]
    return [each for each in ("--level", "--conversation") if each not in words]


VERBS = (
    Verb(
        "memory",
        "[QUERY] | save TEXT | forget ID… | export FILE  [--level account|enterprise|session]",
        "what is kept for later, as a frame: all of it, or what fits QUERY",
        _memory,
        _words,
        cell=True,
        prose=True,
        details=(
            "account is yours alone, enterprise your organisation's, session that of one --conversation ID.\n"
            "save TEXT [--tags a,b]   keeps it (level account otherwise); with %%suzent TEXT is the cell's body\n"
            "forget ID… | forget --all   removes it for good, also from the file\n"
            "export FILE   writes all of it: one JSON object a line, or a table for a FILE that ends in .csv\n"
            "query QUERY   looks for words that begin like one of these\n"
            "gw.memory is the same in Python: .query .save .forget .export .frame"
        ),
    ),
)
