"""Gateways as processes of their own: control in each direction, what ends it, and what SIGKILL leaves of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.gateways import JupyterServer, Process
from support.waiting import wait_for

from suzent_jupyter.kernel import Answer, Gateway, KernelError, TurnFailed
from suzent_jupyter.protocol.function_agent import FunctionAgent

Start = Callable[..., Process]


class Side:
    """One gateway, with a notebook of its operator whose function is its agent."""

    def __init__(self, process: Process, name: str) -> None:
        self.process, self.name = process, name
        self.gw = Gateway(process.url, process.token)
        self.go_on = threading.Event()
        self.waiting = 0
        self.gw._agents.register(FunctionAgent(self._answer, name))

    async def _answer(self, message: str) -> AsyncIterator[str]:
        if message.startswith("wait"):
            yield "begun "
            self.waiting += 1
            try:
                while not self.go_on.is_set():
                    await asyncio.sleep(0.01)
            finally:
                self.waiting -= 1
        yield f"{self.name} heard {message}"

    def peer(self, name: str) -> dict[str, Any]:
        """Return what its frame says of a peer, asked now."""
        return dict(self.gw.list_peers(refresh=True).loc[name])

    def says(self, peer: str, prompt: str = "hi") -> str:
        return self.gw.trigger(peer, prompt).text

    def refused(self, peer: str, prompt: str = "hi") -> str:
        with pytest.raises(KernelError) as caught:
            self.gw.trigger(peer, prompt)
        return caught.value.code

    def begin(self, other: Side, prompt: str = "wait") -> Future[Answer]:
        """Begin a turn over there that waits, and return when it does and its first word is here."""
        before = other.waiting
        running: Future[Answer] = Future()
        heard: list[str] = []

        def hear(event: dict[str, Any]) -> None:
            if event["type"] == "TEXT_MESSAGE_CONTENT":
                heard.append(event["delta"])

        def work() -> None:
            try:
                running.set_result(self.gw.trigger(other.name, prompt, on_event=hear))
            except BaseException as error:
                running.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        wait_for(lambda: (other.waiting > before and heard) or running.done())
        return running

    def control(self, other: Side, address: str = "") -> str:
        """Ask for control of the other, have it approved there, and return the grant's id."""
        request = self.gw.control(address or other.process.url, other.name)
        approved = other.gw.approve(request.code)
        assert request.wait(30).status == "approved"
        return str(approved["device_id"])

    def close(self) -> None:
        self.go_on.set()
        self.gw.close()


@pytest.fixture
def side(start_process: Start) -> Iterator[Callable[..., Side]]:
    """Start a gateway, or start it again, with its notebook: ``side("Lab")``."""
    with ExitStack() as stack:

        def start(name: str, *arguments: str, process: Process | None = None) -> Side:
            process = process or start_process(f"--SuzentApp.display_name={name}", *arguments, name=name)
            made = Side(process, name)
            stack.callback(made.close)
            return made

        yield start


@pytest.fixture
def both(side: Callable[..., Side]) -> tuple[Side, Side]:
    with ThreadPoolExecutor() as pool:
        desk, lab = pool.map(side, ("Desk", "Lab"))
    return desk, lab


@pytest.mark.timeout(120)
def test_each_direction_alone_and_both(both: tuple[Side, Side]) -> None:
    desk, lab = both
    grant = desk.control(lab)
    first = desk.peer("Lab")
    assert (first["mode"], first["status"], first["inbound"]) == ("trigger", "ready", "none")
    assert desk.says("Lab") == "Lab heard hi"
    assert lab.refused("Desk") == "peer_unknown"

    # Both, and back to one.
    desk.gw.set_reverse("Lab", True)
    assert lab.says("Desk") == "Desk heard hi" and desk.says("Lab") == "Lab heard hi"
    theirs = lab.peer("Desk")
    assert (theirs["status"], theirs["inbound"], theirs["uses"]) == ("ready", "active", 2)
    assert desk.peer("Lab")["reverse"] and desk.peer("Lab")["inbound"] == "active"
    desk.gw.set_reverse("Lab", False)
    assert lab.refused("Desk") == "peer_revoked" and lab.peer("Desk")["status"] == "revoked"
    assert desk.says("Lab") == "Lab heard hi" and not desk.peer("Lab")["reverse"]
    desk.gw.set_reverse("Lab", True)
    assert lab.says("Desk") == "Desk heard hi" and lab.peer("Desk")["peer_id"] == theirs["peer_id"]

    # The other way alone.
    lab.gw.pause(grant)
    assert desk.refused("Lab") == "peer_revoked" and desk.peer("Lab")["status"] == "revoked"
    assert lab.says("Desk") == "Desk heard hi" and lab.peer("Desk")["inbound"] == "paused"
    lab.gw.resume(grant)
    assert desk.says("Lab") == "Lab heard hi" and desk.peer("Lab")["status"] == "ready"
    for mode in ("paused", "off"):
        desk.gw.set_mode("Lab", mode)
        assert desk.refused("Lab") == "peer_off" and desk.peer("Lab")["mode"] == mode
        assert lab.says("Desk") == "Desk heard hi"
    desk.gw.set_mode("Lab", "trigger")

    # Revoked: the holder hears of it, and asks again.
    lab.gw.revoke(grant)
    wait_for(lambda: desk.gw.peers.loc["Lab", "status"] == "revoked")
    assert desk.refused("Lab") == "peer_revoked"
    assert lab.says("Desk") == "Desk heard hi"
    request = desk.gw.control("Lab")
    lab.gw.approve(request.code)
    assert request.wait(30).status == "approved"
    assert desk.says("Lab") == "Lab heard hi" and desk.peer("Lab")["peer_id"] == first["peer_id"]

    desk.gw.remove_peer("Lab")
    assert desk.gw.peers.empty and desk.refused("Lab") == "peer_unknown"
    wait_for(lambda: lab.gw.peers.loc["Desk", "status"] == "revoked")
    assert lab.refused("Desk") == "peer_revoked"


