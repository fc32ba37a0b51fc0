"""Chats from a notebook with the real gateway and real app nodes: chosen, kept, interrupted, and its restart."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gateways import Addresses, Process, ThreadedGateway
from support.hosts import threaded
from support.waiting import wait_for

from suzent_jupyter.kernel import ConnectionLost, Gateway, NodeNotFound
from suzent_jupyter.node import NodeHost
from suzent_jupyter.protocol.agents import Turn

from .conftest import Phone, Shell

Start = Callable[..., NodeHost]


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[Start]:
    """Start an app node on a thread of its own, and approve it."""
    with threaded(tmp_path) as start:

        def with_agent(gateway: Addresses, name: str, agent: Any, description: str = "") -> NodeHost:
            return start(gateway, name, protocol="multinode", agent=agent, capabilities=[], description=description)

        yield with_agent


class Endless:
    """An agent that says one word and waits until it is stopped."""

    def __init__(self) -> None:
        self.stopped = threading.Event()

    async def __call__(self, message: str) -> Any:
        """Wait."""
        try:
            yield "Thinking"
            await asyncio.sleep(600)
        finally:
            self.stopped.set()


def test_a_prompt_goes_to_the_node_best_suited(
    shell: Shell, gateway: ThreadedGateway, gw: Gateway, start_node: Start, phone: Phone
) -> None:
    def garden(message: str, turn: Turn) -> str:
        return f"{len(turn.history)} before: {message}"

    garden_node = start_node(gateway, "Garden", garden, "Waters the plants in the greenhouse.")
    desk = start_node(gateway, "Desk", lambda message: f"desk: {message}", "Translates texts.")

    route = shell.run("%suzent route do the plants need water?")
    assert route.node_id == garden_node.node_id and route.decision["choice"]["tier"] == "bm25"
    assert route.frame.loc["Garden", "matched"] in ("plants, water", "water, plants", "plants")
    assert route.frame["executes"].to_dict() == {"Garden": True, "Desk": True, "MyPhone": False}
    assert shell.run("%suzent route take a photo").node_id == phone.device.node_id
    assert shell.run("%suzent route take a photo --chat").decision["choice"]["tier"] == "recent"

    answer = shell.run("%suzent chat do the plants need water?")
    assert (answer.peer, answer.node_id, answer.text) == (
        "Garden", garden_node.node_id, "0 before: do the plants need water?",
    )  # fmt: skip
    assert answer.route.decision["choice"]["tier"] == "bm25"
    named = gw.chat("translate the plants", node="desk")
    assert named.node_id == desk.node_id and named.text == "desk: translate the plants"
    assert named.route.decision["choice"]["tier"] == "manual"

    again = gw.chat("and now?", node="Garden", conversation=answer.conversation)
    assert again.text == "2 before: and now?" and again.conversation == answer.conversation
    kept = shell.run(f"%suzent conversations {answer.conversation}")
    assert kept.messages["chosen"].tolist() == ["Garden", "", "Garden", ""]
    assert kept.messages["tier"].tolist()[::2] == ["bm25", "manual"]
    assert gw.conversations.loc[answer.conversation, "node"] == "Garden"
    assert len(asyncio.run(gw.achat("beside", node="Desk")).events) >= 3


def test_who_can_not_answer_is_said_in_one_line(shell: Shell, phone: Phone) -> None:
    assert shell.fail("%suzent chat hello").code == "no_executor"
    assert shell.fail("%suzent chat hello --node MyPhone").code == "not_executable"
    missing = shell.fail("%suzent chat hello --node Nobody")
    assert isinstance(missing, NodeNotFound) and "\n" not in missing.line
    unknown = shell.fail("%suzent route hello --node Nobody")
    assert isinstance(unknown, NodeNotFound)


def test_an_interrupt_stops_the_agent_on_the_node(
    shell: Shell, gateway: ThreadedGateway, start_node: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    agent = Endless()

    async def endless(message: str) -> Any:
        async for piece in agent(message):
            yield piece

    start_node(gateway, "Garden", endless)

    def interrupt() -> None:
        assert seen.wait(20)
        os.kill(os.getpid(), signal.SIGINT)

    seen = threading.Event()
    shell.ip.user_ns["seen"] = lambda event: event["type"] == "TEXT_MESSAGE_CONTENT" and seen.set()
    threading.Thread(target=interrupt).start()
    result = shell.ip.run_cell(
        "import suzent_jupyter as sz\nwith sz.connect() as gw:\n    gw.chat('hello', on_event=seen)"
    )
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert agent.stopped.wait(10), "the agent goes on"


def test_a_lost_socket_loses_nothing(gateway: ThreadedGateway, gw: Gateway, start_node: Start) -> None:
    go_on = threading.Event()

    async def counting(message: str) -> Any:
        for number in range(400):
            yield f"{number} "
            if number == 200:
                await asyncio.to_thread(go_on.wait, 20)

    start_node(gateway, "Garden", counting)

    def cut(event: dict[str, Any]) -> None:
        if event["type"] == "TEXT_MESSAGE_CONTENT" and not go_on.is_set():
            gateway.call(lambda: [client.close() for client in list(gateway.service.gateway._clients)])
            wait_for(lambda: not gw._channel.connected or go_on.is_set())
            go_on.set()

    answer = gw.chat("count", on_event=cut)
    assert answer.text.split() == [str(number) for number in range(400)]


def test_a_gateway_that_is_restarted_during_a_run(start_process: Callable[..., Process], start_node: Start) -> None:
    agent = Endless()

    async def endless(message: str) -> Any:
        async for piece in agent(message):
            yield piece

    first = start_process()
    start_node(first, "Garden", endless)
    port = int(first.url.rpartition(":")[2])
    restarted = []

    def restart(event: dict[str, Any]) -> None:
        if event["type"] == "TEXT_MESSAGE_CONTENT":
            first.kill()
            restarted.append(start_process(port=port))

    with Gateway(first.url, first.token) as operator:
        token = operator.host_token("notebook").token  # outlives the process, as the token of a kernel does not
    with Gateway(first.url, token) as gw:
        with pytest.raises(ConnectionLost) as lost:
            gw.chat("hello", on_event=restart)
        assert "restarted during the answer" in lost.value.line and "\n" not in lost.value.line
    assert restarted
