"""A device that is an agent: its function, the frames, its approval, and its end in the middle of an answer."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agent_turns import ADA, TURN, Answering, chosen
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.hosts import joined
from support.lasting import Lasting
from support.running import until

from suzent_jupyter.gateway.principals import Authority, Grant, Principal
from suzent_jupyter.node import agent, capability
from suzent_jupyter.node.capability import registry
from suzent_jupyter.protocol.agents import Turn, TurnAttachment, TurnMessage


def test_a_turn_streams_from_the_device(gateway: ThreadedGateway, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("file of the turn")
    paths: list[Path] = []

    def answer(turn: Turn) -> Iterator[Any]:
        """Say what the turn holds."""
        paths.extend(each.path for each in turn.attachments)
        yield f"{turn.message} {turn.history[0].content} {turn.caller.kind} "
        yield f"{turn.attachments[0].path.read_text()} {turn.attachments[0].name}\u2028"
        yield {"type": "CUSTOM", "name": "n", "value": 1}
        yield from (f"{number} " for number in range(2000))

    turn = Turn(
        run_id="r1",
        conversation_id="c1",
        message="hello \u2028",
        history=[TurnMessage(role="user", content="before")],
        attachments=[TurnAttachment(name="a.txt", media_type="text/plain", size=16, path=tmp_path / "a.txt")],
    )

    async def main() -> None:
        async with gateway.http() as http, joined(gateway, tmp_path, agent=answer) as host:
            assert host.approved == ["agent.run"]
            [node] = (await http.get("/nodes")).json()["nodes"]
            assert node["capabilities"][0]["description"] == "Say what the turn holds."
            assert "agent" in node["features"]
            assert chosen(gateway) == "Bench"
            answering = Answering(gateway, turn)
            events = await answering.end()
            assert answering.text == "hello \u2028 before user file of the turn a.txt\u2028" + "".join(
                f"{number} " for number in range(2000)
            )
            kinds = [event.type.value for event in events]
            assert kinds[:6] == [
                "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "CUSTOM",
                "TEXT_MESSAGE_START",
            ]  # fmt: skip
            await until(lambda: not paths[0].parent.exists())
            [row] = [row for row in (await http.get("/audit")).json()["entries"] if row["command"] == "agent.run"]
            assert row["outcome"] == "ok" and row["origin"] == {"run_id": "r1"}

    asyncio.run(main())


def test_anybody_may_call_it_for_its_text(gateway: ThreadedGateway, tmp_path: Path) -> None:
    async def answer(message: str) -> AsyncIterator[Any]:
        yield f"You said {message}"
        yield {"type": "STEP_STARTED", "stepName": "look"}
        yield "and more"

    async def main() -> None:
        async with gateway.http() as http, joined(gateway, tmp_path, agent=answer) as host:
            url = f"/nodes/{host.node_id}/invoke"
            answered = await http.post(url, json={"command": "agent.run", "params": {"message": "hi"}})
            assert answered.json() == {"success": True, "result": "You said hi\n\nand more", "error": None}
            assert (await http.post(url, json={"command": "agent.run", "params": {}})).status_code == 422
            wrong = await http.post(url, json={"command": "agent.run", "params": {"message": "hi", "history": 5}})
            assert wrong.json()["success"] is False and "history" in wrong.json()["error"]

    asyncio.run(main())


def test_it_fails_and_goes_on(gateway: ThreadedGateway, tmp_path: Path) -> None:
    def answer(message: str) -> Iterator[str]:
        yield "so far"
        raise OSError("the lens cap is on\nand more")

    async def main() -> None:
        async with joined(gateway, tmp_path, agent=answer):
            answering = Answering(gateway)
            error = await answering.failure()
            assert (error.code, error.message) == ("agent_failed", "answer raised OSError: the lens cap is on")
            assert answering.text == "so far" and answering.events[-1].type == "TEXT_MESSAGE_END"
            assert chosen(gateway) == "Bench"

    asyncio.run(main())


@pytest.mark.parametrize("form", ["async", "generator", "progress"])
def test_cancelling_reaches_the_function(gateway: ThreadedGateway, tmp_path: Path, form: str) -> None:
    lasting = Lasting(form)

    async def main() -> None:
        async with joined(gateway, tmp_path, agent=lasting.function) as host:
            answering = Answering(gateway)
            session = gateway.service.gateway.registry.by_id(str(host.node_id))
            assert session is not None
            await until(lambda: session.calls and (lasting.begun.is_set() or answering.text))
            answering.cancel()
            await until(lambda: lasting.ended == [form])
            await until(lambda: not session.calls)

    asyncio.run(main())


def test_a_device_that_goes_in_the_middle(gateway: ThreadedGateway, tmp_path: Path) -> None:
    async def answer() -> AsyncIterator[str]:
        yield "a"
        await asyncio.sleep(30)

    async def main() -> None:
        async with joined(gateway, tmp_path, agent=answer):
            answering = Answering(gateway)
            await until(lambda: answering.text == "a")
        assert (await answering.failure()).code == "node_disconnected"
        assert chosen(gateway) == "no_agent"

    asyncio.run(main())


def test_only_an_approved_agent_that_is_not_paused_or_denied_is_asked(gateway: ThreadedGateway, tmp_path: Path) -> None:
    def look() -> int:
        return 1

    def answer() -> str:
        return "here"

    async def main() -> None:
        async with gateway.http() as http:
            async with joined(gateway, tmp_path / "one", capabilities=[look]):
                assert chosen(gateway) == "no_agent"
            async with joined(gateway, tmp_path / "one", capabilities=[look], agent=answer) as host:
                assert host.pending_approval == ["agent.run"]
                assert chosen(gateway) == "no_agent"
                heard: list[str] = []
                gateway.service.gateway.agents.appeared.append(lambda: heard.append(chosen_there(gateway)))
                host.update([look])
                await until(lambda: "agent.run" in host.pending_approval)  # still offered
                [waiting] = (await http.get("/nodes/pending")).json()["pending"]
                await gateway.approve(waiting["pairing_code"])
                await until(lambda: chosen(gateway) == "Bench")
                await until(lambda: "Bench" in heard)  # what waits for an agent looks again
                status = f"/nodes/devices/{host.node_id}/status"
                await http.post(status, json={"status": "paused"})
                assert chosen(gateway) == "no_agent"
                await http.post(status, json={"status": "active"})
                assert chosen(gateway) == "Bench"
                await http.post("/nodes/config", json={"denied_commands": ["agent.*"]})
                assert chosen(gateway) == "no_agent"

    asyncio.run(main())


def chosen_there(gateway: ThreadedGateway) -> str:
    """As ``chosen``, on the gateway's own loop."""
    agents = gateway.service.gateway.agents
    return agents.choose(ADA).name if agents.available(ADA) else "no_agent"


