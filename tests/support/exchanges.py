"""Plays exchanges with a Suzent server that are written down in JSON: what is sent, by whom, and what must come back.

A file holds ``about``, optionally ``device`` (commands and answers of a device of ours), and ``steps``. A step either
sends a ``request`` to our gateway ``as`` somebody (``operator``, nobody, or a token that was kept), or has the played
server do something (``suzent``). ``answer`` says what comes back, ``sends`` what our gateway sent to the played server
meanwhile, ``keep`` which values later steps name as ``{name}``. A step that is ``idle`` waits until no turn runs over
there, since a turn ends a little after its last event.

In what is expected, ``<text>``, ``<number>``, ``<time>``, ``<yes or no>``, ``<anything>`` and ``<nothing>`` (null,
empty or not there) stand for values; an object may have more fields than are named, unless it has ``<exact>``.
"""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx

from .played_suzent import PlayedSuzent
from .waiting import wait_for

_MISSING = object()


class Exchange:
    """One file, played against a gateway of ours and a played Suzent server."""

    def __init__(self, path: Path, url: str, token: str, suzent: PlayedSuzent) -> None:
        self.told = json.loads(path.read_text())
        self._url, self._token, self._suzent = url, token, suzent
        self._kept: dict[str, Any] = {"ours": url, "suzent": suzent.url, "identity": suzent.identity}
        self._seen = len(suzent.requests())

    def keep(self, values: dict[str, str]) -> None:
        """Make values known to the steps."""
        self._kept |= values
        self._seen = len(self._suzent.requests())

    def play(self) -> None:
        """Take all steps."""
        for number, step in enumerate(self.told["steps"]):
            place = f"step {number}: {step.get('say') or json.dumps(step.get('request', step.get('suzent')))}"
            if step.get("idle"):
                wait_for(lambda: not self._suzent.do("look", what="running_chats"), 10, place)
            if "suzent" in step:
                got: Any = {"body": self._suzent.do(step["suzent"][0], **self._fill(dict(step["suzent"][1])))}
            else:
                got = self._send(step)
                wanted = step["answer"]["status"]
                assert got["status"] in (wanted if isinstance(wanted, list) else [wanted]), (place, got)
            for part in ("body", "events", "text", "headers"):
                if part in step.get("answer", {}):
                    found = list(differences(self._fill(step["answer"][part]), got.get(part), part))
                    assert not found, (place, found, got)
            for name, where in step.get("keep", {}).items():
                self._kept[name] = _at(got["body"], where)
            if "sends" in step:
                self._check_sent(place, self._fill(step["sends"]))
        for each in self._suzent.requests():
            assert not each["problems"], each
            assert set(each["unread"]) <= set(self.told.get("more", {}).get(each["path"], ())), each

    def _send(self, step: dict[str, Any]) -> dict[str, Any]:
        request = self._fill(step["request"])
        caller = step.get("as", "")
        token = self._token if caller == "operator" else self._kept.get(caller, caller)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        with httpx.Client(timeout=20, trust_env=False) as http:
            answer = http.request(
                request["method"], self._url + request["path"], json=request.get("body"), headers=headers
            )
        got: dict[str, Any] = {"status": answer.status_code, "headers": dict(answer.headers), "text": answer.text}
        if answer.headers.get("content-type", "").startswith("text/event-stream"):
            got["events"] = read_strictly(answer.content)
        elif "json" in answer.headers.get("content-type", ""):
            got["body"] = answer.json()
        return got

    def _check_sent(self, place: str, wanted: list[dict[str, Any]]) -> None:
        def sent() -> Any:
            fresh = self._suzent.requests()[self._seen :]
            return fresh if len(fresh) >= len(wanted) else None

        got = wait_for(sent, 10, place) if wanted else self._suzent.requests()[self._seen :]
        self._seen += len(got)
        found = list(differences(wanted, got, "sends"))
        assert not found, (place, found, got)

    def _fill(self, value: Any) -> Any:
        if isinstance(value, str):
            for name, kept in self._kept.items():
                value = value.replace("{" + name + "}", str(kept))
            return value
        if isinstance(value, list):
            return [self._fill(each) for each in value]
        if isinstance(value, dict):
            return {self._fill(name): self._fill(each) for name, each in value.items()}
        return value


def read_strictly(stream: bytes) -> list[Any]:
    """Return the events of a stream that must be framed as Suzent frames it: ``data: {…}`` and a blank line after.

    Comments and ids may stand between; a reader that splits at any line end of Unicode gets the same.
    """
    text = stream.decode("ascii")
    assert text.splitlines() == text.split("\n")[:-1], "a line end that is not \\n"
    events = []
    for block in text.split("\n\n")[:-1]:
        lines = [line for line in block.split("\n") if not line.startswith((":", "id: "))]
        assert len(lines) <= 1, block
        for line in lines:
            assert line.startswith("data: "), line
            if line != "data: [DONE]":
                events.append(json.loads(line[6:]))
    assert text.endswith("\n\n")
    return events


def differences(wanted: Any, got: Any, where: str) -> Any:
    """Give what is not as it was written down."""
    if isinstance(wanted, str) and wanted.startswith("<") and wanted.endswith(">"):
        if not _fits(wanted, got):
            yield f"{where}: {got!r} is no {wanted}"
    elif isinstance(wanted, dict):
        if not isinstance(got, dict):
            yield f"{where}: {got!r} is no object"
            return
        names = {name for name in wanted if name != "<exact>"}
        if wanted.get("<exact>") and set(got) - names:
            yield f"{where}: has also {sorted(set(got) - names)}"
        for name in names:
            yield from differences(wanted[name], got.get(name, _MISSING), f"{where}.{name}")
    elif isinstance(wanted, list):
        if not isinstance(got, list) or len(got) != len(wanted):
            yield f"{where}: {got!r} is no list of {len(wanted)}"
            return
        for index, each in enumerate(wanted):
            yield from differences(each, got[index], f"{where}[{index}]")
    elif got != wanted or isinstance(got, bool) != isinstance(wanted, bool):
        yield f"{where}: {got!r} is not {wanted!r}"


def _fits(wanted: str, got: Any) -> bool:
    match wanted:
        case "<text>":
            return isinstance(got, str) and got != ""
        case "<any text>":
            return isinstance(got, str)
        case "<number>":
            return isinstance(got, (int, float)) and not isinstance(got, bool)
        case "<yes or no>":
            return isinstance(got, bool)
        case "<time>":
            return isinstance(got, str) and datetime.fromisoformat(got).tzinfo is not None
        case "<anything>":
            return got is not _MISSING
        case "<nothing>":
            return got is _MISSING or got in (None, "", [], {})
        case "<text or nothing>":
            return got is None or isinstance(got, str)
    raise AssertionError(wanted)


def _at(value: Any, where: str) -> Any:
    for part in where.split(".") if where else []:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value
