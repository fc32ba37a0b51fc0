"""`jupyter suzent node host` as a process of its own, against a gateway the test plays."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.hosts import HOST_COMMAND
from support.played_multinode import played_multinode

from suzent_jupyter.cli.conformance.played_gateway import played_gateway

MODULE = '''
from suzent_jupyter.node import capability

@capability("lamp.set")
def lamp(level: int, secret: str = "") -> int:
    """Set the lamp."""
    return level

@capability("lamp.break")
def broken() -> None:
    raise RuntimeError("bulb")
'''


@asynccontextmanager
async def process(tmp_path: Path, *arguments: str) -> AsyncIterator[asyncio.subprocess.Process]:
    running = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        HOST_COMMAND,
        "node",
        "host",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=tmp_path,
        env={**os.environ, "SUZENT_KEYRING": "off", "SUZENT_DATA_DIR": str(tmp_path / "data"), "NO_COLOR": "1"},
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


async def line(running: asyncio.subprocess.Process) -> str:
    assert running.stdout is not None
    return (await asyncio.wait_for(running.stdout.readline(), 30)).decode()


def test_the_life_of_a_host_on_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "my_caps.py").write_text(MODULE)

    async def main() -> None:
        async with played_gateway() as gateway:
            address = gateway.url.removeprefix("ws://").removesuffix("/ws/node")
            options = (
                "--url",
                address,
                "--module",
                "my_caps.py",
                "--no-builtin",
                "--tag",
                "lab",
                "--description",
                "Lamp",
            )
            async with process(tmp_path, *options) as host:
                assert f"Connecting to {gateway.url} as 'Local PC' (lamp.set, lamp.break)" in await line(host)
                visit = await gateway.visit()
                assert visit.connect_frame["tags"] == ["lab"] and visit.connect_frame["description"] == "Lamp"
                await visit.send({"type": "pending", "pairing_code": "K7M2QX", "message": "x"})
                waiting = await line(host)
                assert "jupyter suzent node approve K7M2QX" in waiting and "%suzent approve K7M2QX" in waiting
                await visit.welcome(token="szt_secret", node_id="node-1", pending_approval=["lamp.break"])
                assert await line(host) == "Connected as node-1; waiting for approval: lamp.break\n"
                assert (await visit.invoke("lamp.set", {"level": 3, "secret": "hush"}))["result"] == 3
                called = await line(host)
                assert called.startswith("lamp.set ") and called.endswith(" ms ok\n") and "hush" not in called
                await visit.invoke("lamp.break")
                assert (await line(host)).endswith(" failed: RuntimeError: bulb\n")
                await visit.invoke("x\x1b[2J")
                assert (await line(host)).startswith("x ")
                await visit.close(1013, "later\x1b[2J")
                assert "Not connected: the connection was closed (1013 later). Next attempt in" in await line(host)
                visit = await gateway.visit()
                assert visit.connect_frame["device_token"] == "szt_secret"
                await visit.welcome()
                assert "Connected as node-1" in await line(host)
                host.send_signal(signal.SIGINT)
                assert await line(host) == "Stopped\n"
                assert await asyncio.wait_for(host.wait(), 10) == 0
                assert await visit.ended() == 1000
                assert host.stderr is not None and await host.stderr.read() == b""

    asyncio.run(main())


def test_json_lines_sigterm_and_a_hanging_call(tmp_path: Path) -> None:
    (tmp_path / "my_caps.py").write_text(
        MODULE + "\n@capability\ndef hang() -> None:\n    import time\n    time.sleep(60)\n"
    )

    async def main() -> None:
        async with played_gateway() as gateway:
            options = (
                "--url",
                gateway.url,
                "--module",
                "my_caps",
                "--no-builtin",
                "--json",
                "--name",
                "Lamp",
                "--capabilities",
                "lamp.set,hang",
            )
            async with process(tmp_path, *options) as host:
                assert json.loads(await line(host))["status"] == "connecting"
                visit = await gateway.visit()
                assert [each["name"] for each in visit.connect_frame["capabilities"]] == ["lamp.set", "hang"]
                await visit.send({"type": "pending", "pairing_code": "K7M2QX", "message": "x"})
                pending = json.loads(await line(host))
                assert (pending["event"], pending["status"], pending["pairing_code"]) == ("status", "pending", "K7M2QX")
                await visit.welcome()
                assert json.loads(await line(host))["node_id"] == "node-1"
                await visit.invoke("lamp.set", {"level": "x"})
                call = json.loads(await line(host))
                assert (call["command"], call["outcome"]) == ("lamp.set", "failed") and "level" in call["error"]
                await visit.call("hang")
                await visit.alive()
                host.send_signal(signal.SIGTERM)
                assert await asyncio.wait_for(host.wait(), 10) == 0

    asyncio.run(main())


def test_a_refusal_ends_with_one_line_and_status_1(tmp_path: Path) -> None:
    (tmp_path / "my_caps.py").write_text(MODULE)

    async def main() -> None:
        options = ("--module", "my_caps.py", "--no-builtin")
        async with played_gateway() as gateway, process(tmp_path, "--url", gateway.url, *options) as host:
            visit = await gateway.visit()
            await visit.send({"type": "error", "message": "The operator denied this device.", "code": "pairing_denied"})
            await visit.close(1008)
            await line(host)
            assert await line(host) == "Refused: The operator denied this device.\n"
            assert await asyncio.wait_for(host.wait(), 10) == 1

    asyncio.run(main())


def test_the_running_gateway_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_caps.py").write_text(MODULE)
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.delenv("SUZENT_BASE_URL", raising=False)
    (tmp_path / "runtime").mkdir()

    def write(pid: int, url: str, token: str) -> None:
        path = tmp_path / "runtime" / f"suzent-{pid}.json"
        path.write_text(json.dumps({"pid": pid, "url": url, "token": token, "mount_url": None}))
        path.chmod(0o600)

    async def main() -> None:
        options = ("--module", "my_caps.py", "--no-builtin")
        async with played_gateway() as gateway:
            write(os.getpid(), gateway.url.replace("ws", "http", 1).removesuffix("/ws/node"), "szt_secret")
            async with process(tmp_path, *options) as host:
                assert f"Connecting to {gateway.url} " in await line(host)
                visit = await gateway.visit()
                assert visit.connect_frame["device_token"] == ""  # the owner's token is not a device's
            write(os.getppid(), "http://127.0.0.1:2", "szt_another")
            async with process(tmp_path, *options) as host:
                _, errors = await asyncio.wait_for(host.communicate(), 30)
                assert host.returncode == 1 and errors.count(b"\n") == 1
                assert b"Several gateways" in errors and b"--url URL" in errors

    asyncio.run(main())


@pytest.mark.parametrize(
    ("source", "place"),
    [
        ("def answer(message):\n    return f'I say {message}'\ndef other():\n    pass\n", "bot.py"),
        ("def only(message):\n    return f'I say {message}'\n", "bot"),
        ("def other(): pass\ndef one(message):\n    return f'I say {message}'\n", "bot.py:one"),
        ("import suzent_jupyter as sz\n@sz.agent\ndef x(message):\n    return f'I say {message}'\n", "bot.py"),
    ],
)
def test_an_agent_that_takes_chats(tmp_path: Path, source: str, place: str) -> None:
    (tmp_path / "bot.py").write_text(source)

    async def main() -> None:
        options = ("--protocol", "multinode", "--agent", place, "--no-builtin")
        async with played_multinode() as gateway:
            address = gateway.url.replace("ws://", "http://").removesuffix("/ws/gateway")
            async with process(tmp_path, "--url", address, *options) as host:
                assert f"Connecting to {gateway.url} as 'Local PC' (agent.run)" in await line(host)
                visit = await gateway.visit(30)
                assert visit.connect["node"]["agent"] is True and visit.connect["node"]["capabilities"] == []
                await visit.send({"type": "pending", "pairing_code": "K7M2QX", "message": "x"})
                assert "jupyter suzent node approve K7M2QX" in await line(host)
                await visit.welcome()
                assert await line(host) == "Connected as node-1\n"
                await visit.send({"type": "node.update", "node": {"node_id": "node-1", "scope": "enterprise"}})
                assert await line(host) == "Connected as node-1, shared with its owner's organisation\n"
                await visit.chat("r", "hello")
                events = await visit.ended_run("r")
                assert events[1]["delta"] == "I say hello" and events[-1]["type"] == "RUN_FINISHED"
                host.send_signal(signal.SIGINT)
                while await line(host) != "Stopped\n":
                    pass
                assert await asyncio.wait_for(host.wait(), 10) == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--url", "ftp://x"], "is not the address of a gateway"),
        (["--module", "missing.py"], "missing.py can't be loaded: FileNotFoundError"),
        (["--module", "no_such_module_here"], "no_such_module_here can't be loaded: ModuleNotFoundError"),
        (["--module", "broken.py"], "broken.py can't be loaded: SyntaxError"),
        (["--module", "leaving.py"], "leaving.py can't be loaded: SystemExit: 5"),
        (["--module", "typed.py"], "typed.py can't be loaded: TypeError: Parameter 'x' of f has the type lock"),
        (["--no-builtin"], "would offer nothing"),
        (["--capabilities", "nothing.*"], "no capability 'nothing.*'; known: system.info"),
        (["--name", ""], "needs a name"),
        (["--agent", "two.py"], "two.py has no agent: put @agent above its function"),
        (["--agent", "two.py:three"], "two.py has no function 'three'"),
        (["--agent", "two.py:two"], "nothing for the parameter 'what'"),
        (["--agent", "missing.py:x"], "missing.py can't be loaded"),
    ],
)
def test_mistakes_are_told_in_one_line(tmp_path: Path, arguments: list[str], told: str) -> None:
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "two.py").write_text("def one(): ...\ndef two(message, what): ...\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(5)\n")
    (tmp_path / "typed.py").write_text(
        "import threading\nfrom suzent_jupyter.node import capability\n"
        "@capability\ndef f(x: type(threading.Lock())): ...\n"
    )

    async def main() -> None:
        async with process(tmp_path, *arguments) as host:
            output, errors = await asyncio.wait_for(host.communicate(), 30)
            assert host.returncode == 1 and output == b""
            assert errors.decode().startswith("Error: ") and told in errors.decode() and errors.count(b"\n") == 1

    asyncio.run(main())
