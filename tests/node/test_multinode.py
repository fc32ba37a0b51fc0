"""A node of ``/ws/gateway`` against a gateway that the test plays word by word, over a real socket."""

from __future__ import annotations

import asyncio
import base64
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import hosts
from support.lasting import Lasting
from support.played_multinode import PlayedMultinode, Visit, played_multinode
from support.running import until

from suzent_jupyter.node import NodeHost, TokenVault, progress, this_node
from suzent_jupyter.protocol.agents import Turn
from suzent_jupyter.protocol.errors import SuzentError
from suzent_jupyter.protocol.multinode import Challenge

MULTINODE: dict[str, Any] = {"protocol": "multinode", "capabilities": []}


def make_host(url: str, tmp_path: Path, name: str = "Bench 3", **options: Any) -> NodeHost:
    return hosts.make_host(url, tmp_path / "vault", name, **MULTINODE, **options)


@pytest.fixture
def play_multinode(tmp_path: Path) -> Callable[..., NodeHost]:
    """Run ``script(gateway, host)`` while a host with these options is joined; return the host afterwards."""
    return lambda script, **options: hosts.play(played_multinode, script, tmp_path / "vault", **(MULTINODE | options))


async def welcomed(gateway: PlayedMultinode, host: NodeHost, **more: Any) -> Visit:
    visit = await gateway.visit()
    await visit.welcome(**more)
    await until(lambda: host.status == "connected")
    return visit


def test_it_proves_itself_waits_and_is_let_in(play_multinode: Callable[..., NodeHost], tmp_path: Path) -> None:
    def look(far: int = 1) -> int:
        """Look around."""
        return far

    def answer(message: str) -> str:
        return message

    async def script(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await gateway.visit()
        assert set(visit.claims) == {"aud", "nonce", "exp"}
        assert set(visit.headers) == {"alg", "typ", "jwk", "kid"} and set(visit.headers["jwk"]) == {"kty", "crv", "x"}
        node = visit.connect["node"]
        assert (node["name"], node["description"], node["tags"], node["platform"]) == (
            "Bench 3", "A bench", ["lab"], "test",
        )  # fmt: skip
        assert node["agent"] is True and node["scope"] == "account"
        assert [each["name"] for each in node["capabilities"]] == ["look"]  # the agent is no command
        assert node["capabilities"][0]["input_schema"]["properties"]["far"]["type"] == "integer"
        assert visit.connect["role"] == "app" and "ticket" not in visit.connect
        await visit.send({"type": "pending", "pairing_code": "K7M2QX\x1b", "message": "wait"})
        await until(lambda: host.status == "pending")
        assert host.pairing_code == "K7M2QX"
        await visit.welcome(account="ada", org="lab", scope="account", approved=["look"], gateway="Lab")
        await until(lambda: host.status == "connected")
        assert (host.node_id, host.account, host.org, host.scope) == ("node-1", "ada", "lab", "account")
        assert host.gateway_id == gateway.identity and host.approved == ["look"]
        await visit.send({"type": "approved", "approved": ["look"], "pending_approval": ["more"]})
        await until(lambda: host.pending_approval == ["more"])
        changed = {"node_id": "node-1", "scope": "enterprise"}
        await visit.send({"type": "node.update", "node": {**changed, "node_id": "another"}})
        await visit.send({"type": "node.update", "node": 5})
        assert await visit.alive() and host.scope == "account"
        await visit.send({"type": "node.update", "node": changed})
        await until(lambda: host.scope == "enterprise")
        assert host.status == "connected" and host.pending_approval == ["more"]
        host.update([look, answer])
        update = await visit.next("node.update")
        assert [each["name"] for each in update["node"]["capabilities"]] == ["look", "answer"]
        assert update["node"]["agent"] is True

    play_multinode(script, capabilities=[look], agent=answer, description="A bench", tags=["lab"], platform="test")


def test_the_key_is_made_once_and_readable_by_its_owner_alone(tmp_path: Path) -> None:
    urls: list[str] = []

    async def key(gateway: PlayedMultinode, name: str, folder: str = "one") -> str:
        host = make_host(gateway.url, tmp_path / folder, name)
        running = asyncio.create_task(host.run())
        visit = await welcomed(gateway, host)
        host.stop()
        await running
        return visit.key

    async def main() -> None:
        async with played_multinode() as gateway, played_multinode() as other:
            first = await key(gateway, "Bench")
            assert first == await key(gateway, "Bench")
            others = [await key(gateway, "Bench 2"), await key(gateway, "Bench", "two"), await key(other, "Bench")]
            assert len({first, *others}) == 4
            urls.append(gateway.url)

    asyncio.run(main())
    vault = tmp_path / "one" / "vault"
    assert stat.S_IMODE(vault.stat().st_mode) == 0o700
    files = [path for path in vault.iterdir() if path.suffix in (".bin", ".key")]
    assert len(files) == 2 and all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in files)
    kept = TokenVault(vault, keyring=False).get(f"key:{urls[0]}:Bench")
    assert kept is not None and len(base64.urlsafe_b64decode(kept)) == 32
    assert not any(kept.encode() in path.read_bytes() for path in files)