def test_a_grant_of_the_agent_alone_reaches_the_agent_of_a_device(gateway: ThreadedGateway, tmp_path: Path) -> None:
    def answer() -> str:
        return "here"

    async def main() -> None:
        async with gateway.http() as http, joined(gateway, tmp_path, agent=answer):
            peer = Principal(Authority.AGENT, "ada", actor="token:x", grant=Grant(devices=False))
            answering = Answering(gateway, TURN, peer)
            await answering.end()
            assert answering.text == "here"
            [row] = [row for row in (await http.get("/audit")).json()["entries"] if row["command"] == "agent.run"]
            assert row["actor"] == "token:x"
            assert chosen(gateway, Principal(Authority.AGENT, "bob", grant=Grant())) == "no_agent"

    asyncio.run(main())


def test_the_newest_device_is_asked(gateway: ThreadedGateway) -> None:
    async def main() -> None:
        async with BareDevice(gateway.node_url, "One", [{"name": "agent.run"}]) as one:
            await gateway.pair(one)
            async with BareDevice(gateway.node_url, "Two", [{"name": "agent.run"}]) as two:
                await gateway.pair(two)
                assert chosen(gateway) == "Two"
            await until(lambda: chosen(gateway) == "One")

    asyncio.run(main())


@pytest.mark.parametrize("features", [None, ["cancel"]])
def test_the_text_of_a_device_that_streams_nothing_is_one_message(
    gateway: ThreadedGateway, features: list[str] | None
) -> None:
    seen: list[dict[str, Any]] = []

    def answer(command: str, params: dict[str, Any]) -> Any:
        seen.append(params)
        return f"You said {params['message']}\u2028"

    declared = {"name": "agent.run", "params_schema": {"message": "str", "note": "str"}}
    connect = {} if features is None else {"features": features}

    async def main() -> None:
        async with BareDevice(gateway.node_url, "Old", [declared], **connect) as device:
            await gateway.pair(device)
            device.answer(answer)
            answering = Answering(gateway)
            events = await answering.end()
            assert answering.text == "You said hello\u2028" and len(events) == 3
            assert seen == [{"message": "hello", "note": ""}]  # it may fail on what it does not declare

    asyncio.run(main())


