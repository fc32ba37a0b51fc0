"""Making this gateway a node of another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...protocol.text import split_list
from ..connections import Connection
from ..display import Facts, Note
from . import Context, Verb, read_arguments

if TYPE_CHECKING:
    from ..mirror import Mirror


def _connect(context: Context) -> Connection:
    arguments = read_arguments(context, "connect", ("URL",), options=("--name", "--capabilities"))
    patterns = arguments.get("--capabilities")
    return context.gateway.connect_to(
        arguments["URL"],
        name=arguments.get("--name"),
        capabilities=None if patterns is None else split_list(patterns),
    )


def _connections(context: Context) -> Any:
    read_arguments(context, "connections")
    return context.gateway.connections


def _disconnect(context: Context) -> Note:
    url = read_arguments(context, "disconnect", ("URL",))["URL"]
    return Note(context.gateway.disconnect_from(url).get("message") or f"Disconnected from {url}.")


def _host(context: Context) -> Facts:
    name = read_arguments(context, "host", options=("--name",)).get("--name")
    if name is not None:
        context.gateway.config(display_name=name)
    body = context.gateway.get("/nodes/connections", offers=1)
    facts = Facts({"name": body.get("display_name")})
    facts["offers"] = ", ".join(str(each.get("name")) for each in body.get("offers") or ()) or "nothing"
    for each in body["connections"]:
        facts[each["gateway_url"]] = each["status"] if not each["error"] else f"{each['status']}: {each['error']}"
    return facts


def _urls(mirror: Mirror, words: list[str]) -> list[str]:
    return [] if words else [str(item.get("gateway_url", "")) for item in mirror.items("connections")]


VERBS = (
    Verb(
        "connect",
        "URL [--name N] [--capabilities PATTERNS]",
        "make this gateway a node of another gateway or Suzent server",
        _connect,
        _urls,
        details=(
            "URL is the address or the pairing link of the other one, such as ws://192.168.1.10:25314.\n"
            "Its operator approves the code shown here, once. It then may use what this gateway's machine can do:\n"
            "`%suzent host` lists that, and --capabilities camera.*,system.info offers only a part of it.\n"
            "It is joined again whenever this gateway starts, until `%suzent disconnect`."
        ),
    ),
    Verb("connections", "", "the gateways this one has joined, as a frame", _connections),
    Verb(
        "disconnect",
        "URL",
        "leave a gateway that was joined",
        _disconnect,
        _urls,
        details="Joining it again needs no new approval. A second time drops it from the list.",
    ),
    Verb(
        "host",
        "[--name N]",
        "what this gateway offers to those it joins, and under which name",
        _host,
        details="--name sets the gateway's display_name, which it bears wherever no other name was given.",
    ),
)