def test_a_key_in_the_keyring(tmp_path: Path) -> None:
    class Ring:
        kept: dict[tuple[str, str], str] = {}

        def get_password(self, service: str, key: str) -> str | None:
            return self.kept.get((service, key))

        def set_password(self, service: str, key: str, value: str) -> None:
            self.kept[service, key] = value

        def delete_password(self, service: str, key: str) -> None:
            del self.kept[service, key]

    async def main() -> None:
        async with played_multinode() as gateway:
            keys = []
            for _ in range(2):
                host = make_host(gateway.url, tmp_path, vault=TokenVault(tmp_path / "vault", keyring=Ring()))
                running = asyncio.create_task(host.run())
                keys.append((await welcomed(gateway, host)).key)
                host.stop()
                await running
            assert keys[0] == keys[1]

    asyncio.run(main())
    assert (
        any(key.startswith("key:ws://") and key.endswith(":Bench 3") for _, key in Ring.kept)
        and not (tmp_path / "vault" / "vault.bin").exists()
    )


def test_a_damaged_key_is_replaced_and_a_vault_that_fails_costs_an_approval_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    vault = TokenVault(tmp_path / "vault", keyring=False)
    blocked = tmp_path / "file"
    blocked.write_text("")

    async def main() -> None:
        async with played_multinode() as gateway:
            place = f"key:{gateway.url}:Bench 3"
            vault.set(place, "AAAA")
            for each in (vault, TokenVault(blocked / "vault", keyring=False)):
                host = make_host(gateway.url, tmp_path, vault=each)
                running = asyncio.create_task(host.run())
                await welcomed(gateway, host)
                host.stop()
                assert await running == "stopped"
            assert vault.get(place) != "AAAA"

    asyncio.run(main())
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert "The key of 'Bench 3' is damaged; a new one takes its place, and needs a new approval." in told
    assert any("needs a new approval at each start" in each and f"{blocked}" in each for each in told)


