"""Nobody learns what another keeps: whatever they ask, by whatever path, the answer is the same with and without it.

Each property takes everything a caller can be told as bytes, lets somebody else keep, look for and forget personal
things, and takes it again.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from support.chats import begin
from support.client import BareClient
from support.executing import Worker
from support.gateways import ThreadedGateway
from support.memories import Person, person
from support.running import until

SETTINGS = settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # an example takes a second: too long to shrink
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
_numbers = itertools.count(1)

WORDS = ["zeus", "laser", "red", "safe", "code 4711", "Straße", "東京", "cameraSnap", "the", "wound", "Grandma's"]
SYNTAX = [
    '"', '""', "*", "laser*", "^laser", "NEAR(laser zeus, 3)", "terms : laser", "- laser", "laser OR zeus",
    "zeus NOT laser", "'; DROP TABLE memories; --", "' OR '1'='1", "memory_index_1", "level:account", ")", "((",
    "{terms}", "laser\x00zeus", "%", "_", "\\", "1 UNION SELECT content FROM memories", "\u202elaser",
]  # fmt: skip
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
queries = st.one_of(
    texts, st.sampled_from(SYNTAX), st.tuples(texts, st.sampled_from(SYNTAX)).map(" ".join), st.text(max_size=20)
)


async def told(who: Person, asked: list[str], sessions: list[str]) -> list[tuple[int, bytes]]:
    """Return everything the memory, the conversations and the audit trail say to somebody."""
    answers = []
    for query in ["", *asked]:
        for more in ({}, {"limit": 1}, {"level": "account"}):
            answers.append(await who.http.get("/memory", params={"query": query, **more}))
        for session in sessions:
            answers.append(await who.http.get("/memory", params={"query": query, "session_id": session}))
    for session in sessions:
        body = {"content": "mine?", "level": "session", "session_id": session}
        answers.append(await who.http.post("/memory", json=body))
        answers.append(await who.forget("0000000000000", level="session", session_id=session))
        answers.append(await who.forget(level="session", session_id=session, everything=True))
        answers.append(await who.http.get(f"/conversations/{session}"))
    answers.append(await who.http.get("/conversations"))
    assert not [answer.text for answer in answers if answer.status_code == 500]
    return [(answer.status_code, answer.content) for answer in answers]


def without_ids(answer: Any, memory_id: str) -> tuple[int, str]:
    return answer.status_code, answer.text.replace(memory_id, "ID")


@SETTINGS
@given(
    own=st.lists(texts, max_size=4),
    shared=st.lists(texts, max_size=4),
    secret=st.lists(texts, min_size=1, max_size=3),
    asked=st.lists(queries, max_size=3),
)
def test_over_rest(
    gateway: ThreadedGateway, own: list[str], shared: list[str], secret: list[str], asked: list[str]
) -> None:
    async def work() -> None:
        number = next(_numbers)
        async with (
            await person(gateway, f"ada{number}", f"red{number}") as ada,
            await person(gateway, f"bob{number}", f"red{number}") as bob,
        ):
            session = f"talk{number}"
            for text in own:
                await bob.keep(text)
            for text in shared:
                await ada.keep(text, "enterprise")
            asks = [*asked, *secret]
            before = await told(bob, asks, [session])
            # Ada's, in words that bob asks for; some of it goes again.
            await ada.chat(session)
            ids = []
            for text in secret:
                ids.append((await ada.keep(text, tags=["zeus"]))["memory"]["memory_id"])
                await ada.keep(f"{text} in a talk", "session", session_id=session)
                await ada.found(text)
            assert await told(bob, asks, [session]) == before
            for level in ("account", "enterprise", "session"):
                never = without_ids(await bob.forget("0" * 13, level=level, session_id=session), "0" * 13)
                assert without_ids(await bob.forget(ids[0], level=level, session_id=session), ids[0]) == never
            assert never[0] == 404
            assert len(await ada.found(level="account")) == len(set(secret))
            assert (await ada.forget(ids[0])).status_code == 200
            assert await told(bob, asks, [session]) == before
            trail = (await bob.http.get("/audit")).text
            assert not [each for each in ids if each in trail]
            # A text that only ada has is new to bob all the same.
            for text in set(secret) - set(own):
                assert (await bob.keep(text))["created"] is True

    asyncio.run(work())


async def frames(node: Worker, run_id: str, asked: list[str], ids: list[str]) -> list[Any]:
    """Return everything a node is told inside of a turn, but for the ids of its own questions."""
    answers = []
    for more in ({"run_id": run_id}, {}):
        for query in ["", *asked]:
            for level in (None, "account", "enterprise", "session"):
                answers.append(await node.memory("query", query=query, level=level, limit=50, **more))
        answers.append(await node.memory("save", content="x", level="account", **more))
        for session in ids:
            answers.append(await node.memory("query", query="", session_id=session, owner="ada", account="ada", **more))
    return [{name: value for name, value in each.items() if name != "id"} for each in answers]


@SETTINGS
@given(
    shared=st.lists(texts, max_size=4),
    secret=st.lists(texts, min_size=1, max_size=3),
    asked=st.lists(queries, max_size=3),
    within=st.lists(texts, max_size=3),
)
def test_in_a_colleagues_turn(
    gateway: ThreadedGateway, shared: list[str], secret: list[str], asked: list[str], within: list[str]
) -> None:
    """Bob's prompt runs on a node of ada's: its agent reaches neither ada's memory nor bob's own."""
    gateway.service.gateway.waiting_account = None

    async def work() -> None:
        number = next(_numbers)
        go = asyncio.Event()

        async def wait(node: Worker, run: dict[str, Any]) -> str:
            if run["message"] == "go":
                await go.wait()
            return "done"

        async with (
            await person(gateway, f"ada{number}", f"red{number}") as ada,
            await person(gateway, f"bob{number}", f"red{number}") as bob,
            Worker(_As(ada), f"Lab{number}", wait) as lab,
            BareClient(_As(bob)) as client,
        ):
            await ada.http.post(f"/nodes/{lab.node_id}/scope", json={"scope": "enterprise"})
            accepted = await begin(client, message="go", target_node_id=lab.node_id)
            run_id = accepted["run_id"]
            await until(lambda: lab.runs)
            for text in shared:
                await ada.keep(text, "enterprise")
            for text in within:
                assert (await lab.memory("save", content=text, run_id=run_id))["ok"]
            asks, talks = [*asked, *secret], ["talk", accepted["session_id"]]
            before = await frames(lab, run_id, asks, talks)
            for who in (ada, bob):
                await who.chat("talk")
                for text in secret:
                    await who.keep(f"{text} of {who.account}", tags=["laser"])
                    await who.keep(text, "session", session_id="talk")
                await who.found(secret[0])
            after = await frames(lab, run_id, asks, talks)
            assert after == before
            refused = [each["error"]["code"] for each in after if not each["ok"]]
            assert refused == ["permission_needed"] * 2
            found = {(each["level"], each["content"]) for answer in after for each in answer["memories"]}
            assert found <= {("enterprise", each) for each in shared} | {("session", each) for each in within}
            go.set()

    asyncio.run(work())


class _As:
    """The gateway as somebody reaches it."""

    def __init__(self, who: Person) -> None:
        self.url, self.token, self._who = who.url, who.token, who
        self.client_url = re.sub("^http", "ws", who.url) + "/ws/client"

    async def approve(self, code: str) -> None:
        answer = await self._who.http.post(f"/nodes/pending/{code}/approve")
        assert answer.status_code == 200, answer.text