@pytest.mark.timeout(120)
def test_what_ends_control_ends_the_turn_that_runs(both: tuple[Side, Side]) -> None:
    desk, lab = both
    ends: list[Callable[[str], Any]] = [
        lambda grant: lab.gw.revoke(grant),
        lambda grant: lab.gw.remove_peer("Desk"),
        lambda grant: desk.gw.remove_peer("Lab"),
    ]
    for end in ends:
        grant = desk.control(lab)
        running = desk.begin(lab)
        end(grant)
        error = running.exception(15)
        assert isinstance(error, TurnFailed) and error.code == "revoked", repr(error)
        assert error.answer is not None and error.answer.text == "begun "
        lab.go_on.set()
        wait_for(lambda: not lab.waiting)
        lab.go_on.clear()


def kinds(server: Process, route: str, key: str, **wanted: Any) -> list[dict[str, Any]]:
    answer = httpx.get(server.url + route, headers=server.headers, timeout=20)
    assert answer.status_code == 200, answer.text
    return [each for each in answer.json()[key] if all(each[name] == value for name, value in wanted.items())]


@pytest.mark.timeout(120)
def test_a_token_in_the_hands_of_a_third(both: tuple[Side, Side]) -> None:
    _, lab = both
    url = lab.process.url
    with httpx.Client(base_url=url, timeout=20) as third:
        asked = third.post("/nodes/grant-request", json={"controller_name": "Desk", "controller_identity": "d"}).json()
        grant = lab.gw.approve(asked["code"])["device_id"]
        status = f"/nodes/grant-status/{asked['request_id']}"
        token = third.get(status).json()["token"]
        again = third.get(status).json()
        assert (again["status"], again.get("token")) == ("approved", None)
        assert third.post(f"/nodes/grants/{asked['request_id']}/approve").status_code == 401
        third.headers["Authorization"] = f"Bearer {token}"
        forged = {"device_id": "other", "peer_id": "other", "sender_id": "other", "identity": "other"}
        for _ in range(3):
            answer = third.post("/channels/suzent/inbound", json={"content": "mine", **forged})
            assert answer.status_code == 200 and "Lab heard mine" in answer.text.replace('"}\n', ""), answer.text
        (conversation,) = kinds(lab.process, "/conversations", "conversations")
        assert grant in str(conversation["conversation_id"]) and "other" not in str(conversation)
        # Its uses are to be seen wherever the grant is.
        wait_for(lambda: kinds(lab.process, "/nodes/devices", "devices", device_id=grant, trigger_count=3))
        (peer,) = kinds(lab.process, "/nodes/peers", "peers")
        assert peer["inbound_count"] == 3 and peer["inbound_last"]
        assert lab.gw.peers["uses"].tolist() == [3] and lab.gw.peers["last_used"].notna().all()
        assert lab.gw.devices.query("scope == 'agent'")["triggers"].tolist() == [3]
        lab.gw.revoke(grant)
        refused = third.post("/channels/suzent/inbound", json={"content": "mine", **forged})
        assert refused.status_code == 401
        (attempt,) = kinds(lab.process, "/nodes/unauthorized", "attempts")
        assert attempt["path"] == "/channels/suzent/inbound" and attempt["host"] == "127.0.0.1"
        assert token not in str(attempt)