@pytest.mark.parametrize("hours", [-1.0, 1.0, 24 * 400])
def test_a_clock_that_is_wrong_does_not_matter(play_multinode: Callable[..., NodeHost], hours: float) -> None:
    async def script(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await gateway.visit()  # the first one was counted by another clock; come again
        gateway.clock = hours * 3600
        visit.abort()
        await welcomed(gateway, host)

    play_multinode(script)


def test_another_gateway_at_the_same_address_gets_no_signature(tmp_path: Path) -> None:
    async def main() -> None:
        async with played_multinode() as gateway:
            host = make_host(gateway.url, tmp_path)
            running = asyncio.create_task(host.run())
            pending = await gateway.visit()  # not approved yet: nothing is pinned
            gateway.identity = "gateway-" + "b" * 32
            pending.abort()
            visit = await welcomed(gateway, host)
            gateway.identity = "gateway-" + "c" * 32
            visit.abort()
            assert await running == "refused"
            assert "another gateway (gateway-cccccccc…)" in str(host.last_error)
            assert "pairing link" in str(host.last_error) and "gateway-bbbbbbbb…" in str(host.last_error)
            later = make_host(gateway.url, tmp_path)  # another process knows it too
            assert await later.run() == "refused" and later.gateway_id == ""
            gateway.identity = "gateway-" + "b" * 32
            running = asyncio.create_task(later.run())
            await welcomed(gateway, later)
            later.stop()
            await running

    asyncio.run(main())


def test_a_pairing_link_names_the_gateway_to_sign_for(tmp_path: Path) -> None:
    async def main() -> None:
        async with played_multinode() as gateway:
            base = gateway.url.replace("ws://", "http://").removesuffix("/ws/gateway")
            wrong = make_host(f"{base}/node#join=t1&id=somebody-else", tmp_path / "a")
            assert wrong.url == gateway.url and await wrong.run() == "refused"
            assert "another gateway" in str(wrong.last_error)
            right = make_host(f"{base}/node#join=t1&id={gateway.identity}", tmp_path / "b")
            running = asyncio.create_task(right.run())
            visit = await gateway.visit()
            assert visit.connect["ticket"] == "t1"
            await visit.welcome()
            await until(lambda: right.status == "connected")
            visit.abort()
            visit = await gateway.visit()
            assert "ticket" not in visit.connect  # it let this node in already
            right.stop()
            await running
            gateway.identity = "moved"  # a new link for a new gateway at the old address
            moved = make_host(f"{base}/node#join=t2&id=moved", tmp_path / "b")
            running = asyncio.create_task(moved.run())
            visit = await welcomed(gateway, moved)
            assert visit.connect["ticket"] == "t2"
            moved.stop()
            await running
            plain = make_host(gateway.url, tmp_path / "b")
            running = asyncio.create_task(plain.run())
            await welcomed(gateway, plain)
            plain.stop()
            await running

    asyncio.run(main())


def test_ticks_go_out_and_two_missing_ones_mean_gone(play_multinode: Callable[..., NodeHost]) -> None:
    statuses: list[tuple[str, str | None]] = []

    async def script(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await welcomed(gateway, host, tick=0.1)
        for number in range(6):  # longer than two ticks: ours keep it alive
            await visit.send({"type": "tick", "ts": 1})
            await visit.wait_for(lambda frame: frame.get("type") == "tick", after=1 + number)
            await asyncio.sleep(0.1)
        assert host.status == "connected" and gateway.attempts == 1
        silent = time.monotonic()
        again = await gateway.visit()
        assert 0.1 < time.monotonic() - silent < 5
        ticks = [frame for frame in visit.frames if frame.get("type") == "tick"]
        assert len(ticks) >= 6 and abs(ticks[0]["ts"] / 1000 - time.time()) < 60
        await again.welcome()
        await until(lambda: host.status == "connected")

    play_multinode(script, on_status=lambda host: statuses.append((host.status, host.last_error)))
    assert any(status == "reconnecting" and "nothing was heard" in str(error) for status, error in statuses)


@pytest.mark.parametrize("code", [1000, 1001, 1006, 1011, 1012, 1013, 4008, 4009])
def test_these_ends_are_tried_again(play_multinode: Callable[..., NodeHost], code: int) -> None:
    async def script(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await welcomed(gateway, host)
        key = visit.key
        await visit.send({"type": "error", "code": "bad_frame", "message": "One of yours was odd."})
        if code == 1006:
            visit.abort()
        else:
            await visit.close(code, "reason\x1b[0m")
        assert (await welcomed(gateway, host)).key == key

    play_multinode(script)


@pytest.mark.parametrize(
    ("frame", "code", "status", "told"),
    [
        ({"code": "jwt_audience", "message": "Wrong aud.", "hint": "Sign again."}, 1008, "refused", "Wrong aud."),
        ({"code": "pairing_denied", "message": "Denied."}, 1008, "refused", "Denied."),
        ({"code": "revoked", "message": "Revoked."}, 4003, "refused", "Revoked."),
        (None, 4003, "refused", "revoked"),
        (None, 4001, "refused", "another process"),
        ({"code": "jwt_nonce", "message": "Old nonce.", "retryable": True}, 1008, "connected", ""),
    ],
)
@pytest.mark.parametrize("connected", [False, True])
def test_refusals(
    play_multinode: Callable[..., NodeHost], frame: Any, code: int, status: str, told: str, connected: bool
) -> None:
    async def script(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await (welcomed(gateway, host) if connected else gateway.visit())
        if frame is not None:
            await visit.send({"type": "error", **frame})
        await visit.close(code)
        if status == "refused":
            await until(lambda: host.status == "refused")
            assert told in str(host.last_error)
        else:
            await welcomed(gateway, host)

    play_multinode(script)


def test_calls_with_progress_cancel_and_errors(play_multinode: Callable[..., NodeHost]) -> None:
    ended: list[str] = []
    calls: list[tuple[str, str | None]] = []

    def scan(points: int = 3) -> list[int]:
        for point in range(points):
            progress(point / points, f"point {point}")
        return list(range(points))

    begun = asyncio.Event()

    async def watch() -> None:
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            ended.append(this_node().name)

    def broken() -> None:
        raise OSError("bulb")

    async def script(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await welcomed(gateway, host)
        answer = await visit.invoke(id="c1", command="scan", params={"points": "4"}, timeout_ms=5000)
        assert answer == {"type": "node.invoke.result", "id": "c1", "ok": True, "result": [0, 1, 2, 3]}
        [*_, last] = [frame for frame in visit.frames if frame.get("type") == "node.invoke.progress"]
        assert last["id"] == "c1" and last["message"] == "point 3" and last["fraction"] == 0.75
        assert (await visit.invoke(id=7, command="scan"))["result"] == [0, 1, 2]
        wrong = await visit.invoke(command="scan", params={"points": "x"})
        assert wrong["ok"] is False and wrong["error"]["code"] == "invalid_params"
        assert "points" in wrong["error"]["message"]
        assert (await visit.invoke(command="nothing"))["error"]["code"] == "unknown_command"
        failed = (await visit.invoke(command="broken"))["error"]
        assert failed["message"] == "OSError: bulb" and failed["code"] == "capability_failed"
        assert (await visit.invoke(command="watch", timeout_ms=50))["error"]["code"] == "deadline"
        begun.clear()
        waiting = asyncio.create_task(visit.invoke(id="c2", command="watch"))
        await begun.wait()
        await visit.send({"type": "node.invoke.request", "id": "c3", "node_id": "node-1", "command": "scan"})
        await visit.send({"type": "node.invoke.cancel", "id": "c2"})
        assert (await waiting)["error"]["code"] == "cancelled"
        assert ended == ["Bench 3", "Bench 3"]
        for odd in (None, [], {"a": 1}):
            await visit.send({"type": "node.invoke.request", "id": odd, "command": "scan"})
        assert (await visit.invoke(agent="hello"))["error"]["code"] == "no_agent"
        assert await visit.alive() and gateway.attempts == 1

    play_multinode(
        script, capabilities=[scan, watch, broken], on_call=lambda name, _, error: calls.append((name, error))
    )
    assert ("scan", None) in calls and ("broken", "OSError: bulb") in calls


def test_a_chat_with_all_that_comes_along(play_multinode: Callable[..., NodeHost]) -> None:
    turns: list[Turn] = []

    def answer(turn: Turn) -> Iterator[Any]:
        turns.append(turn)
        yield f"{turn.message}: "
        yield turn.attachments[0].path.read_text()
        yield {"type": "CUSTOM", "name": "n", "value": 1}
        yield " end"

    async def script(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await welcomed(gateway, host)
        file = {"name": "a.txt", "media_type": "text/plain", "base64": base64.b64encode(b"inside").decode()}
        turn = {
            "history": [{"role": "user", "content": "before"}],
            "note": "who asks",
            "chain": ["node-0", "node-1"],
            "is_remote_session": False,  # no place for it: the frame's own field counts
            "run_id": "another",
        }
        await visit.chat(
            "r1", "hello", attachments=[file], caller={"kind": "wizard", "name": "b\x1bob"}, turn=turn,
            is_remote_session=True,
        )  # fmt: skip
        events = await visit.ended_run("r1")
        text = "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")
        assert text == "hello: inside end"
        assert events[-1] == {"type": "RUN_FINISHED", "threadId": "s1", "runId": "r1"}
        [seen] = turns
        assert (seen.run_id, seen.conversation_id, seen.is_remote_session) == ("r1", "s1", True)
        assert (seen.caller.kind, seen.caller.name, seen.note) == ("user", "bob", "who asks")
        assert seen.history[0].content == "before" and seen.chain == ["node-0", "node-1"]
        await until(lambda: not seen.attachments[0].path.exists())
        # What can't be used ends that run and no other.
        many = [file] * 9
        for number, odd in enumerate([many, "x", [{"name": "x", "base64": "%%%"}], [5]]):
            await visit.chat(f"o{number}", "hello", attachments=odd)
            assert (await visit.ended_run(f"o{number}"))[-1]["code"] == "invalid_params"
        await visit.chat("o9", 5)  # type: ignore[arg-type]
        assert (await visit.ended_run("o9"))[-1]["type"] == "RUN_ERROR"
        await visit.chat("r2", "again", attachments=[file])
        assert (await visit.ended_run("r2"))[-1]["type"] == "RUN_FINISHED"
        assert turns[-1].is_remote_session is False

    play_multinode(script, agent=answer)


def test_a_chat_that_says_nothing_of_who_asks_is_somebody_elses(play_multinode: Callable[..., NodeHost]) -> None:
    async def script(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await welcomed(gateway, host)
        await visit.send({"type": "chat.run", "run_id": "r", "session_id": "s", "message": "m"})
        events = await visit.ended_run("r")
        assert events[1]["delta"] == "True"

    play_multinode(script, agent=lambda is_remote_session: str(is_remote_session))


def test_a_thousand_deltas_in_order_beside_another_run(play_multinode: Callable[..., NodeHost]) -> None:
    async def answer(message: str) -> AsyncIterator[str]:
        for number in range(1000):
            yield f"{message}{number} "

    async def script(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await welcomed(gateway, host)
        for run_id in ("a", "b"):
            await visit.chat(run_id, run_id)
        for run_id in ("a", "b"):
            events = await visit.ended_run(run_id)
            deltas = [event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT"]
            assert deltas == [f"{run_id}{number} " for number in range(1000)]

    play_multinode(script, agent=answer)


@pytest.mark.parametrize("form", ["async", "generator"])
def test_aborting_ends_the_function(play_multinode: Callable[..., NodeHost], form: str) -> None:
    lasting = Lasting(form)

    async def script(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await welcomed(gateway, host)
        await visit.chat("r", "go")
        await visit.wait_for(lambda frame: frame.get("event", {}).get("type") == "TEXT_MESSAGE_CONTENT")
        await visit.send({"type": "chat.abort", "run_id": "other"})
        await visit.send({"type": "node.invoke.cancel", "id": "r"})  # a run is no call
        assert await visit.alive() and not lasting.ended
        await visit.send({"type": "chat.abort", "run_id": "r"})
        assert (await visit.ended_run("r"))[-1] == {
            "type": "RUN_ERROR", "message": "The call was cancelled.", "code": "cancelled",
        }  # fmt: skip
        await until(lambda: lasting.ended == [form])

    play_multinode(script, agent=lasting.function)


def test_an_agent_that_fails_and_a_node_without_one(play_multinode: Callable[..., NodeHost]) -> None:
    def answer() -> Iterator[str]:
        yield "so far"
        raise OSError("the lens cap is on")

    async def fails(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await welcomed(gateway, host)
        await visit.chat("r", "go")
        *_, end, error = await visit.ended_run("r")
        assert end["type"] == "TEXT_MESSAGE_END"
        assert (error["code"], error["message"]) == ("agent_failed", "answer raised OSError: the lens cap is on")
        assert (await visit.invoke(agent="hello"))["error"]["code"] == "agent_failed"

    async def has_none(gateway: PlayedMultinode, host: NodeHost) -> None:
        visit = await welcomed(gateway, host)
        assert visit.connect["node"]["agent"] is False
        await visit.chat("r", "go")
        [error] = await visit.ended_run("r")
        assert error["code"] == "no_agent"

    play_multinode(fails, agent=answer)
    play_multinode(has_none)


def test_asking_other_nodes(play_multinode: Callable[..., NodeHost]) -> None:
    async def relay(message: str) -> str:
        return str(await this_node().ask("GPU box", message)) + str(await this_node().ainvoke("Phone", "camera.snap"))

    async def script(gateway: PlayedMultinode, host: NodeHost) -> None:
        with pytest.raises(SuzentError, match="not connected"):
            await host.ainvoke("Phone", "x")
        visit = await welcomed(gateway, host)
        with pytest.raises(SuzentError, match="no events"):
            host.send_event("motion")

        async def asked(**fields: Any) -> dict[str, Any]:
            return await visit.wait_for(
                lambda frame: (
                    frame.get("type") == "node.invoke.request"
                    and all(frame.get(name) == value for name, value in fields.items())
                )
            )

        heard: list[Any] = []
        call = asyncio.create_task(
            host.ainvoke("Phone", "snap", {"at": Path("/x")}, timeout=5, on_progress=lambda *each: heard.append(each))
        )
        frame = await asked(command="snap")
        assert (frame["node_id"], frame["params"], frame["timeout_ms"]) == ("Phone", {"at": "/x"}, 5000)
        assert "run_id" not in frame and "agent" not in frame
        await visit.send({"type": "node.invoke.progress", "id": frame["id"], "fraction": 0.5, "message": "half"})
        await visit.send({"type": "node.invoke.result", "id": frame["id"], "ok": True, "result": {"size": 3}})
        assert await call == {"size": 3} and heard == [(0.5, "half", None)]

        call = asyncio.create_task(host.ainvoke("Nobody", "snap2"))
        frame = await asked(command="snap2")
        error = {"code": "node_not_found", "message": "Node 'Nobody' not found.\x1b[0m", "hint": "Look."}
        await visit.send({"type": "node.invoke.result", "id": frame["id"], "ok": False, "error": error})
        with pytest.raises(SuzentError, match="not found") as caught:
            await call
        assert (caught.value.code, caught.value.hint) == ("node_not_found", "Look.")

        call = asyncio.create_task(host.ainvoke("Phone", "snap3"))
        frame = await asked(command="snap3")
        await visit.send({"type": "error", "id": frame["id"], "code": "too_large", "message": "Less."})
        with pytest.raises(SuzentError, match=r"Less\."):
            await call
        assert host.status == "connected"

        call = asyncio.create_task(host.ainvoke("Phone", "snap4"))
        frame = await asked(command="snap4")
        call.cancel()
        assert (await visit.next("node.invoke.cancel"))["id"] == frame["id"]

        listing = asyncio.create_task(host.nodes())
        frame = await visit.next("node.list")
        await visit.send({"type": "node.list", "id": frame["id"], "nodes": [{"node_id": "n"}, 5]})
        assert await listing == [{"node_id": "n"}]

        elsewhere = asyncio.create_task(asyncio.to_thread(asyncio.run, host.ask("GPU box", "from a thread")))
        frame = await asked(agent="from a thread")
        await visit.send({"type": "node.invoke.result", "id": frame["id"], "ok": True, "result": "hi"})
        assert await elsewhere == "hi"

        # Inside a turn the calls are the run's.
        await visit.chat("r1", "think")
        frame = await asked(agent="think")
        assert (frame["node_id"], frame["run_id"]) == ("GPU box", "r1") and "command" not in frame
        await visit.send({"type": "node.invoke.result", "id": frame["id"], "ok": True, "result": "thought "})
        frame = await asked(command="camera.snap")
        assert frame["run_id"] == "r1"
        await visit.send({"type": "node.invoke.result", "id": frame["id"], "ok": True, "result": 3})
        events = await visit.ended_run("r1")
        assert events[1]["delta"] == "thought 3"

        # Aborting the run cancels what it asked.
        await visit.chat("r2", "long")
        frame = await asked(agent="long")
        await visit.send({"type": "chat.abort", "run_id": "r2"})
        await visit.wait_for(lambda each: each.get("type") == "node.invoke.cancel" and each["id"] == frame["id"])

        call = asyncio.create_task(host.ainvoke("Phone", "snap5"))
        await asked(command="snap5")
        visit.abort()
        with pytest.raises(SuzentError, match="ended") as caught:
            await call
        assert caught.value.code == "node_disconnected"

    play_multinode(script, agent=relay)


def test_only_nodes_of_this_protocol_ask(tmp_path: Path) -> None:
    async def main() -> None:
        host = NodeHost("127.0.0.1:1", capabilities=[], vault=TokenVault(tmp_path, keyring=False))
        with pytest.raises(RuntimeError, match="multinode"):
            await host.ask("a", "b")
        with pytest.raises(RuntimeError, match="inside a capability"):
            this_node()

    asyncio.run(main())
    with pytest.raises(ValueError, match="no protocol"):
        NodeHost("127.0.0.1:1", capabilities=[], protocol="carrier pigeon")  # type: ignore[arg-type]


def test_the_key_is_shown_nowhere(tmp_path: Path) -> None:
    host = make_host("127.0.0.1:1", tmp_path)
    assert host.url == "ws://127.0.0.1:1/ws/gateway"
    token = host.credentials.prove(Challenge(nonce="n", ts=0, aud="g"))
    secret = host.vault.get(f"key:{host.url}:Bench 3")
    assert secret and secret not in repr(host.credentials) + str(vars(host.credentials)) + token
