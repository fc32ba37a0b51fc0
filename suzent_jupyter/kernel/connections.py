"""A gateway that was joined, as ``%suzent connect`` shows it: the pairing code in large, and what to do with it."""

from __future__ import annotations

from typing import Any

from .plain import one_line
from .show import code_bundle, code_text
from .values import typed_code


class Connection(dict[str, Any]):
    """The gateway's record of one connection (see ``GET /nodes/connections``) that shows itself in words."""

    def _says(self, verb: str) -> tuple[str, str, list[str]]:
        """Return a sentence, the pairing code or ``""``, and what to do."""
        url, name = one_line(self.get("gateway_url"), 300), one_line(self.get("display_name"), 64)
        error = one_line(self.get("error"), 500)
        offered = ", ".join(one_line(each, 128) for each in self.get("capabilities") or ()) or "nothing"
        there = f"{url} as '{name}'"
        match self.get("status"):
            case "pending":
                code = one_line(self.get("pairing_code"), 64)
                typed = typed_code(code)
                return (
                    f"Joining {there}: its operator must approve this code.",
                    code,
                    [
                        f"Approve it there:  %suzent approve {typed}  or  jupyter suzent node approve {typed}",
                        f"It will offer: {offered}.",
                        f"{verb} connections shows when it is connected.",
                    ],
                )
            case "connected":
                waiting = ", ".join(one_line(each, 128) for each in self.get("pending_approval") or ())
                more = [f"Waiting for approval there: {waiting}."] if waiting else []
                return f"Connected to {there}.", "", [f"It may use: {offered}.", *more]
            case "reconnecting":
                return f"Not connected to {there} at the moment: {error}.", "", ["It is tried again and again."]
            case "refused":
                return f"{url} does not take '{name}': {error}.", "", [f"{verb} connect {url} asks again."]
            case "stopped":
                return f"Not connected to {url}.", "", [f"{verb} connect {url} joins again."]
        return f"Connecting to {there}.", "", [f"{verb} connections shows what comes of it."]

    def text(self, verb: str = "%suzent") -> str:
        """Return it as lines of text; ``verb`` is what stands before a verb where they are read."""
        return code_text(*self._says(verb))

    def __repr__(self) -> str:
        return self.text()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return code_bundle(*self._says("%suzent"))
