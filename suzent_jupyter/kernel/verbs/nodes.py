"""Looking at nodes and calling them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..display import Bundle, Status
from ..errors import KernelError, UsageError
from ..finding import find_node
from ..gateway import Progress
from ..node import Node, describe
from ..values import pair, read_body, read_json, typed
from . import Context, Verb, read_arguments
from .peering import peer_names

if TYPE_CHECKING:
    from ..mirror import Mirror


def _status(context: Context) -> Status:
    read_arguments(context, "status")
    gateway = context.gateway
    enabled = gateway.config().get("nodes_enabled") is not False
    try:
        grants = gateway.records("grants")
    except KernelError:  # this says how things stand also where a part of it can't be told
        grants = []
    mirror = gateway._mirror
    mirror.look()  # not asked for: to list peers the gateway may have to wait for one
    return Status(
        gateway.url,
        gateway.records("nodes"),
        gateway.records("pending"),
        enabled,
        grants,
        mirror.items("peers"),
        mirror.items("permissions"),
    )


def _list(context: Context) -> Any:
    read_arguments(context, "list")
    return context.gateway.nodes


def _describe(context: Context) -> Bundle:
    name = read_arguments(context, "describe", ("NODE",))["NODE"]
    items = context.gateway.records("nodes")
    try:
        info = find_node(items, name)
    except KeyError:
        # "describe MyPhone?" asks about MyPhone, unless a node has that very name.
        if not name.endswith("?"):
            raise
        info = find_node(items, name.rstrip("?"))
    return Bundle(describe(info), Node(context.gateway, info))


def _invoke(context: Context) -> Any:
    arguments = read_arguments(
        context, "invoke", ("NODE", "COMMAND"), options=("--params", "--timeout", "--key"), pairs=True
    )
    params = read_body(context.body) if context.body is not None else {}
    given = arguments.get("--params")
    if given is not None:
        params |= read_json(given, "--params")
    params |= dict(pair(word, context.namespace) for word in arguments.pairs)
    result = context.gateway.invoke(
        arguments["NODE"],
        arguments["COMMAND"],
        params,
        timeout=seconds(arguments.get("--timeout")),
        idempotency_key=arguments.get("--key"),
        on_progress=ProgressLine(),
    )
    return result.check()


def seconds(text: str | None) -> float | None:
    """Read a number of seconds; whether it is a possible one the gateway says."""
    if text is None:
        return None
    value = typed(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise UsageError(f"--timeout is a number of seconds, not '{text}'.", hint="Such as --timeout 60.")
    return value


class ProgressLine:
    """Shows a call's progress as one line that is written anew for each report."""

    def __init__(self) -> None:
        self._handle: Any = None

    def __call__(self, progress: Progress) -> None:
        """Show one report."""
        from IPython.display import display

        share = "" if progress.fraction is None else f"{min(max(progress.fraction, 0.0), 1.0):4.0%} "
        line = {"text/plain": f"{share}{progress.message or ''}".rstrip()}
        if self._handle is None:
            self._handle = display(line, raw=True, display_id=True)
        else:
            self._handle.update(line, raw=True)


def node_names(mirror: Mirror, words: list[str]) -> list[str]:
    """Complete a node's name."""
    return [] if words else [str(item.get("display_name", "")) for item in mirror.items("nodes")]


def _invoke_words(mirror: Mirror, words: list[str]) -> list[str]:
    if not words:
        return [*node_names(mirror, words), *peer_names(mirror, words)]
    try:
        node = find_node(mirror.items("nodes"), words[0])
    except LookupError:
        return []
    capabilities = {str(item["name"]): item for item in node.get("capabilities") or ()}
    if len(words) == 1:
        return list(capabilities)
    capability = capabilities.get(words[1])
    if capability is None:
        return []
    used = {word.partition("=")[0] for word in words[2:]}
    properties = (capability.get("input_schema") or {}).get("properties") or {}
    candidates = []
    for name in dict.fromkeys([*(capability.get("params_schema") or ()), *properties]):
        if name in used:
            continue
        rule = properties.get(name) or {}
        choices = rule.get("enum") or (["true", "false"] if rule.get("type") == "boolean" else [])
        candidates += [f"{name}=", *(f"{name}={choice}" for choice in choices if isinstance(choice, str | int))]
    return [*candidates, *(option for option in ("--params", "--timeout") if option not in words)]


VERBS = (
    Verb("status", "", "how things stand, and the next useful thing to type (also without a verb)", _status),
    Verb("list", "", "the connected nodes, as a frame", _list),
    Verb("describe", "NODE", "what a node is and what it can do", _describe, node_names),
    Verb(
        "invoke",
        "NODE COMMAND key=value … [--params JSON] [--timeout S]",
        "call a command of a node; the result shows itself",
        _invoke,
        _invoke_words,
        cell=True,
        details=(
            'Values are JSON where they parse (5, true, null, [1], {"a": 1}), else text; quote as in a shell.\n'
            "key=$name passes the Python object `name`: bytes, DataFrame, array, image, path, anything with a JSON.\n"
            "A path is one over there; sz.File(path) sends the content of a file of this machine.\n"
            "With %%suzent the cell's body is the parameters, as JSON or YAML.\n"
            "Where no node is called NODE, a peer's device is: PEER, or PEER/NODE where it has several.\n"
            "photo = %suzent invoke MyPhone camera.snap   gives .data .image .frame .text .save() .elapsed\n"
            "Interrupting the cell cancels the call on the device. --key K makes a repeated call give the same result."
        ),
    ),
)
