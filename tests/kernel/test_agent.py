"""A notebook's function as the gateway's agent: over the real client, and in a real kernel."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.agent_turns import TURN, Answering, chosen
from support.gateways import ThreadedGateway
from support.lasting import Lasting
from support.waiting import wait_for

import suzent_jupyter as sz
from suzent_jupyter.kernel import Gateway, KernelError
from suzent_jupyter.kernel.agent import agent
from suzent_jupyter.protocol.agents import Turn
from suzent_jupyter.protocol.function_agent import FunctionAgent

from .conftest import Shell
from .test_real_kernel import Kernel, environment, start_kernel

__all__ = ["environment", "start_kernel"]


@pytest.fixture(autouse=True)
def no_agents_left() -> Iterator[None]:
    """Keep what one test registers out of the next."""
    yield
    agent.stop()
    agent._found = None


def answered(gateway: ThreadedGateway, turn: Turn = TURN) -> str:
    answering = Answering(gateway, turn)
    answering.wait()
    return answering.text


def test_names_of_the_package() -> None:
    import suzent_jupyter.agent  # the subpackage, which must not hide the decorator

    assert suzent_jupyter.agent is sz.agent is agent  # type: ignore[comparison-overlap]
    assert sz.Turn is Turn
    assert {"agent", "Turn"} <= set(dir(sz))


def test_each_form_answers_with_every_delta_in_order(gateway: ThreadedGateway, gw: Gateway) -> None:
    @agent(gateway=gw)
    def plain(message: str) -> str:
        return f"plain {message}\u2028\ud800"

    assert plain("me") == "plain me\u2028\ud800"  # type: ignore[operator]
    assert answered(gateway) == "plain hello\u2028\ufffd"

    @agent(name="Generator", gateway=gw)
    def generator(turn: Turn) -> Iterator[Any]:
        yield from (f"{number} " for number in range(2000))
        yield {"type": "CUSTOM", "name": "n", "value": turn.run_id}

    assert chosen(gateway) == "Generator"
    answering = Answering(gateway)
    events = answering.wait()
    assert answering.text == "".join(f"{number} " for number in range(2000))
    assert events[-1].value == "r1" and events[-2].type == "TEXT_MESSAGE_END"

    async def coroutine(message: str) -> str:
        await asyncio.sleep(0)
        return "coroutine"

    async def async_generator() -> AsyncIterator[str]:
        yield "async "
        await asyncio.sleep(0)
        yield "generator"

    assert agent(coroutine, gateway=gw) is coroutine
    assert answered(gateway) == "coroutine"
    agent(async_generator, gateway=gw)
    assert answered(gateway) == "async generator"
    assert agent.names == ["plain", "Generator", "coroutine", "async_generator"]


def test_registering_again_and_ending(gateway: ThreadedGateway, gw: Gateway) -> None:
    def make(text: str) -> Any:
        def answer() -> str:
            return text

        return agent(answer, gateway=gw)

    first = make("first")
    second = make("second")
    assert agent.names == ["answer"] and answered(gateway) == "second"
    first.unregister()  # that one is not asked any more anyway
    assert answered(gateway) == "second"
    second.unregister()
    wait_for(lambda: chosen(gateway) == "no_agent")
    make("third")
    agent.stop()
    assert agent.names == []
    wait_for(lambda: chosen(gateway) == "no_agent")


def test_two_notebooks(gateway: ThreadedGateway) -> None:
    with Gateway(gateway.url, gateway.token) as one, Gateway(gateway.url, gateway.token) as two:
        one._agents.register(FunctionAgent(lambda: "one", "one"))
        two._agents.register(FunctionAgent(lambda: "two", "two"))
        assert answered(gateway) == "two"
        two.close()
        wait_for(lambda: chosen(gateway) == "one")
        assert answered(gateway) == "one"
    wait_for(lambda: chosen(gateway) == "no_agent")


def test_failures(gateway: ThreadedGateway, gw: Gateway, caplog: pytest.LogCaptureFixture) -> None:
    @agent(gateway=gw)
    async def answer(message: str) -> AsyncIterator[Any]:
        yield "so far"
        if message == "event":
            yield {"type": "CUSTOM", "name": "n", "value": object()}
        raise ZeroDivisionError("no\nway")

    answering = Answering(gateway)
    error = answering.wait_for_failure()
    assert (error.code, error.message) == ("agent_failed", "answer raised ZeroDivisionError: no")
    assert answering.text == "so far" and answering.events[-1].type == "TEXT_MESSAGE_END"
    assert "Traceback" in caplog.text and "ZeroDivisionError" in caplog.text
    turn = TURN.model_copy(update={"message": "event"})
    assert "no JSON form" in Answering(gateway, turn).wait_for_failure().message
    assert chosen(gateway) == "answer"


@pytest.mark.parametrize("form", ["async", "generator", "progress"])
def test_stopping_reaches_the_function(gateway: ThreadedGateway, gw: Gateway, form: str) -> None:
    lasting = Lasting(form)
    agent(lasting.function, name="it", gateway=gw)
    answering = Answering(gateway)
    assert lasting.begun.wait(10)
    answering.cancel()
    wait_for(lambda: lasting.ended == [form])
    wait_for(lambda: not gw._agents._turns)


def test_at_most_eight_turns_at_once_and_the_rest_wait(gateway: ThreadedGateway, gw: Gateway) -> None:
    running, most, release, lock = 0, 0, threading.Event(), threading.Lock()

    @agent(gateway=gw)
    def answer() -> str:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        release.wait(20)
        with lock:
            running -= 1
        return "done"

    turns = [Answering(gateway) for _ in range(12)]
    wait_for(lambda: running == 8 and len(gw._agents._turns) == 12)
    release.set()
    for turn in turns:
        turn.wait()
        assert turn.text == "done"
    assert most == 8


def test_a_gateway_that_restarts_has_its_agents_again(make_gateway: Any, tmp_path: Path) -> None:
    first = make_gateway(tmp_path / "kept")
    with Gateway(first.url, first.token) as operator:
        token = operator.host_token("notebook").token
    stopped: list[BaseException] = []

    async def answer(message: str) -> AsyncIterator[str]:
        yield f"You said {message}"
        if message == "wait":
            try:
                await asyncio.sleep(30)
            except BaseException as error:
                stopped.append(error)
                raise

    with Gateway(first.url, token) as gw:
        agent(answer, gateway=gw)
        agent(lambda: "older", name="older", gateway=gw)
        agent(answer, gateway=gw)
        waiting = Answering(first, TURN.model_copy(update={"message": "wait"}))
        wait_for(lambda: waiting.text == "You said wait")
        port = first.service.port
        first.run(first.service.stop())
        assert waiting.wait_for_failure().code == "agent_gone"
        wait_for(lambda: stopped)
        first.stop()
        second = make_gateway(tmp_path / "kept", listener_port=port)
        wait_for(lambda: chosen(second) == "answer", 30)
        assert answered(second) == "You said hello"


def test_no_gateway_and_a_wrong_token_are_said_at_once(gateway: ThreadedGateway) -> None:
    with Gateway("http://127.0.0.1:9", "szt_" + "x" * 43) as nobody, pytest.raises(KernelError):
        agent(lambda: "", gateway=nobody)
    with Gateway(gateway.url, "szt_" + "x" * 43) as stranger, pytest.raises(KernelError) as caught:
        agent(lambda: "", gateway=stranger)
    assert caught.value.code == "unauthorized"
    assert agent.names == [] and chosen(gateway) == "no_agent"


def test_without_magics_the_gateway_is_found(gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUZENT_BASE_URL", gateway.url.replace("://", f"://suzent:{gateway.token}@"))
    agent(lambda: "one", name="one")
    agent(lambda: "two", name="two")
    assert answered(gateway) == "two"
    assert len(gateway.service.gateway._clients) == 1
    agent._gateway().close()
    wait_for(lambda: chosen(gateway) == "no_agent")
    agent(lambda: "three", name="three")  # over a new connection
    assert answered(gateway) == "three"


def test_the_magics_gateway_is_used_and_followed(
    gateway: ThreadedGateway, make_gateway: Any, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell.ip)
    shell.run("import suzent_jupyter as sz\n@sz.agent\ndef answer(message): return 'from ' + message")
    assert answered(gateway) == "from hello"
    other = make_gateway()
    shell.run(f"%suzent use {other.url} --token {other.token}")
    assert answered(other) == "from hello"
    wait_for(lambda: chosen(gateway) == "no_agent")
    error = shell.fail("@sz.agent\ndef wrong(message, temperature): ...")
    assert "temperature" in str(error)


def chat(gateway: ThreadedGateway, message: str) -> Iterator[dict[str, Any]]:
    with httpx.stream(
        "POST", f"{gateway.url}/chat", json={"message": message, "chat_id": "c"}, headers=gateway.headers, timeout=30
    ) as answer:
        assert answer.status_code == 200, answer.read()
        for line in answer.iter_lines():
            if line.startswith("data: "):
                yield json.loads(line[6:])


def test_a_chat_streams_from_the_notebook_and_stopping_it_reaches_the_function(
    gateway: ThreadedGateway, gw: Gateway
) -> None:
    ended = threading.Event()

    @agent(gateway=gw)
    async def answer(message: str, history: list[Any]) -> AsyncIterator[Any]:
        yield f"{message}\u2028 "
        yield {"type": "CUSTOM", "name": "before", "value": len(history)}
        if message == "wait":
            try:
                await asyncio.sleep(30)
            finally:
                ended.set()
        if message == "fail":
            raise ValueError("no way")
        yield from_notebook

    from_notebook = "from the notebook"
    events = list(chat(gateway, "hello"))
    assert [event["type"] for event in events] == [
        "RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "CUSTOM",
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED",
    ]  # fmt: skip
    assert events[2]["delta"] == "hello\u2028 " and events[4]["value"] == 0
    *_, last = chat(gateway, "fail")
    assert (last["type"], last["code"], last["message"]) == (
        "RUN_ERROR",
        "agent_failed",
        "answer raised ValueError: no way",
    )
    seen = []
    for event in chat(gateway, "wait"):
        seen.append(event)
        if event["type"] == "CUSTOM":
            assert event["value"] >= 2
            stopped = httpx.post(f"{gateway.url}/chat/stop", json={"chat_id": "c"}, headers=gateway.headers)
            assert stopped.status_code == 200, stopped.text
    assert ended.wait(10) and seen[-1]["type"] == "RUN_FINISHED"


CELL = """
import suzent_jupyter as sz, sys, time
@sz.agent
def answer(message: str):
    print("answering", message, flush=True)
    yield "first "
    if message == "wait":
        time.sleep(60)
    if message == "fail":
        raise ValueError("it broke")
    yield message
