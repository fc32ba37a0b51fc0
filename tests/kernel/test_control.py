"""Asking for control, and granting it, from a notebook."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import pytest
from support.played_gateway import PlayedGateway
from support.waiting import wait_for

from suzent_jupyter.kernel import ControlRequest, Gateway, KernelError, NodeAmbiguous, PeerUnknown
from suzent_jupyter.kernel.durations import read_duration
from suzent_jupyter.kernel.errors import UsageError
from suzent_jupyter.kernel.peering import Peering

from .conftest import Shell

GRANT: dict[str, Any] = {
    "request_id": "q" * 32,
    "code": "ABC234",
    "controller_name": "Lab PC",
    "controller_host": "10.0.0.2",
    "controller_addr": "http://10.0.0.2:25314",
    "controller_identity": "i",
    "requested_at": "2026-05-01T10:00:00+00:00",
}


def test_a_suzent_server_shows_no_code() -> None:
    answer = {"request_id": "r", "base_url": "http://10.0.0.3:26001", "status": "pending"}
    shown = repr(ControlRequest(Peering(), answer))
    assert "in Suzent under Settings → Devices" in shown
    assert "CODE" not in shown


def test_the_code_in_large_and_what_to_do(played_shell: Shell, played: PlayedGateway) -> None:
    request = played_shell.run("%suzent control 10.0.0.3:25314 --name 'Lab PC'")
    assert isinstance(request, ControlRequest)
    assert played.asked("/nodes/control") == [{"base_url": "10.0.0.3:25314", "name": "Lab PC"}]
    shown = played_shell.formatted(request)
    assert "K M P 2 3 4" in shown["text/plain"] and "10.0.0.3:25314" in shown["text/plain"]
    assert "%suzent approve KMP234" in shown["text/plain"]
    assert "jupyter suzent control approve KMP234" in shown["text/plain"]
    assert "Settings" not in shown["text/plain"] and "12:34 UTC" in shown["text/plain"]
    assert "2em" in shown["text/html"] and "KMP234" in shown["text/html"]
    assert "r" * 32 not in str(shown)  # whoever has the id fetches the token
    assert (request.status, request.peer) == ("pending", None)
    peer_id = played.add_peer("Lab PC")
    played.control = {"status": "approved", "peer_id": peer_id}
    assert request.refresh().status == "approved"
    assert request.peer is not None and request.peer["name"] == "Lab PC"
    assert '%suzent trigger "Lab PC"' in repr(request)


@pytest.mark.parametrize(
    ("outcome", "says"),
    [("approved", "may be driven"), ("denied", "denied control"), ("expired", "asks again"), ("odd\x1b[2J", "odd")],
)
def test_waiting_shows_the_outcome(
    played_shell: Shell, played: PlayedGateway, capsys: pytest.CaptureFixture[str], outcome: str, says: str
) -> None:
    def decide() -> None:
        wait_for(lambda: any(path.endswith("control-status") for _, path, _, _ in list(played.requests)))
        played.control = {"status": outcome}

    thread = threading.Thread(target=decide)
    thread.start()
    request = played_shell.run("%suzent control http://lab:25314 --wait 20")
    thread.join()
    assert "K M P 2 3 4" in capsys.readouterr().out
    assert says in repr(request) and "\x1b" not in repr(request)


def test_waiting_ends_in_time_or_by_an_interrupt(
    played_shell: Shell, played: PlayedGateway, capsys: pytest.CaptureFixture[str]
) -> None:
    assert played_shell.run("%suzent control http://lab:25314 --wait 0.1").status == "pending"
    capsys.readouterr()
    before = len(played.requests)

    def interrupt() -> None:
        wait_for(lambda: any(path.endswith("control-status") for _, path, _, _ in list(played.requests)[before:]))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    result = played_shell.ip.run_cell("%suzent control http://lab:25314 --wait 60")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert "the request still stands" in capsys.readouterr().out.splitlines()[-1]


def test_a_peer_is_asked_again_by_its_name(played_shell: Shell, played: PlayedGateway) -> None:
    played.add_peer("Lab PC", outbound_status="revoked")
    played_shell.run("%suzent control 'lab pc'")
    assert played.asked("/nodes/control")[-1] == {"base_url": "http://lab-pc:25314", "name": "Lab PC"}
    played_shell.run("%suzent control attic")  # no peer: an address then
    assert played.asked("/nodes/control")[-1] == {"base_url": "attic"}


def test_approving_says_exactly_what_was_granted(played_shell: Shell, played: PlayedGateway) -> None:
    played.lists["grants"].append(GRANT)
    said = repr(played_shell.run("%suzent approve abc234"))
    assert "Lab PC (10.0.0.2) may now drive this gateway's agent and call every command of its devices" in said
    assert "until revoked" in said and "may not use tools that would otherwise ask" in said
    assert played.asked("q/approve") == [{"covers": "both", "commands": [], "unattended_tools": False}]
    played.lists["grants"].append({**GRANT, "replaces": "d1"})
    said = repr(played_shell.run("%suzent approve ABC234 --for 7d --commands camera.*,system.info --unattended"))
    assert "call camera.*, system.info of its devices" in said and " UTC." in said
    assert "may use tools that would otherwise ask" in said and "earlier grant" in said
    assert played.asked("q/approve")[-1] == {
        "covers": "both", "commands": ["camera.*", "system.info"], "unattended_tools": True, "expires_in": 604800.0,
    }  # fmt: skip
    played.lists["grants"].append(GRANT)
    assert "Its turns" not in repr(played_shell.run("%suzent approve ABC234 --covers devices"))
    played.lists["grants"].append(GRANT)
    assert "devices" not in repr(played_shell.run("%suzent approve ABC234 --covers agent"))
    played.lists["grants"].append(GRANT)
    assert "gets no control" in repr(played_shell.run("%suzent deny ABC234"))
    assert played.lists["grants"] == []


def test_devices_are_approved_as_before(played_shell: Shell, played: PlayedGateway) -> None:
    played.lists["pending"].append({"pairing_code": "DEV234", "display_name": "Phone"})
    assert "approve DEV234" in repr(played_shell.run("%suzent approve dev234"))
    assert "deny DEV234" in repr(played_shell.run("%suzent deny DEV234"))
    before = len(played.requests)
    error = played_shell.fail("%suzent approve DEV234 --for 1h")
    assert isinstance(error, UsageError) and "a device has no such terms" in error.message
    assert not [path for _, path, _, _ in played.requests[before:] if "approve" in path]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("%suzent approve ABC234 --for soon", "span of time"),
        ("%suzent approve ABC234 --for 0h", "span of time"),
        ("%suzent approve ABC234 --covers all", "both, agent, devices"),
        ("%suzent approve ABC234 --covers agent --commands x", "agent alone"),
        ("%suzent approve ABC234 --covers devices --unattended", "devices alone"),
        ("%suzent approve ABC234 --commands ,", "names none"),
        ("%suzent mode Lab sideways", "trigger, paused, off"),
        ("%suzent mode Lab", "needs MODE"),
        ("%suzent reverse Lab maybe", "neither on nor off"),
        ("%suzent control x --wait soon", "number of seconds"),
        ("%suzent mode Nobody off", "no peer 'Nobody'"),
        ("%suzent trigger Nobody Hello", "no peer 'Nobody'"),
        ("%suzent trigger", "needs PEER"),
        ("%suzent trigger Lab", "prompt is empty"),
        ("%suzent trigger Lab --file", "needs a value"),
        ("%suzent trigger Lab --file /no/such.png look", "no file"),
        ("%%suzent trigger Lab hello\nbody", "one word too many"),
    ],
)
def test_mistakes_are_one_line_and_nothing_is_sent(
    played_shell: Shell, played: PlayedGateway, capsys: pytest.CaptureFixture[str], line: str, says: str
) -> None:
    played.lists["grants"].append(GRANT)
    played.add_peer("Lab")
    error = played_shell.fail(line)
    assert isinstance(error, KernelError)
    shown = capsys.readouterr().out.strip().splitlines()
    assert len(shown) == 1 and says in shown[0]
    assert "not found" not in shown[0]
    assert not [path for method, path, _, _ in played.requests if method == "POST"]


def test_modes(played_shell: Shell, played: PlayedGateway) -> None:
    played.add_peer("Lab PC")
    assert "paused" not in repr(played_shell.run("%suzent mode 'Lab PC' trigger"))
    assert "not driven for now" in repr(played_shell.run("%suzent mode 'lab pc' paused"))
    assert "not driven any more" in repr(played_shell.run("%suzent mode lab-pc-01 off"))
    assert [body["mode"] for body in played.asked("/mode")] == ["trigger", "paused", "off"]
    assert "may drive this gateway's agent" in repr(played_shell.run("%suzent reverse 'Lab PC' on"))
    assert "can't drive this gateway" in repr(played_shell.run("%suzent reverse 'Lab PC' off"))
    assert "Both directions are severed" in repr(played_shell.run("%suzent remove 'Lab PC'"))
    assert played_shell.run("%suzent peers").empty


def test_a_name_that_several_peers_have(played_gw: Gateway, played: PlayedGateway) -> None:
    played.add_peer("Lab", peer_id="one1")
    played.add_peer("Lab", peer_id="two2")
    with pytest.raises(NodeAmbiguous, match="one1, two2"):
        played_gw.set_mode("Lab", "off")
    assert played_gw.set_mode("two", "off") == "off"
    with pytest.raises(PeerUnknown):
        played_gw.peer("")


EVIL = "<img src=x onerror=alert(1)>\x1b[2J; rm -rf ~"


@pytest.mark.parametrize("status", ["pending", "approved", "denied", "expired", EVIL])
def test_what_the_other_side_says_is_harmless(played_gw: Gateway, status: str) -> None:
    answer = {"status": status, "base_url": EVIL, "code": EVIL, "expires_at": EVIL}
    bundle = ControlRequest(played_gw, answer, EVIL)._repr_mimebundle_()
    assert "<img" not in bundle["text/html"]
    for text in bundle.values():
        assert "\x1b" not in text
        assert "approve <" not in text and "approve &lt;" not in text


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800), ("12h", 43200), ("7d", 604800), ("2w", 1209600), ("90", 90), ("1.5H", 5400)]
)
def test_spans_of_time(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


def test_completion(played_shell: Shell, played: PlayedGateway) -> None:
    played.add_peer("Lab PC")
    played.lists["grants"].append(GRANT)
    mirror = played_shell.ip.suzent_magics.mirror()
    wait_for(lambda: mirror.items("peers") and mirror.items("grants"))
    before = len(played.requests)

    def texts(line: str) -> list[str]:
        return [text for _, text in played_shell.complete(line)]

    assert texts("%suzent trigger la") == ['"Lab PC"']
    assert texts("%suzent trigger 'Lab PC' --c") == ["--chat"]
    assert texts("%suzent mode 'Lab PC' ") == ["trigger", "paused", "off"]
    assert texts("%suzent reverse 'Lab PC' o") == ["on", "off"]
    assert texts("%suzent remove l") == texts("%suzent control l") == texts("%suzent invoke l") == ['"Lab PC"']
    assert texts("%suzent approve a") == texts("%suzent deny a") == ["ABC234"]
    assert texts("%suzent approve ABC234 --f") == ["--for"]
    assert texts("%suzent approve ABC234 --covers d") == ["devices"]
    assert texts("%%suzent trigger la") == ['"Lab PC"']
    played.publish("grants", "removed", GRANT["request_id"])
    wait_for(lambda: "ABC234" not in texts("%suzent approve a"))
    assert len(played.requests) == before  # nothing was asked for


def test_what_reads_like_an_address_is_asked_as_one(played_gw: Gateway, played: PlayedGateway) -> None:
    played.add_peer("lab.example")  # a name that the peer itself may have chosen
    played_gw.control("lab.example")
    assert played.asked("/nodes/control") == [{"base_url": "lab.example"}]
