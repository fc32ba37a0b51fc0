"""Calls over a real socket: side by side, each answered once, cancelled and bounded."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed

from suzent_jupyter.cli.conformance.played_gateway import PlayedGateway
from suzent_jupyter.node import CallCancelled, NodeHost, Progress, ResultError, capability, progress
from suzent_jupyter.protocol.wire import encode

Play = Callable[..., NodeHost]


def test_sync_and_async_functions_answer_and_fail(play: Play) -> None:
    @capability("lamp.set")
    def lamp(level: int, name: str = "desk") -> dict[str, Any]:
        return {"level": level, "name": name, "thread": threading.current_thread().name}

    @capability("lamp.get")
    async def get() -> float:
        return float("nan")

    @capability("lamp.break")
    def broken() -> None:
        raise ValueError("bulb \ud800 gone")

    @capability("lamp.exit")
    async def leave() -> None:
        sys.exit("bye")

    @capability("lamp.stop")
    def stop() -> None:
        raise StopIteration

    @capability("lamp.odd")
    async def odd() -> object:
        return object()

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()
        result = await visit.invoke("lamp.set", {"level": "5", "name": 42})
        assert result["success"] and result["result"]["level"] == 5 and result["result"]["name"] == "42"
        assert result["result"]["thread"] == "suzent-capability"
        assert (await visit.invoke("lamp.get"))["result"] is None
        for command, params, told in [
            ("lamp.break", {}, "ValueError: bulb \ufffd gone"),
            ("lamp.exit", {}, "SystemExit: bye"),
            ("lamp.stop", {}, "StopIteration"),
            ("lamp.odd", {}, "type object has no JSON form"),
            ("lamp.set", {}, "Parameter 'level' is missing (int)."),
            ("lamp.set", [1], "must be one JSON object"),
            ("lamp.off", {}, "Unknown command: 'lamp.off'; this device offers: lamp.set, lamp.get"),
        ]:
            result = await visit.invoke(command, params)
            assert result["success"] is False and told in result["error"], (command, result)
        assert host.status == "connected" and await visit.alive()

    play(script)


def test_slow_calls_delay_neither_each_other_nor_pongs(play: Play) -> None:
    gate = threading.Event()

    @capability
    def blocked() -> str:
        gate.wait(20)
        return "blocked"

    @capability
    async def waiting() -> str:
        await asyncio.to_thread(gate.wait, 20)
        return "waiting"

    @capability
    def quick() -> str:
        return "quick"

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()
        slow = [await visit.call(name) for name in ("blocked", "blocked", "waiting")]
        assert (await visit.invoke("quick"))["result"] == "quick"
        await visit.send({"type": "ping"})
        await visit.next("pong")
        assert await visit.alive()
        assert not any(visit.about(request_id, "result") for request_id in slow)
        gate.set()
        assert [(await visit.answer(each))["result"] for each in slow] == ["blocked", "blocked", "waiting"]

    play(script)


def test_threads_are_bounded_and_calls_beyond_wait_their_turn(play: Play) -> None:
    gate, running = threading.Event(), []

    @capability
    def hold(number: int) -> int:
        running.append(number)
        gate.wait(20)
        return number

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()
        calls = [await visit.call("hold", {"number": number}, timeout=20) for number in range(40)]
        while len(running) < 32:
            await asyncio.sleep(0.01)
        await visit.alive()
        assert len(running) == 32
        gate.set()
        assert sorted([(await visit.answer(each))["result"] for each in calls]) == list(range(40))

    play(script)


def test_the_same_request_id_is_answered_once(play: Play) -> None:
    count, seen = [], asyncio.Event()

    @capability
    async def once() -> int:
        count.append(1)
        await seen.wait()
        return len(count)

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()
        frame = {"type": "invoke", "request_id": "r", "command": "once", "params": {}}
        await visit.send(frame)
        await visit.send(frame)
        for odd in (
            {**frame, "request_id": 5},
            {**frame, "request_id": None},
            {**frame, "command": 5, "request_id": "s"},
        ):
            await visit.send(odd)
        await visit.alive()
        seen.set()
        assert (await visit.answer("r"))["result"] == 1
        assert (await visit.answer("s"))["success"] is False
        await visit.invoke("nothing")
        assert len(visit.about("r", "result")) == 1

    play(script)


def test_cancel_ends_coroutines_at_once_and_threads_at_their_next_progress(play: Play) -> None:
    ended: list[str] = []

    @capability
    async def coroutine() -> None:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("coroutine")
            raise

    @capability
    def thread() -> None:
        try:
            while True:
                time.sleep(0.005)
                progress()
        except CallCancelled:
            ended.append("thread")
            raise

    @capability
    def asking(report: Progress) -> str:
        while not report.cancelled:
            time.sleep(0.005)
        return "tidied up"

    @capability
    async def stubborn() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "saved"
        return "never"

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()
        answers = {}
        for command in ("coroutine", "thread", "asking", "stubborn"):
            request_id = await visit.call(command, timeout=20)
            await visit.alive()
            await visit.send({"type": "cancel", "request_id": request_id, "reason": "test"})
            await visit.send({"type": "cancel", "request_id": request_id})
            answers[command] = await visit.answer(request_id, seconds=5)
            assert len(visit.about(request_id, "result")) == 1
        assert answers["coroutine"]["error"] == answers["thread"]["error"] == "The call was cancelled."
        assert answers["asking"]["result"] == "tidied up" and answers["stubborn"]["result"] == "saved"
        assert ended == ["coroutine", "thread"]
        for odd in (None, 5, "unknown", ["x"]):
            await visit.send({"type": "cancel", "request_id": odd})
        assert await visit.alive()

    play(script)


def test_a_cancel_right_behind_its_invoke_is_answered_too(play: Play) -> None:
    began = []

    @capability
    async def coroutine() -> None:
        began.append(1)
        await asyncio.sleep(30)

    @capability
    def thread() -> None:
        began.append(1)

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()
        for command in ("coroutine", "thread") * 5:
            request_id = f"{command}-{len(visit.frames)}"
            invoke = encode({"type": "invoke", "request_id": request_id, "command": command, "params": {}})
            cancel = encode({"type": "cancel", "request_id": request_id})
            # One write, so that both are there when the device looks.
            for data in (invoke, cancel):
                visit.socket.protocol.send_text(data)
            visit.socket.transport.write(b"".join(visit.socket.protocol.data_to_send()))
            await visit.answer(request_id)

    play(script)


def test_the_time_in_the_frame_bounds_the_call_here_too(play: Play) -> None:
    heard = threading.Event()

    @capability
    async def coroutine() -> None:
        await asyncio.sleep(30)

    @capability
    def thread(report: Progress) -> None:
        while not report.cancelled:
            time.sleep(0.005)
        heard.set()

    @capability
    async def own_timeout() -> None:
        raise TimeoutError("sensor")

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()
        for command in ("coroutine", "thread"):
            started = time.monotonic()
            result = await visit.invoke(command, timeout=0.1)
            assert result["error"] == "It took longer than the 0.1 s this call had." and time.monotonic() - started < 2
        assert await asyncio.to_thread(heard.wait, 5)
        for odd in (True, 0, -1, "soon", None, 1e400):
            assert "TimeoutError: sensor" in (await visit.invoke("own_timeout", timeout=odd))["error"]

    play(script)


def test_progress_rises_is_spaced_out_and_comes_before_the_result(play: Play) -> None:
    @capability
    def thread() -> str:
        for step in range(2000):
            progress(step / 2000, f"step {step}", data={"at": step})
        progress(7.0, "all \ud800", data=float("nan"))
        return "done"

    @capability
    async def coroutine(report: Progress) -> str:
        report(0.5)
        await asyncio.sleep(0.25)
        report(1)
        return "done"

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()
        for command in ("thread", "coroutine"):
            request_id = await visit.call(command)
            await visit.answer(request_id)
            await visit.alive()
            frames = visit.about(request_id, "progress")
            assert [frame["seq"] for frame in frames] == list(range(len(frames)))
            assert 1 <= len(frames) <= 20 and frames[-1]["fraction"] == 1.0
            about = [frame["type"] for frame in visit.frames if frame.get("request_id") == request_id]
            assert about[-1] == "result" and about.count("result") == 1
        assert visit.about((visit.frames[-1])["request_id"], "progress")[0]["fraction"] == 0.5

    play(script)
    progress(0.5)  # outside a call it does nothing
    assert not progress.cancelled


def test_gateways_without_the_feature_get_no_progress(play: Play) -> None:
    @capability
    def thread() -> str:
        progress(0.5)
        return "done"

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome(legacy=True)
        assert (await visit.invoke("thread", timeout=None))["result"] == "done"
        assert {frame["type"] for frame in visit.frames} == {"connect", "result"}

    play(script)


def test_a_result_over_the_limit_fails_that_call_only(play: Play) -> None:
    @capability
    def large(size: int, report: Progress | None = None) -> bytes:
        if report is not None:
            report(0.5, data="y" * size)
        return b"x" * size

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome(limits={"max_frame_bytes": 10_000})
        while host.status != "connected":
            await asyncio.sleep(0.005)
        with pytest.raises(ResultError, match="10,000"):
            host.send_event("large", {"x": "x" * 10_000})
        result = await visit.invoke("large", {"size": 9000})
        assert result["success"] is False and "12,1" in result["error"] and "10,000" in result["error"]
        assert (await visit.invoke("large", {"size": 5000}))["success"] is True
        await visit.invoke("large", {"size": 11_000})
        assert max(visit.sizes) < 10_000
        assert "data" not in [frame for frame in visit.frames if frame["type"] == "progress"][-1]
        await visit.close(1001)
        visit = await gateway.visit()
        await visit.welcome(limits={"max_frame_bytes": "lots"})  # nonsense means the default of 16 MiB
        result = await visit.invoke("large", {"size": 13 * 2**20}, seconds=30)
        assert "16,777,216" in result["error"]
        assert max(visit.sizes) < 2**24

    play(script)


def test_losing_the_connection_ends_what_runs(play: Play) -> None:
    ended: list[str] = []

    @capability
    async def coroutine() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("coroutine")

    @capability
    def thread(report: Progress) -> None:
        while not report.cancelled:
            time.sleep(0.005)
        ended.append("thread")

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()
        for command in ("coroutine", "thread"):
            await visit.call(command)
        await visit.alive()
        visit.abort()
        visit = await gateway.visit()
        await visit.welcome()
        while len(ended) < 2:
            await asyncio.sleep(0.01)
        assert (await visit.invoke("nothing"))["success"] is False
        assert not [frame for frame in visit.frames if frame["type"] == "result" and "cancel" in str(frame)]

    play(script)


def test_finished_calls_are_told_and_a_broken_listener_harms_nothing(play: Play) -> None:
    told: list[tuple[str, float, str | None]] = []

    @capability
    async def good() -> None: ...

    @capability
    def bad() -> None:
        raise RuntimeError("no")

    def on_call(command: str, seconds: float, error: str | None) -> None:
        told.append((command, seconds, error))
        raise RuntimeError("broken listener")

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()
        await visit.invoke("good")
        await visit.invoke("bad")
        assert await visit.alive()

    play(script, on_call=on_call)
    assert [(command, error) for command, _, error in told] == [("good", None), ("bad", "RuntimeError: no")]
    assert all(seconds >= 0 for _, seconds, _ in told)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-9, 9) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
_FIELDS = st.sampled_from(["request_id", "command", "params", "timeout", "approved", "pending_approval", "limits"])
_KINDS = st.sampled_from(["invoke", "cancel", "approved", "connected", "pending", "ping", "other"]) | _JSON
_FRAMES = st.tuples(_KINDS, st.dictionaries(_FIELDS, _JSON | st.sampled_from(["echo", "r1", "r2"]))).map(
    lambda parts: {**parts[1], "type": parts[0]}
)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(_FRAMES.filter(lambda frame: frame["type"] != "error"), max_size=60))
def test_whatever_a_gateway_says_the_device_stays(play: Play, frames: list[dict[str, Any]]) -> None:
    async def echo(**params: Any) -> dict[str, Any]:
        return params

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()
        for frame in frames:
            await visit.send(frame)
        assert (await visit.invoke("echo", {"x": 1}))["result"] == {"x": 1}
        assert host.status == "connected"

    play(script, capabilities=[echo])


@pytest.mark.parametrize(
    "frames", [["hello", "[1]", "null", b"\xff\xfe", '{"type": []}', '{"type":"invoke"}', "{" * 5000]]
)
def test_nonsense_from_the_gateway_is_ignored(play: Play, frames: list[Any]) -> None:
    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        for frame in frames:
            await visit.send(frame)
        await visit.welcome(limits=None, features="x", approved=[1, "a\x1b[0m"], warnings={"x": 1}, node_id=7)
        for frame in frames:
            await visit.send(frame)
        assert await visit.alive() and host.status == "connected"
        assert host.node_id is None and host.approved == ["a"]

    try:
        play(script, capabilities=[])
    except ConnectionClosed as closed:
        raise AssertionError(closed) from None
