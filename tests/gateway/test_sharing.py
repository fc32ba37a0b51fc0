"""Sharing a node at odd moments: while a prompt is on its way there, and from two hands at once."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest
from support.calls import error_of
from support.client import BareClient
from support.executing import Worker, hello
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.gateway.answering import inline_files
from suzent_jupyter.gateway.devices import Device
from suzent_jupyter.gateway.principals import Authority, Grant, Principal
from suzent_jupyter.gateway.registry import Registry


@pytest.mark.parametrize(
    ("account", "org", "grant", "sharing", "shared_with", "seen"),
    [
        ("ada", "", None, "account", "", True),
        ("ada", "blue", None, "enterprise", "red", True),
        ("bob", "red", None, "enterprise", "red", True),
        ("bob", "red", None, "account", "red", False),
        ("bob", "blue", None, "enterprise", "red", False),
        ("bob", "", None, "enterprise", "red", False),
        ("bob", "red", None, "enterprise", "", False),
        ("bob", "", None, "enterprise", "", False),  # to be in none is no organisation
        ("bob", "Red", None, "enterprise", "red", False),
        ("ada", "red", Grant(), "account", "red", True),
        ("bob", "red", Grant(), "enterprise", "red", False),
    ],
)
def test_who_sees_a_node(
    account: str, org: str, grant: Grant | None, sharing: Any, shared_with: str, seen: bool
) -> None:
    node = Device("", b"", "LabPC", account="ada", org=shared_with, sharing=sharing)
    assert Registry.sees(Principal(Authority.FULL, account, org, grant=grant), node) is seen


@sync
async def test_a_prompt_whose_files_took_too_long_does_not_reach_a_node_that_is_no_longer_shared(
    make_gateway: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway: ThreadedGateway = make_gateway(org="lab")
    bob_token = gateway.token_of("bob", "lab")
    hub = gateway.service.gateway
    stage, staged = inline_files.stage, []

    async def slow(*arguments: Any) -> Any:
        staging = await stage(*arguments)
        staged.append(staging.attachments[0].path)
        await hub.sharing.set_scope(gateway.service.kernel_token._principal, "Microscope", "account")
        return staging

    async with (
        Worker(gateway, "Microscope", hello) as node,
        gateway.http() as ada,
        BareClient(gateway, bob_token) as bob,
    ):
        assert (await ada.post("/nodes/Microscope/scope", json={"scope": "enterprise"})).status_code == 200
        monkeypatch.setattr(inline_files, "stage", slow)
        file = {"name": "a.txt", "media_type": "text/plain", "base64": base64.b64encode(b"bob's").decode()}
        await bob.send(type="chat.send", id=1, message="hi", target_node_id="Microscope", attachments=[file])
        error = await bob.recv("error")
        assert (error["code"], error["message"]) == ("node_disconnected", "Microscope is no longer shared.")
        assert node.runs == []
        assert not staged[0].exists()
        await bob.send(type="subscribe", topics=["runs"])
        assert (await bob.recv("change"))["item"] == []


@sync
async def test_changes_of_a_scope_come_one_after_the_other(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(org="lab")
    bob_token = gateway.token_of("bob", "lab")
    async with (
        Worker(gateway, "Microscope", hello),
        gateway.http() as ada,
        BareClient(gateway, bob_token) as bob,
    ):
        await bob.send(type="subscribe", topics=["nodes"])
        await bob.change("nodes", "snapshot")
        scopes = ["enterprise", "account"] * 5
        answers = await asyncio.gather(
            *(ada.post("/nodes/Microscope/scope", json={"scope": scope}) for scope in scopes)
        )
        assert [answer.json()["scope"] for answer in answers] == scopes
        seen = False
        await ada.post("/nodes/Microscope/scope", json={"scope": "account"})
        await ada.post("/nodes/Microscope/scope", json={"scope": "enterprise"})
        told = []
        while told.count("added") <= told.count("removed") or len(told) < 3:
            kind = (await bob.change("nodes"))["kind"]
            assert kind == ("removed" if seen else "added")
            seen = not seen
            told.append(kind)
        async with gateway.http(headers={"Authorization": f"Bearer {bob_token}"}) as http:
            assert (await http.get("/nodes")).json()["count"] == 1
            answer = await http.post("/nodes/Microscope/scope", json={"scope": "account"})
            assert error_of(answer) == (403, "not_owner")


@sync
async def test_a_scope_that_can_not_be_kept_is_not_in_force(make_gateway: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from suzent_jupyter.protocol.errors import SuzentError

    gateway: ThreadedGateway = make_gateway(org="lab")
    bob_token = gateway.token_of("bob", "lab")
    headers = {"Authorization": f"Bearer {bob_token}"}
    async with Worker(gateway, "Microscope", hello), gateway.http() as ada, gateway.http(headers=headers) as bob:

        async def full(*_: Any) -> Any:
            raise SuzentError("store_failed", "The disk is full.")

        with monkeypatch.context() as patched:
            patched.setattr(gateway.service.gateway.audit, "change", full)
            answer = await ada.post("/nodes/Microscope/scope", json={"scope": "enterprise"})
            assert error_of(answer)[1] == "store_failed"
        assert (await bob.get("/nodes")).json()["count"] == 0
        assert (await ada.get("/nodes/Microscope")).json()["scope"] == "account"
        assert (await ada.post("/nodes/Microscope/scope", json={"scope": "enterprise"})).status_code == 200
        assert (await bob.get("/nodes")).json()["count"] == 1
        for scope in ("", "all", None, 7, ["account"]):
            answer = await ada.post("/nodes/Microscope/scope", json={"scope": scope})
            assert error_of(answer)[1] == "invalid_request"
