"""Finding other gateways."""

from __future__ import annotations

from typing import Any

from ..display import Note
from ..errors import UsageError
from ..plain import one_line
from ..values import typed
from . import Context, Verb, read_arguments


def _discover(context: Context) -> Any:
    from IPython.display import display

    text = read_arguments(context, "discover", (), ("SECONDS",)).get("SECONDS")
    seconds = None if text is None else typed(text)
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0):
        raise UsageError(f"'{one_line(text, 40)}' is not a number of seconds.", hint="Such as `%suzent discover 5`.")
    frame = context.gateway.discover(seconds)
    for line in [*frame.attrs["problems"], next_line(frame)]:
        display(Note(line))
    return frame


def next_line(frame: Any) -> str:
    """Return what is useful to do after a search."""
    answering = frame[frame["reachable"]]
    if len(answering):
        name, url = one_line(answering.index[0], 64), answering["gateway_url"].iloc[0]
        return f"Next: %suzent connect {url}  (joins {name} as one of its devices)"
    if len(frame):
        return "None of these machines answers: is a gateway running there, and does a firewall let its port through?"
    return (
        "No other gateway was found. One is found while it listens for other devices: "
        "`%suzent config node_lan_bind true` over there, then restart it."
    )


VERBS = (Verb("discover", "[SECONDS]", "look for gateways on the local network and in the tailnet", _discover),)
