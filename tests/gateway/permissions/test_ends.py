"""What a prompt ends with: its executor, its caller, its turn, the sharing of the node, the gateway itself."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from support.asked import ABLE, Account, Cast, Frame, Make, Seat, cast
from support.client import BareClient
from support.device import BareDevice
from support.executing import Worker
from support.gateways import Process
from support.grants import holder
from support.keyed import KeyedNode, admit, multinode_url
from support.running import sync, until


async def call(seat: Seat, call_id: Any, node: Seat, **more: Any) -> None:
    await seat.send(type="invoke", id=call_id, node=node.node_id, command="guarded", params={}, **more)


async def result(seat: Seat, call_id: Any) -> Frame:
    found = await until(lambda: [f for f in seat.frames if f["type"] == "result" and f["id"] == call_id], 20)
    return dict(found[0])


async def over(everybody: Cast, prompt_id: str, reason: str, account: str = "ada") -> None:
    """See that a prompt is closed, denied for that reason, and can't be answered any more."""

    async def closed() -> list[Frame]:
        return [each for each in await everybody.history(account) if each["id"] == prompt_id]

    async with asyncio.timeout(20):
        while not (found := await closed()):
            await asyncio.sleep(0.01)
    (kept,) = found
    assert (kept["decision"], kept["reason"]) == ("deny", reason)
    assert kept["resolved_at"] >= kept["asked_at"]
    assert await everybody.waiting(account) == []
    rows = (await everybody.http[account].get("/audit")).json()["entries"]
    assert [each["outcome"] for each in rows if each["action"] == "permission"] == [reason]


@pytest.mark.parametrize("how", ["hangs up", "revoked", "connects anew", "switched off"])
@sync
async def test_the_executor_goes_away(make_gateway: Make, how: str) -> None:
    async with cast(make_gateway, "ada-tab", "ada-page", "ada-phone") as everybody:
        tab, phone = everybody["ada-tab"], everybody["ada-phone"]
        await call(tab, "c", phone)
        prompt_id = (await tab.prompt())["id"]
        code = "node_disconnected"
        match how:
            case "hangs up":
                await phone.socket.ws.close()
            case "revoked":
                code = "revoked"
                await everybody.http["ada"].post(f"/nodes/devices/{phone.node_id}/revoke")
            case "connects anew":
                again = BareDevice(
                    everybody.gateway.node_url, "again", ABLE, device_token=phone.socket.token, features=["permissions"]
                )
                async with again:
                    await again.joined()
                    await result(tab, "c")
            case "switched off":
                await everybody.http["ada"].post("/nodes/config", json={"nodes_enabled": False})
        assert (await result(tab, "c"))["code"] == code
        for name in ("ada-tab", "ada-page"):
            await until(lambda name=name: prompt_id in {each["id"] for each in everybody[name].closed()})
        late = await everybody.http["ada"].post(f"/permissions/{prompt_id}", json={"decision": "allow"})
        assert late.json()["code"] == "permission_expired"
        await over(everybody, prompt_id, "disconnected")


async def cancels(everybody: Cast) -> None:
    await everybody["ada-tab"].send(type="cancel", id="c")


async def hangs_up(everybody: Cast) -> None:
    await everybody["ada-tab"].socket.ws.close()


@pytest.mark.parametrize("gives_up", [cancels, hangs_up])
@sync
async def test_the_caller_gives_up(make_gateway: Make, gives_up: Callable[[Cast], Awaitable[None]]) -> None:
    async with cast(make_gateway, "ada-tab", "ada-page", "ada-a") as everybody:
        await call(everybody["ada-tab"], "c", everybody["ada-a"])
        prompt = await everybody["ada-page"].prompt()
        await gives_up(everybody)
        for name in ("ada-page", "ada-a"):
            seat = everybody[name]
            await until(lambda seat=seat: [each for each in seat.closed() if each["id"] == prompt["id"]])
            assert seat.closed()[0]["reason"] == "cancelled"
            assert (await seat.answer(prompt["id"])).get("code", "permission_expired") == "permission_expired"
        await over(everybody, prompt["id"], "cancelled")
        assert everybody["ada-a"].calls == []


