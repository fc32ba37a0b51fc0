"""Two gateways, a notebook at each: control is asked for, granted and used from cells."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from ag_ui.core import BaseEvent
from support.gateways import ThreadedGateway
from support.turns import Gate, register, say
from support.waiting import wait_for

from suzent_jupyter.kernel import Gateway, KernelError, TurnFailed
from suzent_jupyter.protocol.agents import Turn
from suzent_jupyter.protocol.errors import SuzentError

from .conftest import Phone, Shell

MakeGateway = Callable[..., ThreadedGateway]


@pytest.fixture
def lab(make_gateway: MakeGateway) -> ThreadedGateway:
    """The other gateway."""
    return make_gateway(account="bob")


@pytest.fixture
def lab_gw(lab: ThreadedGateway) -> Iterator[Gateway]:
    """The other gateway as a notebook of its operator has it."""
    with Gateway(lab.url, lab.token) as handle:
        yield handle


def driven(shell: Shell, lab: ThreadedGateway, lab_gw: Gateway, **terms: object) -> None:
    request = shell.run(f"request = %suzent control {lab.url} --name Lab\nrequest")
    assert f"%suzent approve {request.code}" in repr(request)
    assert lab_gw.grants.index.tolist() == [request.code]
    assert "may now" in lab_gw.approve(request.code, **terms)["message"]  # type: ignore[arg-type]
    assert request.wait(20).status == "approved"
    assert request.peer["name"] == "Lab"


def test_the_whole_way(
    shell: Shell,
    gateway: ThreadedGateway,
    lab: ThreadedGateway,
    lab_gw: Gateway,
    make_phone: Callable[..., Phone],
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    read: list[str] = []

    async def answering(turn: Turn) -> AsyncIterator[BaseEvent]:
        if "fail" in turn.message:
            raise SuzentError("agent_gone", "The notebook is closed.")
        read.extend(each.path.read_text() for each in turn.attachments)
        for event in say("You said: ", turn.message):
            yield event

    agent = register(lab, answering)
    driven(shell, lab, lab_gw, expires_in=3600.0)
    frame = shell.run("%suzent peers --refresh")
    assert frame.loc["Lab", "status"] == "ready" and frame.loc["Lab", "inbound"] == "none"
    inbound = lab_gw.peers
    assert inbound["inbound"].tolist() == ["active"] and inbound["expires"].notna().all()

    # Prompts, with a file and a conversation of their own.
    answer = shell.run("answer = %suzent trigger Lab how are you?\nanswer")
    assert answer.text == "You said: how are you?"
    assert "You said: how are you?" in capsys.readouterr().out
    assert answer.conversation and answer.events["type"].iloc[-1] == "RUN_FINISHED"
    (tmp_path / "note.txt").write_text("from afar")
    shell.run(f"%%suzent trigger Lab --chat day --file '{tmp_path / 'note.txt'}'\nRead it.")
    assert read == ["from afar"]
    assert agent.turns[-1].conversation_id != agent.turns[0].conversation_id
    error = shell.fail("%suzent trigger Lab please fail")
    assert isinstance(error, TurnFailed) and error.code == "agent_gone"

    # Its devices, where none of ours has the name.
    make_phone(lab, "LabPhone").approve()
    photo = shell.run("%suzent invoke Lab camera.snap")
    assert "image/png" in shell.formatted(photo) and photo.image.size == (1, 1)
    assert shell.run("%suzent invoke Lab/LabPhone echo a=1").data == {"a": 1}

    # Paused, revoked, asked again, removed.
    shell.run("%suzent mode Lab paused")
    assert shell.fail("%suzent trigger Lab hi").code == "peer_off"
    shell.run("%suzent mode Lab trigger")
    lab_gw.revoke(lab_gw.devices.query("scope == 'agent'")["device_id"].iloc[0])
    wait_for(lambda: shell.run("%suzent peers --refresh").loc["Lab", "status"] == "revoked")
    assert shell.fail("%suzent trigger Lab hi").code == "peer_revoked"
    again = shell.run("%suzent control Lab")
    lab_gw.approve(again.code)
    assert again.wait(20).status == "approved"
    assert shell.run("%suzent trigger Lab hi").text == "You said: hi"
    assert "severed" in repr(shell.run("%suzent remove Lab"))
    assert shell.run("%suzent peers").empty


def test_an_interrupt_stops_the_turn_over_there(
    shell: Shell, lab: ThreadedGateway, lab_gw: Gateway, capsys: pytest.CaptureFixture[str]
) -> None:
    gate = Gate(lab)
    register(lab, gate)
    driven(shell, lab, lab_gw)

    def interrupt() -> None:
        wait_for(lambda: gate.running)
        os.kill(os.getpid(), signal.SIGINT)

    for options in ("", "--chat day"):
        threading.Thread(target=interrupt).start()
        result = shell.ip.run_cell(f"%suzent trigger Lab {options} go on")
        assert isinstance(result.error_in_exec, KeyboardInterrupt)
        assert "the turn on Lab is stopped" in capsys.readouterr().out
        wait_for(lambda: not gate.running)
    assert gate.cancelled == 2


def test_terms_hold(shell: Shell, lab: ThreadedGateway, lab_gw: Gateway, make_phone: Callable[..., Phone]) -> None:
    make_phone(lab, "LabPhone").approve()
    driven(shell, lab, lab_gw, covers="devices", commands=["echo"])
    assert shell.run("%suzent invoke Lab echo a=1").data == {"a": 1}
    for line in ("%suzent invoke Lab camera.snap", "%suzent trigger Lab hi"):
        error = shell.fail(line)
        assert isinstance(error, KernelError), line
    lines = [line for line in repr(shell.run("%suzent")).splitlines() if line.startswith("Peers:")]
    assert lines == ["Peers: Lab."]


def test_a_request_that_is_over_says_how_it_ended(
    shell: Shell, make_gateway: MakeGateway, gateway: ThreadedGateway
) -> None:
    lab = make_gateway(account="bob", limits={"grant_request_ttl": 1.0})
    with Gateway(lab.url, lab.token) as lab_gw:
        code = shell.run(f"request = %suzent control {lab.url}\nrequest").code
        wait_for(lambda: lab_gw.grants.empty)
        for terms in ({}, {"expires_in": 60.0}):
            with pytest.raises(KernelError) as caught:
                lab_gw.approve(code, **terms)
            assert (caught.value.code, "`%suzent control" in caught.value.hint) == ("request_expired", True)
        with pytest.raises(KernelError, match="has expired"):
            lab_gw.deny(code)
        with pytest.raises(KernelError, match="No device waits"):
            lab_gw.approve("ZZZZZZ")
    # With several accounts a request is in nobody's list, and belongs to whoever enters its code.
    shared = make_gateway(account="bob")
    shared.service.gateway.waiting_account = None
    with Gateway(shared.url, shared.token) as other:
        request = shell.run(f"request = %suzent control {shared.url}\nrequest")
        assert other.grants.empty
        other.approve(request.code, expires_in=60.0)
        assert request.wait(20).status == "approved"
        assert other.peers["expires"].notna().all()
    denied = make_gateway(account="bob")
    with Gateway(denied.url, denied.token) as other:
        code = shell.run(f"request = %suzent control {denied.url}\nrequest").code
        other.deny(code)
        with pytest.raises(KernelError, match="was denied"):
            other.approve(code)