@pytest.mark.timeout(200)  # five starts of a process
def test_kill_9(both: tuple[Side, Side], side: Callable[..., Side]) -> None:
    desk, lab = both
    first, grant = lab.process.url, desk.control(lab)
    known = desk.peer("Lab")

    # The one that answers, in the middle of a turn: the reader is told, and it is found again at another port.
    running = desk.begin(lab)
    lab.process.kill()
    error = running.exception(30)
    assert isinstance(error, TurnFailed) and error.code == "peer_unreachable"
    assert error.answer is not None and error.answer.text == "begun "
    assert desk.peer("Lab")["status"] == "offline" and desk.refused("Lab") == "peer_unreachable"
    lab.close()
    lab = side("Lab")
    assert lab.process.url != first
    wait_for(lambda: desk.gw.peers.loc["Lab", "base_url"] == lab.process.url, 20)
    assert desk.says("Lab") == "Lab heard hi" and desk.peer("Lab")["peer_id"] == known["peer_id"]
    (kept,) = kinds(lab.process, "/conversations", "conversations")
    talk = kinds(lab.process, f"/conversations/{kept['conversation_id']}", "messages", role="assistant")
    assert [each["outcome"] for each in talk] == ["interrupted", "done"]

    # The one that asked, in the middle of a turn: the turn goes on, and is kept.
    running = desk.begin(lab)
    desk.process.kill()
    assert isinstance(running.exception(60), KernelError)
    assert lab.waiting == 1
    lab.go_on.set()
    wait_for(
        lambda: kinds(
            lab.process, f"/conversations/{kept['conversation_id']}", "messages", content="begun Lab heard wait"
        )
    )
    desk.close()
    desk = side("Desk")
    assert desk.says("Lab") == "Lab heard hi" and desk.peer("Lab")["peer_id"] == known["peer_id"]

    # While a request waits, each of them; one verb asks again, and what was granted is the same peer's.
    lab.gw.revoke(grant)
    wait_for(lambda: desk.gw.peers.loc["Lab", "status"] == "revoked")
    lost = desk.gw.control("Lab")
    lab.process.kill()
    lab.close()
    with pytest.raises(KernelError, match="Nothing answers"):
        desk.gw.control("Lab")
    lab = side("Lab", f"--SuzentApp.listener_port={lab.process.url.rpartition(':')[2]}")
    again = desk.gw.control("Lab")
    assert again.code != lost.code and lab.gw.grants.index.tolist() == [again.code]
    lab.gw.approve(again.code)  # whether it is fetched before that gateway is gone is chance
    desk.process.kill()
    desk.close()
    desk = side("Desk")
    if desk.peer("Lab")["status"] != "ready":
        request = desk.gw.control("Lab")
        assert lab.gw.grants["replaces"].tolist() == ["Desk"]
        lab.gw.approve(request.code)
        assert request.wait(30).status == "approved"
    assert desk.says("Lab") == "Lab heard hi" and desk.peer("Lab")["peer_id"] == known["peer_id"]
    assert len(kinds(lab.process, "/nodes/devices", "devices", scope="agent")) == 1


@pytest.mark.timeout(120)
def test_a_hundred_turns_at_once(both: tuple[Side, Side]) -> None:
    desk, lab = both
    desk.control(lab)
    (peer,) = kinds(desk.process, "/nodes/peers", "peers")

    async def turn(http: httpx.AsyncClient, number: int) -> str:
        body = {"prompt": f"turn {number}", "chat_id": f"c{number}"}
        return (await http.post(f"/nodes/peers/{peer['peer_id']}/trigger", json=body)).text

    async def work() -> list[str]:
        async with httpx.AsyncClient(
            base_url=desk.process.url,
            headers=desk.process.headers,
            timeout=60,
            limits=httpx.Limits(max_connections=100),
        ) as http:
            return await asyncio.gather(*(turn(http, number) for number in range(100)))

    for number, text in enumerate(asyncio.run(work())):
        assert f"Lab heard turn {number}" in text and "RUN_FINISHED" in text, text[-300:]


@pytest.mark.timeout(180)
def test_two_jupyter_servers_by_their_own_addresses(
    start_jupyter: Callable[..., JupyterServer], side: Callable[..., Side], tmp_path: Path
) -> None:
    lab_server = start_jupyter("--SuzentApp.display_name=Lab", name="lab", base_url="/user/bob/")
    guest = start_jupyter(name="lab", base_url="/guest/")
    desk_server = start_jupyter("--SuzentApp.display_name=Desk", name="desk")
    desk, lab = side("Desk", process=desk_server), side("Lab", process=lab_server)
    for server in (lab_server, guest):
        address = server.mount.rstrip("/")
        desk.control(lab, address)
        row = desk.peer("Lab")
        assert (row["base_url"], row["status"]) == (address, "ready")
        assert desk.says("Lab") == "Lab heard hi"
        desk.gw.set_reverse("Lab", True)
        assert lab.says("Desk") == "Desk heard hi"
        running = desk.begin(lab)
        lab.go_on.set()
        assert running.result(20).text == "begun Lab heard wait"
        wait_for(lambda: not lab.waiting)
        lab.go_on.clear()
    assert len(desk.gw.peers) == 1, "the guest's address is the same gateway's"