@pytest.mark.parametrize("how", ["cancel", "hang up"])
@pytest.mark.parametrize("caller", ["ada-b", "ada-page"])
@sync
async def test_the_caller_on_the_other_socket_gives_up(make_gateway: Make, caller: str, how: str) -> None:
    async with cast(make_gateway, "ada-b", "ada-page", "ada-a") as everybody:
        seat, node = everybody[caller], everybody["ada-a"]
        request = {"node_id": node.node_id, "command": "guarded"}
        await seat.send(type="node.invoke.request", id="c", **request)
        prompt = await node.prompt()
        if how == "cancel":
            await seat.send(type="node.invoke.cancel", id="c")
        else:
            await seat.socket.ws.close()
        await until(lambda: [each for each in node.closed() if each["id"] == prompt["id"]])
        assert (await node.answer(prompt["id"])).get("code", "permission_expired") == "permission_expired"
        await over(everybody, prompt["id"], "cancelled")
        assert node.calls == []
        rows = (await everybody.http["ada"].get("/audit")).json()["entries"]
        assert [each["outcome"] for each in rows if each["action"] == "invoke"] == ["cancelled"]


@sync
async def test_a_request_that_is_hung_up_on_asks_no_more(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-page", "ada-a") as everybody:
        node = everybody["ada-a"]
        for large in ("", "x" * 100_000):  # the short way of the listener, and the long one
            body = {"command": "guarded", "params": {"n": 1, "text": large}}
            async with everybody.gateway.http() as http:
                posting = asyncio.ensure_future(http.post(f"/nodes/{node.node_id}/invoke", json=body))
                prompt = await everybody["ada-page"].prompt()
                posting.cancel()
                await asyncio.gather(posting, return_exceptions=True)
            await until(lambda prompt=prompt: prompt["id"] in {e["id"] for e in everybody["ada-page"].closed()}, 20)
        assert node.calls == []
        assert {each["reason"] for each in await everybody.history("ada")} == {"cancelled"}


@pytest.mark.parametrize("how", ["revoke", "pause"])
@sync
async def test_the_callers_token_goes(make_gateway: Make, how: str) -> None:
    async with cast(make_gateway, "ada-page", "ada-a") as everybody:
        ada, node = everybody.http["ada"], everybody["ada-a"]
        token = (await ada.post("/nodes/host-token", json={"name": "script"})).json()
        async with holder(everybody.gateway, token["token"]) as script:
            calling = asyncio.ensure_future(script.post(f"/nodes/{node.node_id}/invoke", json={"command": "guarded"}))
            prompt = await everybody["ada-page"].prompt()
            assert prompt["caller"] == "ada (script)"
            url = f"/nodes/devices/{token['device_id']}"
            await (
                ada.post(f"{url}/revoke") if how == "revoke" else ada.post(f"{url}/status", json={"status": "paused"})
            )
            assert (await calling).json()["code"] == "unauthorized"
        await over(everybody, prompt["id"], "cancelled")
        assert node.calls == []


@sync
async def test_the_turn_that_asks_ends(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a", "lab") as everybody:
        tab, lab, node = (everybody[name] for name in ("ada-tab", "lab", "ada-a"))
        await tab.send(type="chat.send", id="q", message="hi", target_node_id=lab.node_id)
        await until(lambda: lab.socket.runs, 20)
        run = lab.socket.runs[0]["run_id"]
        _, future = lab.socket.start(node_id=node.node_id, command="camera.snap", run_id=run)
        summary = {"command": "shell", "params": "ls"}
        await lab.send(type="permission.request", id="own", run_id=run, tool="shell", summary=summary)
        await until(lambda: len(tab.prompts()) == 2)
        await tab.send(type="chat.abort", run_id=run)
        assert (await future)["error"]["code"] == "cancelled"
        await until(lambda: [each for each in lab.closed() if each["id"] == "own"])
        (own,) = [each for each in lab.closed() if each["id"] == "own"]
        assert (own["decision"], own["reason"]) == ("deny", "cancelled")
        await until(lambda: len(tab.closed()) == 2)
        assert {each["reason"] for each in await everybody.history("ada")} == {"cancelled"}
        assert node.calls == []


@sync
async def test_a_node_that_is_taken_back_is_not_asked_for_others_any_more(make_gateway: Make) -> None:
    async with cast(make_gateway, "bob-tab", "lab") as everybody:
        bob, lab = everybody["bob-tab"], everybody["lab"]
        await call(bob, "c", lab)
        prompt_id = (await lab.prompt())["id"]
        answer = await everybody.http["ada"].post(f"/nodes/{lab.node_id}/scope", json={"scope": "account"})
        assert answer.status_code == 200
        assert (await result(bob, "c"))["code"] == "node_disconnected"
        assert (await lab.answer(prompt_id))["type"] in ("error", "permission.resolved")
        await over(everybody, prompt_id, "disconnected")
        assert lab.calls == []


@sync
async def test_own_tools_are_asked_for_in_ones_own_turns_alone(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a", "lab") as everybody:
        tab, lab, node = (everybody[name] for name in ("ada-tab", "lab", "ada-a"))
        await tab.send(type="chat.send", id="q", message="hi", target_node_id=lab.node_id)
        await until(lambda: lab.socket.runs, 20)
        run = lab.socket.runs[0]["run_id"]

        async def refused(seat: Seat, **frame: Any) -> str:
            before = len(seat.frames)
            await seat.send(**{"type": "permission.request", "id": "r", "tool": "shell", "summary": {}, **frame})
            errors = await until(lambda: [f for f in seat.frames[before:] if f["type"] == "error"])
            assert errors[0]["id"] == frame.get("id", "r")
            return str(errors[0]["code"])

        assert await refused(node, run_id=run) == "run_unknown"
        for wrong in ("none", None, 1, ["x"]):
            assert await refused(lab, run_id=wrong) == "run_unknown"
        assert await refused(lab, run_id=run, tool="\u202e") == "invalid_request"
        own = {"type": "permission.request", "run_id": run, "tool": "camera.snap"}
        await lab.send(**own, id="r", summary={"command": "ls"})
        prompt = await tab.prompt()
        assert prompt["tool"] == prompt["summary"]["command"] == "camera.snap"
        assert await refused(lab, run_id=run) == "bad_frame"
        # What is allowed for a tool holds for no command that is called alike.
        await tab.answer(prompt["id"], "allow", "session")
        _, future = lab.socket.start(node_id=lab.node_id, command="camera.snap", run_id=run)
        await tab.answer((await tab.prompt())["id"], "deny", "session")
        assert (await future)["error"]["code"] == "permission_denied"
        # Nor the other way round.
        await lab.send(**own, id="again", summary={"command": "ls"})
        await until(lambda: [each for each in lab.closed() if each["id"] == "again"])
        assert [each["decision"] for each in lab.closed() if each["id"] == "again"] == ["allow"]
        assert len(tab.prompts()) == 2


@sync
async def test_a_gateway_that_stops_denies_what_waits(make_gateway: Make, tmp_path: Path) -> None:
    async with cast(make_gateway, "ada-tab", "ada-a") as everybody:
        tab = everybody["ada-tab"]
        await call(tab, "c", everybody["ada-a"])
        prompt_id = (await tab.prompt())["id"]
        await asyncio.to_thread(everybody.gateway.stop)
        data_dir = everybody.gateway.config.data_dir
    again = make_gateway(data_dir)
    async with again.http() as http:
        (kept,) = (await http.get("/permissions?history=1")).json()["permissions"]
        assert (kept["id"], kept["decision"], kept["reason"]) == (prompt_id, "deny", "restarted")
        assert (await http.get("/permissions")).json()["count"] == 0
        late = await http.post(f"/permissions/{prompt_id}", json={"decision": "allow"})
        assert (late.status_code, late.json()["code"]) == (410, "permission_expired")


@sync
async def test_a_killed_gateway_denies_what_waited_when_it_is_back(start_process: Callable[..., Process]) -> None:
    gateway = await asyncio.to_thread(start_process)
    invoked: list[Any] = []
    async with BareDevice(gateway.node_url, "Phone", ABLE, features=["permissions"]) as phone:
        await gateway.pair(phone)
        token = phone.token
        async with BareClient(gateway) as tab:
            await tab.send(type="subscribe", topics=["permissions"])
            for n in range(3):
                await tab.send(type="invoke", id=n, node=phone.node_id, command="guarded", params={"n": n})
            asked = [(await tab.change("permissions", "added"))["item"]["id"] for _ in range(3)]
            await tab.send(type="permission.response", id=asked[0], decision="deny")
            assert (await tab.recv("result"))["code"] == "permission_denied"
            await asyncio.to_thread(gateway.kill)
    again = await asyncio.to_thread(start_process)
    device = BareDevice(again.node_url, "Phone", ABLE, features=["permissions"], device_token=token)
    async with device as phone, again.http() as http:
        await phone.joined()
        phone.answer(lambda command, params: invoked.append(params))
        kept = {each["id"]: each for each in (await http.get("/permissions?history=1")).json()["permissions"]}
        assert {key: (each["decision"], each["reason"]) for key, each in kept.items()} == {
            asked[0]: ("deny", "answered"),
            asked[1]: ("deny", "restarted"),
            asked[2]: ("deny", "restarted"),
        }
        assert (await http.get("/permissions")).json()["count"] == 0
        for prompt_id, code in ((asked[0], "permission_resolved"), (asked[1], "permission_expired")):
            late = await http.post(f"/permissions/{prompt_id}", json={"decision": "allow"})
            assert late.json()["code"] == code
        rows = (await http.get("/audit")).json()["entries"]
        assert sorted(each["outcome"] for each in rows if each["action"] == "permission") == [
            "deny",
            "restarted",
            "restarted",
        ]
        # The others of before are nobody else's to ask for: another account's prompts don't exist.
        with sqlite3.connect(Path(again.env["JUPYTER_DATA_DIR"]) / "suzent" / "suzent.db") as connection:
            assert connection.execute("SELECT count(*) FROM permissions WHERE decision = ''").fetchone() == (0,)
        assert invoked == []


@sync
async def test_a_device_with_an_agent_is_asked_for_it_as_a_whole(make_gateway: Make) -> None:
    """It does not ask about its tools, so somebody there must allow what others have it do."""
    gateway = make_gateway(org="team")
    gateway.service.gateway.waiting_account = None
    bobs = await asyncio.to_thread(Account, gateway, "bob", "team")
    features = ["agent", "permissions"]
    async with (
        BareDevice(gateway.node_url, "Phone", [{"name": "agent.run"}], features=features) as device,
        Worker(bobs, "Bobs") as bob,
        gateway.http() as ada,
    ):
        await gateway.pair(device)
        assert (await ada.post(f"/nodes/{device.node_id}/scope", json={"scope": "enterprise"})).status_code == 200
        _, future = bob.start(node_id="Phone", agent="look around")
        prompt = await device.recv("permission.request")
        assert (prompt["tool"], prompt["relation"], prompt["caller"]) == ("agent.run", "cross_account", "bob (Bobs)")
        assert "look around" in prompt["summary"]["params"]
        await device.send({"type": "permission.response", "id": prompt["id"], "decision": "deny"})
        assert (await future)["error"]["code"] == "permission_denied"
        _, future = bob.start(node_id="Phone", agent="look around")
        prompt = await device.recv("permission.request")
        await device.send({"type": "permission.response", "id": prompt["id"], "decision": "allow"})
        invoke = await device.recv("invoke")
        assert invoke["params"]["message"] == "look around"
        await device.send({"type": "result", "request_id": invoke["request_id"], "success": True, "result": "seen"})
        assert (await future)["result"] == "seen"


@sync
async def test_a_device_asks_for_a_tool_of_its_agent(make_gateway: Make) -> None:
    gateway = make_gateway()
    features = ["agent", "permissions"]
    async with (
        BareDevice(gateway.node_url, "Phone", [{"name": "agent.run"}], features=features) as device,
        BareDevice(gateway.node_url, "Other", features=["cancel"]) as other,
        BareClient(gateway) as tab,
    ):
        await gateway.pair(device)
        await gateway.pair(other)
        await tab.send(type="subscribe", topics=["permissions"])
        await tab.send(type="chat.send", id="q", message="look", target_node_id=device.node_id)
        invoke = await device.recv("invoke")
        run = invoke["params"]["run_id"]
        request = {"type": "permission.request", "id": 7, "run_id": run, "tool": "shell", "summary": {"params": "ls"}}
        await device.send({**request, "run_id": "none"})
        error = await device.recv("error")
        assert (error["code"], error["id"]) == ("run_unknown", 7)
        # Without the feature it is a frame like any other that is not known.
        await other.send(request)
        await device.send(request)
        prompt = await device.recv("permission.request")
        assert prompt["relation"] == "web" and prompt["summary"]["params"] == "ls"
        assert (await tab.change("permissions", "added"))["item"]["id"] == prompt["id"]
        await tab.send(type="permission.response", id=prompt["id"], decision="allow")
        ends = {(each := await device.recv("permission.resolved"))["id"]: each for _ in range(2)}
        assert set(ends) == {7, prompt["id"]} and {each["decision"] for each in ends.values()} == {"allow"}
        await other.send({"type": "ping"})
        assert (await other.recv())["type"] == "pong"
        # With the device goes what it asked.
        await device.send({**request, "id": 8})
        prompt = (await tab.change("permissions", "added"))["item"]
        await device.ws.close()
        assert (await tab.change("permissions", "removed"))["item"]["reason"] == "disconnected"


@sync
async def test_a_nodes_key_is_no_persons(make_gateway: Make) -> None:
    async with cast(make_gateway, "ada-tab", "ada-mute") as everybody:
        for capabilities in ([{"name": "echo"}], []):
            async with KeyedNode(multinode_url(everybody.gateway), "Bot", capabilities=capabilities) as bot:
                await admit(everybody.gateway, bot)
            async with KeyedNode(multinode_url(everybody.gateway), "Bot", bot.key, role="web") as page:
                assert await page.refusal() == ("bad_handshake", 1002)
        async with KeyedNode(multinode_url(everybody.gateway), "Tablet", role="web") as page:
            await admit(everybody.gateway, page)
        async with KeyedNode(multinode_url(everybody.gateway), "Tablet", page.key, role="web") as again:
            await again.joined()
        device = everybody.gateway.service.gateway.devices.by_id(bot.node_id)
        assert device is not None and device.role == "app"


@sync
async def test_a_web_client_with_a_key_is_a_person(make_gateway: Make) -> None:
    async with (
        cast(make_gateway, "ada-mute") as everybody,
        KeyedNode(multinode_url(everybody.gateway), "Tablet", role="web") as page,
    ):
        await admit(everybody.gateway, page)
        node = everybody["ada-mute"].node_id
        await page.send({"type": "node.invoke.request", "id": 1, "node_id": node, "command": "guarded"})
        prompt = await page.recv("permission.request")
        assert (prompt["relation"], prompt["caller"]) == ("web", "ada (Tablet)")
        await page.send({"type": "permission.response", "id": prompt["id"], "decision": "allow"})
        assert (await page.recv("node.invoke.result"))["ok"]