"""


@pytest.mark.usefixtures("environment")
def test_a_kernel_that_is_busy_answers_and_one_that_is_killed_is_gone(
    start_kernel: Callable[[], Kernel], gateway: ThreadedGateway
) -> None:
    kernel = start_kernel()
    assert kernel.run(CELL)["status"] == "ok", kernel.text
    cell = kernel.client.execute("pass")
    kernel.finish(cell)
    busy = kernel.start("import time, pathlib\nwhile not pathlib.Path('stop').exists(): time.sleep(0.02)")
    wait_for(lambda: "execute_input" in kernel.client.get_iopub_msg(timeout=5)["msg_type"])
    answering = Answering(gateway)
    answering.wait()
    assert answering.text == "first hello"
    error = Answering(gateway, TURN.model_copy(update={"message": "fail"})).wait_for_failure()
    assert error.message == "answer raised ValueError: it broke"
    # What it printed, and the traceback, belong to the cell that registered it, not to the one that runs.
    said: dict[str, str] = {}
    while not ("it broke" in "".join(said.values()) and "answering fail" in "".join(said.values())):
        message = kernel.client.get_iopub_msg(timeout=10)
        if message["msg_type"] == "stream":
            parent = message["parent_header"]["msg_id"]
            said[parent] = said.get(parent, "") + message["content"]["text"]
    assert busy not in said
    waiting = Answering(gateway, TURN.model_copy(update={"message": "wait"}))
    wait_for(lambda: waiting.text == "first ")
    os.kill(kernel.manager.provisioner.pid, signal.SIGKILL)  # type: ignore[union-attr]
    assert waiting.wait_for_failure().code == "agent_gone"
    assert chosen(gateway) == "no_agent"
