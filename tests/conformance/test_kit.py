"""The kit on ourselves, and on others that do things wrong: it must tell them apart."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import websockets
from support.gateways import ThreadedGateway
from websockets.asyncio.server import ServerConnection, serve

from suzent_jupyter.cli.conformance import report
from suzent_jupyter.cli.conformance.grant_rules import event_types
from suzent_jupyter.cli.conformance.operator import base_url_of, own_token
from suzent_jupyter.cli.conformance.rules import Broken, RuleResult, Unreachable
from suzent_jupyter.cli.conformance.run import GATEWAY_RULES, NODE_RULES, run_against_gateway, run_against_node
from suzent_jupyter.node import Backoff, NodeHost, TokenVault, progress
from suzent_jupyter.node.capability import Capability

CLI = (
    "import typer; from suzent_jupyter.cli import conformance; app = typer.Typer(); node = typer.Typer(); "
    "conformance.register(app, node); app.command('x')(lambda: None); app()"
)


def cli(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", CLI, "conformance", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)


def broken(results: list[RuleResult]) -> dict[str, str]:
    return {result.id: result.seen for result in results if result.status == "broken"}


def status(results: list[RuleResult]) -> dict[str, str]:
    return {result.id: result.status for result in results}


def test_rules_are_data() -> None:
    for rules in (GATEWAY_RULES, NODE_RULES):
        ids = [rule.id for rule in rules]
        assert len(set(ids)) == len(ids) >= 20
        assert all(rule.sentence.endswith(".") and rule.section and rule.level in ("must", "should") for rule in rules)


def test_our_gateway_keeps_every_rule(gateway: ThreadedGateway) -> None:
    results = asyncio.run(run_against_gateway(gateway.node_url, token=gateway.token))
    assert broken(results) == {}
    assert {result.id for result in results if result.status == "skipped"} == {"first.silence", "result.large"}

    async def left() -> Any:
        async with gateway.http() as http:
            return (await http.get("/nodes")).json()["count"], (await http.get("/nodes/pending")).json()["count"]

    assert asyncio.run(left()) == (0, 0)


def test_without_an_operator_the_rest_is_looked_at(
    gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SUZENT_BASE_URL", raising=False)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    results = asyncio.run(run_against_gateway(gateway.node_url))
    assert broken(results) == {} and report.passed(results)
    found = status(results)
    assert found["pending.shape"] == found["first.array"] == "kept"
    skipped = [result for result in results if result.status == "skipped" and result.id != "first.silence"]
    assert len(skipped) > 20 and all("--token" in result.seen for result in skipped if result.id != "result.large")


def echo(text: str = "") -> str:
    return text


def slow(seconds: float = 2.5) -> str:
    for step in range(100):
        progress(step / 100)
        time.sleep(seconds / 100)
    return "done"


def test_our_device_keeps_every_rule(tmp_path: Path) -> None:
    hosts: list[NodeHost] = []
    tasks: list[asyncio.Task[str]] = []

    def start(url: str) -> None:
        host = NodeHost(
            url,
            name="Bench",
            capabilities=[Capability.of(echo), Capability.of(slow)],
            vault=TokenVault(tmp_path, keyring=False),
            backoff=Backoff(0.2, 0.4),
        )
        hosts.append(host)
        tasks.append(asyncio.get_running_loop().create_task(host.run()))

    async def main() -> list[RuleResult]:
        results = await run_against_node(on_listening=start, slow_command="slow")
        assert await asyncio.wait_for(tasks[0], 10) == "refused"
        return results

    results = asyncio.run(main())
    assert broken(results) == {}
    assert {result.id for result in results if result.status == "skipped"} == {"reconnect.delays"}


async def _simple_device(url: str) -> None:
    """A device as people write it in an afternoon: one call at a time, and no way back."""
    capabilities = [{"name": "echo", "description": "Echo", "params_schema": {}}, {"name": "slow"}]
    connect = {"type": "connect", "display_name": "TV", "platform": "tv", "capabilities": capabilities}
    with contextlib.suppress(ValueError, websockets.ConnectionClosedOK):
        async with websockets.connect(url) as socket:
            await socket.send(json.dumps(connect))
            waiting: list[str | bytes] = []
            while True:
                frame = json.loads(waiting.pop() if waiting else await socket.recv())
                if frame["type"] == "ping":
                    await socket.send('{"type": "pong"}')
                elif frame["type"] == "invoke":
                    if frame["command"] == "slow":
                        with contextlib.suppress(TimeoutError):
                            waiting.append(await asyncio.wait_for(socket.recv(), 1.5))
                            await asyncio.sleep(1.1)  # the second that the kit allows starts with that frame
                    known = frame["command"] in ("echo", "slow")
                    answer = {"success": True, "result": 1} if known else {"success": False, "error": "unknown"}
                    for _ in range(2):
                        await socket.send(json.dumps({"type": "result", "request_id": frame["request_id"], **answer}))


def test_a_simple_device_is_told_what_it_misses() -> None:
    tasks: list[asyncio.Task[None]] = []

    def start(url: str) -> None:
        tasks.append(asyncio.get_running_loop().create_task(_simple_device(url)))

    results = asyncio.run(run_against_node(on_listening=start, wait=2, slow_command="slow"))
    found = status(results)
    assert found["connect.first"] == found["invoke.unknown"] == found["ping.pong"] == "kept"
    assert found["connect.capabilities"] == found["socket.compression"] == found["invoke.concurrent"] == "broken"
    assert found["frames.garbage"] == found["invoke.once"] == "broken" and found["cancel.honoured"] == "skipped"
    assert found["token.sent"] == found["refusal.final"] == "skipped"  # it was gone by then
    assert not report.passed(results)


@contextlib.asynccontextmanager
async def _careless_gateway() -> AsyncIterator[str]:
    """A gateway that takes anybody and reads anything."""

    async def handle(socket: ServerConnection) -> None:
        async for _ in socket:
            await socket.send('{"type": "connected", "node_id": "x", "device_token": ""}')

    async with serve(handle, "127.0.0.1", 0) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/ws/node"


def test_a_careless_gateway_is_told_what_it_misses() -> None:
    async def main() -> list[RuleResult]:
        async with _careless_gateway() as url:
            return await run_against_gateway(url)

    results = asyncio.run(main())
    found = broken(results)
    assert {"pending.shape", "token.unknown", "first.text", "first.array", "socket.compression"} <= set(found)
    assert "'connected'" in found["pending.shape"] and not report.passed(results)
    assert len(results) == len(GATEWAY_RULES)


@pytest.mark.parametrize(
    "stream",
    [
        'data: {"type": "RUN_FINISHED"}\n',
        'data: {"type": "RUN_STARTED"}\ndata: {"type": "RUN_FINISHED"}\n\n',
        'event: x\ndata: {"type": "RUN_FINISHED"}\n\n',
        '{"type": "RUN_FINISHED"}\n\n',
    ],
)
def test_a_stream_without_its_framing_is_told(stream: str) -> None:
    with pytest.raises(Broken):
        event_types(stream)
    good = ': still here\n\nid: 1\ndata: {"type": "RUN_STARTED"}\n\ndata: {"type": "RUN_FINISHED"}\n\ndata: [DONE]\n\n'
    assert event_types(good) == ["RUN_STARTED", "RUN_FINISHED"]


def test_nobody_there() -> None:
    with pytest.raises(Unreachable, match="no device connected"):
        asyncio.run(run_against_node(wait=0.05))
    with pytest.raises(Unreachable, match="does not open a WebSocket"):
        asyncio.run(run_against_gateway("127.0.0.1:1"))


def test_the_command_line(gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nobody = cli("ws://127.0.0.1:1")
    assert (nobody.returncode, nobody.stdout) == (2, "") and nobody.stderr.startswith("Error: ws://127.0.0.1:1/ws/node")
    assert cli("ftp://x").returncode == 2 and cli("--node", "--wait", "0.05").returncode == 2
    assert cli("--node", "--params", "[").returncode == 2
    monkeypatch.delenv("SUZENT_BASE_URL", raising=False)
    plain = cli(gateway.url.replace("http", "ws"))  # this user's: its token is known
    assert plain.returncode == 0 and plain.stderr == "" and gateway.token not in plain.stdout
    assert "✓ invoke.unknown" in plain.stdout and "--token" not in plain.stdout
    assert "✓ pending.shape" in plain.stdout and " kept, 0 broken" in plain.stdout.splitlines()[-1]
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("SUZENT_BASE_URL", gateway.url.replace("://", f"://suzent:{gateway.token}@"))
    full = cli("--json")
    found = json.loads(full.stdout)
    assert full.returncode == 0 and found["ok"] is True and gateway.token not in full.stdout
    assert {"id", "sentence", "section", "level", "legacy", "status", "seen", "seconds"} == set(found["rules"][0])
    assert {rule["status"] for rule in found["rules"] if rule["id"].startswith("invoke.")} == {"kept"}


def test_a_token_is_shown_to_its_own_gateway_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert base_url_of("wss://h:1/user/a%40b/suzent/ws/node") == "https://h:1/user/a%40b/suzent"
    monkeypatch.setenv("SUZENT_BASE_URL", "http://suzent:szt_x@127.0.0.1:25314")
    assert own_token("http://127.0.0.1:25314") == "szt_x"
    assert own_token("http://127.0.0.1:25315") == ""
    assert own_token("http://evil.example:25314") == ""
    monkeypatch.delenv("SUZENT_BASE_URL")
    assert own_token("http://127.0.0.1:25314") == ""
    assert os.environ.get("SUZENT_BASE_URL") is None


def test_a_running_gateway_of_this_user_needs_no_token_named(gateway: ThreadedGateway) -> None:
    assert own_token(base_url_of(gateway.node_url)) == gateway.token
    assert own_token(f"http://127.0.0.1:{(gateway.service.port or 0) + 1}") == ""
