"""Devices that live on a thread of their own, gateways as a kernel sees them, and shells."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.device import BareDevice
from support.gateways import Addresses
from support.played_gateway import PlayedGateway
from support.waiting import wait_for

from suzent_jupyter.kernel import Gateway, chatting

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="  # one pixel
SILENT = object()  # what a handler returns for a call it does not answer

CAPABILITIES = [
    {"name": "echo", "description": "Give back what came."},
    {"name": "silence"},
    {
        "name": "camera.snap",
        "description": "Take a photo.",
        "input_schema": {
            "type": "object",
            "properties": {
                "format": {
                    "type": "string",
                    "enum": ["png", "jpeg"],
                    "default": "png",
                    "description": "The file type.",
                },
                "width": {"type": "integer"},
            },
            "additionalProperties": False,
        },
    },
    {"name": "my-odd command"},
    {"name": "fail"},
    {"name": "slow", "params_schema": {"steps": "int"}},
]


class Phone:
    """An approved device that answers on a thread; ``frames`` is everything the gateway sent it."""

    def __init__(self, gateway: Addresses, name: str = "MyPhone", capabilities: Any = None, **connect: Any) -> None:
        self.frames: list[dict[str, Any]] = []
        self.answers: dict[str, Callable[[dict[str, Any]], Any]] = {
            "echo": lambda params: params,
            "silence": lambda params: SILENT,
            "camera.snap": lambda params: {"media_type": "image/png", "base64": PNG, "name": "photo.png"},
            "my-odd command": lambda params: "odd",
        }
        self._gateway = gateway
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        connect.setdefault("features", ["cancel", "progress"])
        self.device = BareDevice(
            gateway.node_url, name, CAPABILITIES if capabilities is None else capabilities, **connect
        )
        self.run(self.device.__aenter__())

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def code(self) -> str:
        return str(self.run(self.device.code()))

    def approve(self) -> Phone:
        self.run(self._gateway.pair(self.device))
        return self.serve()

    def serve(self) -> Phone:
        self._task = asyncio.run_coroutine_threadsafe(self._serve(), self._loop)
        return self

    async def _serve(self) -> None:
        async for text in self.device.ws:
            frame = json.loads(text)
            self.frames.append(frame)
            if frame["type"] == "invoke":
                await self._invoke(frame)

    async def _invoke(self, frame: dict[str, Any]) -> None:
        reply: dict[str, Any]
        if frame["command"] == "slow":
            for step in range(frame["params"].get("steps", 3)):
                progress = {"seq": step, "fraction": (step + 1) / 3, "message": f"step {step}\x1b[31m"}
                await self.device.send({"type": "progress", "request_id": frame["request_id"], **progress})
            reply = {"success": True, "result": "done"}
        elif frame["command"] == "fail":
            reply = {"success": False, "error": "The lens cap is on.\x1b[2J"}
        else:
            result = self.answers[frame["command"]](frame["params"])
            if result is SILENT:
                return
            reply = {"success": True, "result": result}
        await self.device.send({"type": "result", "request_id": frame["request_id"], **reply})

    def got(self, kind: str) -> list[dict[str, Any]]:
        return [frame for frame in self.frames if frame["type"] == kind]

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.run(self.device.__aexit__())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()


@pytest.fixture
def make_phone() -> Iterator[Callable[..., Phone]]:
    made: list[Phone] = []

    def make(gateway: Addresses, name: str = "MyPhone", **options: Any) -> Phone:
        made.append(Phone(gateway, name, **options))
        return made[-1]

    yield make
    for phone in made:
        phone.close()


@pytest.fixture
def phone(gateway: Any, make_phone: Callable[..., Phone]) -> Phone:
    """MyPhone, approved, on the gateway of this test."""
    return make_phone(gateway).approve()


@pytest.fixture
def gw(gateway: Any) -> Iterator[Gateway]:
    """The gateway of this test as a notebook has it."""
    with Gateway(gateway.url, gateway.token) as handle:
        yield handle


class Shell:
    """An IPython shell in this process whose displays and errors are kept."""

    def __init__(self) -> None:
        from IPython.core.interactiveshell import InteractiveShell

        self.ip = InteractiveShell()
        self.ip.run_line_magic("load_ext", "suzent_jupyter")

    def run(self, source: str) -> Any:
        """Run a cell and return its last value; an exception of the cell is raised."""
        result = self.ip.run_cell(source, store_history=True)
        result.raise_error()
        return result.result

    def fail(self, source: str) -> Any:
        result = self.ip.run_cell(source, store_history=True)
        assert result.error_in_exec is not None, f"{source} did not fail"
        return result.error_in_exec

    def formatted(self, value: Any) -> dict[str, Any]:
        data, _metadata = self.ip.display_formatter.format(value)
        return dict(data)

    def complete(self, text: str) -> list[tuple[str, str]]:
        """Return (text that is replaced, replacement) pairs, as ipykernel and the terminal compute them."""
        from IPython.core.completer import provisionalcompleter

        with provisionalcompleter():
            found = list(self.ip.Completer.completions(text, len(text)))
        return [(text[item.start : item.end], item.text) for item in found]


@pytest.fixture
def shell(gateway: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A shell with the magics loaded, in the environment of a kernel of this test's gateway."""
    with shell_of(gateway, monkeypatch) as made:
        yield made


@contextlib.contextmanager
def shell_of(gateway: Addresses, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.setenv("SUZENT_BASE_URL", gateway.url.replace("://", f"://suzent:{gateway.token}@"))
    made = Shell()
    yield made
    made.ip.run_line_magic("unload_ext", "suzent_jupyter")
    made.ip.history_manager.end_session()
    made.ip.reset(new_session=False)


@pytest.fixture
def played() -> Iterator[PlayedGateway]:
    """A gateway whose peers and grants a test plays."""
    chatting._last_conversations.clear()  # another one may have had this port
    gateway = PlayedGateway()
    yield gateway
    gateway.stop()


@pytest.fixture
def played_shell(played: PlayedGateway, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A shell on that gateway."""
    with shell_of(played, monkeypatch) as made:
        yield made


@pytest.fixture
def played_gw(played: PlayedGateway) -> Iterator[Gateway]:
    """That gateway as a notebook has it."""
    with Gateway(played.url, played.token) as handle:
        yield handle


__all__ = ["PNG", "SILENT", "Phone", "Shell", "wait_for"]
