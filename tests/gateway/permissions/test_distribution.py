"""The pure part: who is asked of whom, what is asked about, and for how long an answer is remembered."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from suzent_jupyter.gateway.permissions.distribution import Audience, Place, distribute
from suzent_jupyter.gateway.permissions.remembered import Key, Remembered
from suzent_jupyter.gateway.permissions.rule import must_ask
from suzent_jupyter.gateway.permissions.summary import clean_summary, freeze
from suzent_jupyter.gateway.principals import Authority, Grant, Principal
from suzent_jupyter.protocol.capabilities import CapabilitySchema

FULL = Authority.FULL
ACTORS = {
    "person": Principal(FULL, "ada", "team", "", "user"),
    "kernel": Principal(FULL, "ada", "team", "", "kernel"),
    "token": Principal(FULL, "ada", "team", "t1", "token:t1"),
    "page": Principal(FULL, "ada", "team", "w1", "web:w1"),
    "app": Principal(FULL, "ada", "team", "n1", "node:n1"),
    "grant": Principal(Authority.AGENT, "ada", "team", "g1", "token:g1", Grant(unattended_tools=True)),
}


@pytest.mark.parametrize("able", [set(), {"n1"}, {"n2"}, {"n1", "n2"}])
@pytest.mark.parametrize("place", [None, Place("n1", "ada"), Place("n2", "ada"), Place("n2", "bob")])
@pytest.mark.parametrize("who", ACTORS)
def test_the_table(who: str, place: Place | None, able: set[str]) -> None:
    caller = ACTORS[who]
    audience = distribute(caller, place, lambda node: node in able)
    if who == "grant":
        assert audience == Audience("grant", "ada")
    elif place is None:
        assert audience == Audience("web", "ada", web=True)
    elif place.account == "bob":
        assert audience == Audience("cross_account", "bob", nodes=tuple(able & {"n2"}))
    elif who == "app" and place.node_id == "n1":
        assert audience == Audience("local", "ada", nodes=tuple(able & {"n1"}))
    elif who == "app":
        assert (audience.relation, audience.web, set(audience.nodes)) == ("app", False, able)
    else:
        assert audience == Audience("web", "ada", web=True, nodes=tuple(able & {place.node_id}))
    # Never somebody of another account than the executor's, and never the holder of a grant.
    strangers = [
        Principal(FULL, "eve", "team", "", "user"),
        ACTORS["grant"],
        Principal(FULL, "eve", "", "n3", "node:n3"),
    ]
    assert not any(audience.may_answer(each) for each in strangers)
    if place is not None and place.account == "bob":
        assert not any(audience.may_answer(each) for each in ACTORS.values())
        assert not audience.may_answer(Principal(FULL, "bob", "team", "", "user"))


@pytest.mark.parametrize(
    ("says", "name", "unwatched", "asks"),
    [
        *((True, name, unwatched, True) for name, unwatched in itertools.product(("echo", "camera.snap"), (0, 1))),
        *((False, name, unwatched, False) for name, unwatched in itertools.product(("echo", "camera.snap"), (0, 1))),
        (None, "echo", 1, False),
        (None, "camera.snap", 0, False),
        (None, "camera.snap", 1, True),
        (None, "Shell.Run", 1, True),
    ],
)
def test_what_is_asked_about(says: bool | None, name: str, unwatched: int, asks: bool) -> None:
    capability = CapabilitySchema(name=name, requires_permission=says)
    assert must_ask(capability, unwatched=bool(unwatched)) is asks


def test_answers_are_remembered_for_exactly_what_they_were_given_for() -> None:
    kept, socket = Remembered(3), object()
    key = Key("ada", "n1", "camera.snap", conversation_id="c1")
    kept.put(key, "allow", "user")
    others = [
        Key("bob", "n1", "camera.snap", conversation_id="c1"),
        Key("ada", "n2", "camera.snap", conversation_id="c1"),
        Key("ada", "", "camera.snap", conversation_id="c1"),
        Key("ada", "n1", "camera.open", conversation_id="c1"),
        Key("ada", "n1", "camera.snap", own_tool=True, conversation_id="c1"),
        Key("ada", "n1", "camera.snap", conversation_id="c2"),
        Key("ada", "n1", "camera.snap", origin=socket),
    ]
    assert kept.get(key) == ("allow", "user")
    assert [kept.get(each) for each in [*others, None]] == [None] * 8
    kept.put(key, "deny", "node:n1")
    assert kept.get(key) == ("deny", "node:n1") and len(kept) == 1
    for each in others[:2]:
        kept.put(each, "allow", "user")
    assert kept.get(key) is not None  # used last: the other one goes
    kept.put(others[2], "allow", "user")
    assert kept.get(others[0]) is None and kept.get(key) is not None
    kept.forget(lambda each: each.conversation_id == "c1")
    assert len(kept) == 0


@pytest.mark.parametrize(
    "said", [None, [], "x", 3, {"command": 5, "files": "no", "params": None}, {"files": [1, {"size": "x"}]}]
)
def test_a_nodes_summary_can_be_anything(said: Any) -> None:
    summary = clean_summary(said, "shell")
    assert summary.command == "shell" and summary.params == ""


def test_a_nodes_summary_is_cut_and_cleaned() -> None:
    said = {"command": "sh\x1b[31mell", "description": "a\u202eb" * 1000, "params": "\u202e" + "x" * 100_000}
    said |= {"sha256": "A" * 64, "params_bytes": -1, "files": [{"name": "../a\nb", "media_type": "t", "size": 3}] * 100}
    summary = clean_summary(said, "shell")
    assert summary.command == "shell" and len(summary.description) <= 500 and len(summary.params) < 17_000
    assert summary.params.startswith("\\u202e") and summary.sha256 == "" and len(summary.files) == 64
    assert summary.files[0] == {"name": "../a b", "media_type": "t", "size": 3}
    assert clean_summary({"params": {"line": "ls"}}, "shell").params == '{"line": "ls"}'


def test_deep_and_wide_parameters_are_shown_as_far_as_they_go() -> None:
    deep: Any = {"end": "here"}
    for _ in range(200):
        deep = {"in": deep}
    frozen = freeze("run", "", json.dumps(deep).encode())
    assert json.loads(frozen.params) == deep
    assert "here" in frozen.summary.params
    wide = {f"name {n}": "x" * 3000 for n in range(100)}
    shown = freeze("run", "", json.dumps(wide).encode()).summary.params
    assert len(shown) < 17_000 and "left out" in shown
