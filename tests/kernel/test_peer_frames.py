"""Peers, grants and refused attempts as frames."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from support.played_gateway import PlayedGateway

from suzent_jupyter.kernel import Gateway, frames
from suzent_jupyter.kernel.display import Status

from .conftest import Shell

EVIL = "<script>alert(1)</script>\x1b[31m\n\u202e" + "x" * 500
PEER: dict[str, Any] = {
    "peer_id": "p1",
    "name": EVIL,
    "base_url": "http://lab:25314",
    "mode": "trigger",
    "outbound_status": "ready",
    "inbound": "active",
    "inbound_count": 3,
    "inbound_last": "2026-05-01T10:00:00+00:00",
    "inbound_expires_at": "",
    "inbound_covers": "agent",
    "node_identity": "0123456789abcdef",
    "reverse_enabled": True,
    "added_at": "2026-04-01T10:00:00+00:00",
}
ROWS: dict[str, list[Any]] = {
    "peers": [PEER, {"peer_id": "p2", "name": "Attic", "mode": "odd", "inbound": "none", "inbound_count": 0}],
    "grants": [
        {
            "request_id": "secret-request",
            "code": "ABC234",
            "controller_name": EVIL,
            "controller_host": "10.0.0.2",
            "controller_addr": EVIL,
            "controller_identity": EVIL,
            "requested_at": "2026-05-01T10:00:00+00:00",
            "expires_at": "2026-05-01T10:10:00+00:00",
            "replaces": None,
        }
    ],
    "unauthorized": [{"at": "2026-05-01T10:00:00+00:00", "host": "10.0.0.2", "claimed_id": EVIL, "path": "/chat"}],
    "events": [
        (
            pd.Timestamp("2026-05-01T10:00:00Z"),
            {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": " a\n\x1b[2J"},
        ),
        (pd.Timestamp("2026-05-01T10:00:01Z"), {"type": "RUN_ERROR", "code": EVIL, "message": EVIL}),
    ],
}


@pytest.mark.parametrize("kind", ROWS)
def test_types_do_not_depend_on_rows_and_text_is_harmless(kind: str) -> None:
    make = getattr(frames, kind)
    empty, full = make([]), make(ROWS[kind])
    assert len(full) == len(ROWS[kind])
    pd.testing.assert_series_equal(empty.dtypes, full.dtypes)
    assert (empty.index.name, empty.index.dtype) == (full.index.name, full.index.dtype)
    for shown in (full.to_html(), full.to_string(), full.to_csv()):
        assert not {"\x1b", "\u202e"} & set(shown)
    assert "<script" not in full.to_html()


def test_types_are_real() -> None:
    frame = frames.peers(ROWS["peers"])
    assert frame["mode"].iloc[0] == "trigger" and pd.isna(frame["mode"].iloc[1])
    assert frame["status"].cat.categories.tolist() == ["ready", "revoked", "offline", "none"]
    assert frame["uses"].dtype == "Int64"
    assert frame["uses"].iloc[0] == 3 and pd.isna(frame["uses"].iloc[1])
    assert frame["last_used"].iloc[0] == pd.Timestamp("2026-05-01T10:00Z")
    assert pd.isna(frame["expires"].iloc[0])
    assert frame["reverse"].dtype == bool and frame["reverse"].tolist() == [True, False]
    assert frame["identity"].iloc[0] == "0123456789ab"
    events = frames.events(ROWS["events"])
    assert events["delta"].iloc[0] == " a\n" and pd.isna(events["delta"].iloc[1])
    grants = frames.grants(ROWS["grants"])
    assert grants.index.tolist() == ["ABC234"]
    assert "secret-request" not in grants.to_csv()  # whoever has it fetches the token


def test_verbs(played_shell: Shell, played: PlayedGateway, capsys: pytest.CaptureFixture[str]) -> None:
    shell = played_shell
    assert shell.run("%suzent peers").empty and shell.run("%suzent grants").empty
    assert shell.run("%suzent unauthorized").empty
    played.add_peer("Lab", inbound="active", inbound_count=2)
    played.lists["grants"] += ROWS["grants"]
    played.lists["unauthorized"] += ROWS["unauthorized"]
    played.own_requests.append(
        {"status": "pending", "request_id": "r" * 32, "base_url": "http://attic:25314", "code": "XYZ987"}
    )
    capsys.readouterr()
    frame = shell.run("%suzent peers --refresh")
    assert frame.loc["Lab", "uses"] == 2
    assert (
        "http://attic:25314 has not approved our request for control yet under code XYZ987" in capsys.readouterr().out
    )
    assert "r" * 32 not in str(frame.attrs)
    assert shell.run("%suzent grants").index.tolist() == ["ABC234"]
    assert shell.run("%suzent unauthorized")["path"].tolist() == ["/chat"]
    said = repr(shell.run("%suzent"))
    assert "Waiting for control of this gateway" in said and "Next: %suzent approve ABC234" in said
    assert "\x1b" not in said


def test_python(played_gw: Gateway, played: PlayedGateway) -> None:
    played.add_peer("Lab")
    played.lists["grants"] += ROWS["grants"]
    assert played_gw.peers.index.tolist() == ["Lab"]
    assert played_gw.grants.index.tolist() == ["ABC234"]
    assert played_gw.unauthorized.empty
    assert played_gw.peer("lab")["base_url"] == "http://lab:25314"
    assert played_gw.peer("lab-01")["name"] == "Lab"
    assert played_gw.peer("http://lab:25314/")["name"] == "Lab"


@pytest.mark.parametrize(
    ("peer", "shown", "following"),
    [
        ({"outbound_status": "ready"}, "Lab PC", '%suzent trigger "Lab PC"'),
        ({"outbound_status": "revoked"}, "Lab PC (revoked)", '%suzent control "Lab PC"'),
        ({"outbound_status": "offline"}, "Lab PC (offline)", "jupyter suzent node host"),
        ({"outbound_status": "ready", "mode": "paused"}, "Lab PC (paused)", "jupyter suzent node host"),
        ({"outbound_status": "none", "mode": "off", "base_url": ""}, "Lab PC", "jupyter suzent node host"),
    ],
)
def test_how_things_stand_names_what_keeps_a_peer_away(peer: dict[str, str], shown: str, following: str) -> None:
    item = {"name": "Lab PC", "mode": "trigger", "base_url": "http://x:1", **peer}
    first, last = repr(Status("http://h:1", [], [], peers=[item])).splitlines()[-2:]
    assert first == f"Peers: {shown}." and last.startswith(f"Next: {following}")
