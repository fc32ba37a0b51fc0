"""The server that plays Suzent's part, against another of its kind: both halves of the play must fit together."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from support.played_suzent import PlayedSuzent
from support.waiting import wait_for


@pytest.fixture
def driver() -> Iterator[PlayedSuzent]:
    with PlayedSuzent("driver", "--remote") as server:
        yield server


@pytest.fixture
def driven() -> Iterator[PlayedSuzent]:
    with PlayedSuzent("driven", "--remote") as server:
        yield server


def grant(driver: PlayedSuzent, driven: PlayedSuzent) -> tuple[str, str]:
    """Return the peer of the driver and the grant of the driven."""
    request = driver.do("control", base_url=driven.url)
    assert driver.do("control_status", base_url=driven.url, request_id=request) == {"status": "pending"}
    device = driven.do("approve", request_id=request)
    peer = driver.do("control_status", base_url=driven.url, request_id=request)
    assert peer["status"] == "approved"
    served_again = driver.do("control_status", base_url=driven.url, request_id=request)
    assert served_again == {"status": "approved"}, "a token is served once, and Suzent calls that approved still"
    return peer["peer_id"], device


def test_one_drives_the_other(driver: PlayedSuzent, driven: PlayedSuzent) -> None:
    peer, device = grant(driver, driven)
    driven.do("set", nodes=[{"display_name": "Lab", "answers": {"echo": {"x": 1}, "camera.snap": {"file": "PNG"}}}])
    driven.do("set", script=[{"text": "A\u2028B "}, {"prompt": True}])
    answer = driver.do("trigger", peer_id=peer, prompt="hello", files={"a.txt": "content"})
    assert answer["text"] == "hello", "Suzent's reader ends a line at U+2028 and loses the event"
    assert driven.do("look", what="attachments") == [{"name": "a.txt", "content": "content"}]
    assert driver.do("invoke", peer_id=peer, command="echo") == [
        200, {"success": True, "result": {"x": 1}, "error": None},
    ]  # fmt: skip
    assert driver.do("invoke", peer_id=peer, command="none")[0] == 404
    photo = driver.do("invoke", peer_id=peer, command="camera.snap")[1]["result"]["file"]
    assert driver.do("fetch", peer_id=peer, file_id=photo["id"])[:2] == [200, "PNG"]
    assert [each["node"] for each in driver.do("capabilities", peer_id=peer)] == ["Lab", "Lab"]
    assert driver.do("inbox", peer_id=peer, message_id="m1", content="hi")[1]["created"] is True
    assert driver.do("inbox", peer_id=peer, message_id="m1", content="hi")[1]["created"] is False
    assert driver.do("session", peer_id=peer)[1]["message_count"] == 2
    assert driver.do("reverse", peer_id=peer, enabled=True) == [200, {"success": True}]
    back = next(iter(driven.do("look", what="peers")))
    assert driven.do("trigger", peer_id=back, prompt="back")["text"].endswith("back")
    assert driver.do("peer_status", peer_id=peer) == "ready"
    assert driven.do("revoke", device_id=device) == [200, {"ok": True, "removed": 1}]
    assert driver.do("look", what="peers") == {}
    for each in driver.requests() + driven.requests():
        assert (each["problems"], each["unread"]) == ([], []), each


def test_a_turn_is_stopped(driver: PlayedSuzent, driven: PlayedSuzent) -> None:
    peer, _device = grant(driver, driven)
    driven.do("set", script=[{"text": "one"}, {"wait": "never"}, {"text": "two"}])
    turn = driver.start("trigger", peer_id=peer, prompt="go")
    wait_for(lambda: driver.do("session", peer_id=peer)[1]["status"] == "active")
    assert driver.do("stop", peer_id=peer)[0] == 200
    assert turn.result(20)["text"] == "one"
    assert driver.do("stop", peer_id=peer)[0] == 409


def test_a_token_that_is_gone_is_nobody_on_loopback(driver: PlayedSuzent, driven: PlayedSuzent) -> None:
    peer, device = grant(driver, driven)
    driver.do("set", remote=False)
    driven.do("set", remote=False)
    driven.do("status", device_id=device, status="paused")
    assert driver.do("peer_status", peer_id=peer) == "ready", "Suzent's own check lets a paused grant pass on loopback"
    driven.do("revoke", device_id=device)
    assert driver.do("peer_status", peer_id=peer) == "revoked"
    assert driver.do("look", what="peers"), "and its holder, who was told, keeps it: 200 is no refusal"


def test_what_suzent_would_refuse_is_noted(driven: PlayedSuzent) -> None:
    answer = httpx.post(f"{driven.url}/nodes/grant-request", json={"name": "x", "controller_addr": 5})
    assert answer.json()["status"] == "pending"
    (seen,) = driven.requests("/nodes/grant-request")
    assert seen["problems"] == ["controller_name is missing", "controller_addr has the wrong type"]
    assert seen["unread"] == ["name"]
