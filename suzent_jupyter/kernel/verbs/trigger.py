"""Giving a peer's agent a prompt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..errors import UsageError
from ..values import Word
from . import Context, Verb, find_verb
from .peering import peer_names
from .prose import prompt_of

if TYPE_CHECKING:
    from ..mirror import Mirror
    from ..turns.answer import Answer

_OPTIONS = ("--chat", "--file")


@dataclass
class _Line:
    peer: str = ""
    prompt: str = ""
    chat: str | None = None
    files: list[str] = field(default_factory=list)

    def option(self, name: str, value: str) -> None:
        if name == "--file":
            self.files.append(value)
        else:
            self.chat = value


def _trigger(context: Context) -> Answer:
    line = read_line(context.words, context.rest)
    prompt = prompt_of(context, line.prompt)
    return context.gateway.trigger(line.peer, prompt, chat=line.chat, files=line.files, show=True)


def read_line(words: list[Word], rest: str) -> _Line:
    """Read ``PEER [--chat NAME] [--file PATH]… PROMPT``: the prompt is the rest of the line, as it was typed.

    Raises
    ------
    UsageError
        The peer or an option's value is missing.
    """
    usage = f"The form is `{find_verb('trigger').line}`."
    line = _Line()
    index = _take_options(line, words, 0, usage)
    if index == len(words):
        raise UsageError("trigger needs PEER.", hint=usage)
    line.peer = words[index].text
    index = _take_options(line, words, index + 1, usage)
    if index < len(words):
        line.prompt = _prompt(line, words, index, rest)
    return line


def _take_options(line: _Line, words: list[Word], index: int, usage: str) -> int:
    while index < len(words) and not words[index].quoted:
        option, equals, value = words[index].text.partition("=")
        if option not in _OPTIONS:
            break
        if not equals:
            index += 1
            if index == len(words):
                raise UsageError(f"{option} needs a value.", hint=usage)
            value = words[index].text
        line.option(option, value)
        index += 1
    return index


def _prompt(line: _Line, words: list[Word], index: int, rest: str) -> str:
    """Return the prompt; one that is quoted as a whole loses its quotes, and options may follow it."""
    first = words[index]
    end = words[index + 1].start if index + 1 < len(words) else len(rest)
    typed = rest[first.start : end].rstrip()
    if first.closed and len(typed) > 1 and typed[0] in "'\"" and typed[-1] == typed[0] and typed[0] not in typed[1:-1]:
        after = _Line()
        try:
            is_whole = _take_options(after, words, index + 1, "") == len(words)
        except UsageError:
            is_whole = False
        if is_whole:
            line.files += after.files
            line.chat = line.chat if after.chat is None else after.chat
            return first.text
    return rest[first.start :]


def _complete(mirror: Mirror, words: list[str]) -> list[str]:
    if len(words) == 1 or (len(words) % 2 and words[-2] in _OPTIONS):
        return list(_OPTIONS)
    return peer_names(mirror, words)


VERBS = (
    Verb(
        "trigger",
        "PEER [--chat NAME] [--file PATH] PROMPT",
        "give a peer's agent a prompt; the answer streams in below",
        _trigger,
        _complete,
        cell=True,
        prose=True,
        details=(
            "PROMPT is the rest of the line as typed, quotes or not; with %%suzent it is the cell's body.\n"
            "--chat NAME continues a conversation, or begins one of that name. --file PATH sends a file of the\n"
            "gateway's machine along; it may stand several times.\n"
            "answer = %suzent trigger Lab How are you?   gives .text .events .tools .files .conversation\n"
            "Interrupting the cell stops the turn over there."
        ),
    ),
)
