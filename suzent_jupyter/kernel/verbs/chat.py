"""Prompts that run on a node, and the conversations they belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from . import Context, Verb, find_verb, read_arguments
from .nodes import node_names
from .prose import prompt_of, read_prose

if TYPE_CHECKING:
    from ..mirror import Mirror
    from ..turns.answer import Answer

_OPTIONS = ("--node", "--conversation", "--attach")


def _chat(context: Context) -> Answer:
    usage = f"The form is `{find_verb('chat').line}`."
    line = read_prose(context.rest, _OPTIONS, usage=usage)
    prompt = prompt_of(context, line.text)
    if context.body is None and not prompt:
        raise UsageError("chat needs PROMPT.", hint=usage)
    node, conversation = line.options.get("--node"), line.options.get("--conversation")
    files = line.every.get("--attach", [])
    return context.gateway.chat(prompt, node, conversation, show=True, attachments=files)


def _conversations(context: Context) -> Any:
    wanted = read_arguments(context, "conversations", (), ("ID",)).get("ID")
    return context.gateway.conversations if wanted is None else context.gateway.conversation(wanted)


def _chat_words(mirror: Mirror, words: list[str]) -> list[str]:
    if words and words[-1] == "--node":
        return node_names(mirror, [])
    if words and words[-1] == "--conversation":
        return ["last", *_conversation_ids(mirror, [])]
    if words and words[-1] == "--attach":
        return []
    return [option for option in _OPTIONS if option not in words or option == "--attach"]


def _conversation_ids(mirror: Mirror, words: list[str]) -> list[str]:
    return [] if words else [str(item.get("conversation_id", "")) for item in mirror.items("conversations")]


VERBS = (
    Verb(
        "chat",
        "PROMPT [--node NODE] [--conversation ID|last] [--attach FILE]",
        "have the node best suited answer a prompt; the answer streams in below",
        _chat,
        _chat_words,
        cell=True,
        prose=True,
        details=(
            "PROMPT is the line as typed, quotes or not; with %%suzent it is the cell's body. Options stand before or\n"
            "after it. The first line says which node answers and why; `%suzent route PROMPT --chat` only asks that.\n"
            "--node NODE chooses it yourself. --conversation goes on with one: its ID, or last.\n"
            "--attach FILE sends a file of this machine along; it may stand several times.\n"
            "answer = %suzent chat How are you?   gives .text .events .tools .route .conversation\n"
            "Interrupting the cell stops the run on the node. A lost connection is taken up again where it broke off."
        ),
    ),
    Verb(
        "conversations",
        "[ID]",
        "what was said to this gateway and its nodes, as a frame; or one of them",
        _conversations,
        _conversation_ids,
        details="ID may be `last`. The column `go_on` says how to go on with one.",
    ),
)