@pytest.mark.parametrize(
    ("frames", "code", "said"),
    [
        ([{"seq": 0, "event": {"type": "NO_SUCH"}}], "agent_failed", "type is unknown"),
        ([{"seq": 1, "event": {"type": "STEP_STARTED", "stepName": "x"}}], "agent_failed", "lost"),
        ([{"event": {"type": "STEP_STARTED", "stepName": "x"}}], "agent_failed", "lost"),
        ([{"seq": 0}], "agent_failed", "type is unknown"),
        ([{"seq": 0, "event": {"type": "STEP_STARTED", "stepName": "x" * 2**20}}], "turn_limit", "agent_event_bytes"),
        ([{"seq": 0, "event": {"type": "STEP_STARTED", "stepName": "\ud800"}}, {"seq": 1}], "agent_failed", "lost"),
    ],
)
def test_frames_that_can_not_be_used_end_the_turn(
    gateway: ThreadedGateway, frames: list[dict[str, Any]], code: str, said: str
) -> None:
    async def main() -> None:
        async with BareDevice(gateway.node_url, "Odd", [{"name": "agent.run"}], features=["agent", "cancel"]) as device:
            await gateway.pair(device)
            answering = Answering(gateway)
            call = await device.recv("invoke")
            assert call["params"]["stream"] is True and call["params"]["message"] == "hello"
            for frame in frames:
                await device.send(json.dumps({"type": "agent.event", "request_id": call["request_id"], **frame}))
            error = await answering.failure()
            assert error.code == code and said in error.message
            assert (await device.recv("cancel"))["request_id"] == call["request_id"]
            # Events of a call that is over, or of none, harm nobody.
            await device.send({"type": "agent.event", "request_id": call["request_id"], "seq": 2, "event": {}})
            await device.send({"type": "agent.event", "request_id": 7, "seq": 0, "event": {}})
            assert chosen(gateway) == "Odd"

    asyncio.run(main())


def test_what_does_not_fit_into_a_frame_is_left_out(gateway: ThreadedGateway, tmp_path: Path) -> None:
    large = tmp_path / "large.bin"
    large.write_bytes(b"x" * 9 * 2**20)
    turn = Turn(
        run_id="r1",
        conversation_id="c1",
        message="hello",
        note="who asks",
        history=[TurnMessage(role="user", content=f"{number}" + "x" * 2**20) for number in range(30)],
        attachments=[
            TurnAttachment(name="large.bin", media_type="", size=9 * 2**20, path=large),
            TurnAttachment(name="gone.bin", media_type="", size=5, path=tmp_path / "gone.bin"),
        ],
    )

    async def main() -> None:
        async with BareDevice(gateway.node_url, "Phone", [{"name": "agent.run"}], features=["agent"]) as device:
            await gateway.pair(device)
            answering = Answering(gateway, turn)
            params = (await device.recv("invoke"))["params"]
            assert params["attachments"] == [] and params["note"].startswith("who asks\nLeft out")
            assert "large.bin (9,437,184 bytes), gone.bin (5 bytes)" in params["note"]
            assert 20 <= len(params["history"]) < 25 and params["history"][-1]["content"].startswith("29")
            answering.cancel()

    asyncio.run(main())


def test_declaring(gateway: ThreadedGateway, tmp_path: Path) -> None:
    @agent(name="bench")
    def answer(message: str) -> str:
        """Talk about the bench."""
        return f"bench: {message}"

    @capability
    def look() -> int:
        return 1

    assert answer("hi") == "bench: hi"
    assert set(registry) == {"agent.run", "look"}

    async def main() -> None:
        async with joined(gateway, tmp_path) as host:
            assert host.approved == ["agent.run", "look"]
            answering = Answering(gateway)
            await answering.end()
            assert answering.text == "bench: hello"

    asyncio.run(main())
    with pytest.raises(TypeError, match="nothing for the parameter"):
        agent(lambda message, what: "")


def test_a_module_of_the_command_line(gateway: ThreadedGateway, tmp_path: Path) -> None:
    """``sz.agent`` in a module of a device declares: it looks for no gateway as it would in a notebook."""
    module = tmp_path / "bench.py"
    module.write_text(
        "import suzent_jupyter as sz\n\n@sz.agent\ndef answer(message: str, turn: sz.Turn):\n"
        "    yield f'bench: {message} {turn.run_id}'\n"
    )
    command = [
        sys.executable,
        "-m",
        "suzent_jupyter.cli",
        "node",
        "host",
        "--module",
        str(module),
        "--no-builtin",
        "--json",
    ]
    command += ["--url", gateway.url, "--name", "Bench", "--vault-dir", str(tmp_path / "vault")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                facts = json.loads(line)
                if facts.get("status") == "pending":
                    asyncio.run(gateway.approve(facts["pairing_code"]))
                if facts.get("status") == "connected":
                    break
            answering = Answering(gateway, TURN, ADA)
            answering.wait()
            assert answering.text == "bench: hello r1"
        finally:
            process.terminate()
            process.wait(20)
