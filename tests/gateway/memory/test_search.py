"""What is found, in which order: words of any script, levels together, and few entries as well as many."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from support.calls import error_of
from support.gateways import ThreadedGateway
from support.memories import person
from support.running import sync

Make = Callable[..., ThreadedGateway]

NOTES = {
    "zeus": "The lab PC is called Zeus and stands in room 4",
    "street": "Das Büro liegt in der Großen Straße, Kaffeemühle im Flur",
    "rain": "明日の東京の天気は雨です",
    "camera": "Use cameraSnap of the PiCam2 for pictures of the yard",
    "kimchi": "김치는 냉장고에 있습니다",
    "path": "Results lie under /data/run_42, see config.yaml",
}


@pytest.mark.parametrize(
    ("query", "note"),
    [
        ("zeus", "zeus"),
        ("What is the lab's PC called?", "zeus"),
        ("GROSSE STRASSE", "street"),
        ("kaffeemühle", "street"),
        ("kaffeemu\u0308hle", "street"),  # the dots as a mark of their own
        ("東京", "rain"),
        ("天気", "rain"),
        ("snap", "camera"),
        ("camera snap", "camera"),
        ("camerasnap", "camera"),
        ("picam2", "camera"),
        ("냉장고", "kimchi"),
        ("run 42", "path"),
        ("config yaml", "path"),
        ("favourite", "zeus"),  # a tag
    ],
)
def test_words_are_found_as_routing_finds_them(gateway: ThreadedGateway, query: str, note: str) -> None:
    @sync
    async def work() -> None:
        async with await person(gateway, "ada") as ada:
            for name, text in NOTES.items():
                await ada.keep(text, tags=["Favourite"] if name == "zeus" else [])
            found = await ada.found(query)
            assert found[0]["content"] == NOTES[note]
            assert found[0]["score"] > 0

    work()


@sync
async def test_the_only_entry_fits_and_what_shares_no_word_does_not(gateway: ThreadedGateway) -> None:
    async with await person(gateway, "ada") as ada:
        await ada.keep("to be or not to be")
        [only] = await ada.found("not to be")  # nothing but stop words
        assert only["score"] > 0
        assert await ada.found("elephant") == []
        assert await ada.found('?! * " ( -') == []
        assert [each["score"] for each in await ada.found()] == [None]


@sync
async def test_better_ones_come_first_and_levels_are_compared(gateway: ThreadedGateway) -> None:
    async with await person(gateway, "ada", "red") as ada:
        for number in range(60):
            await ada.keep(f"measurement {number} of the laser was fine")
        await ada.chat("talk")
        await ada.keep("the laser of this conversation is blue", "session", session_id="talk")
        await ada.keep("blue laser blue", "enterprise")
        found = await ada.found("blue laser", session_id="talk", limit=3)
        assert [each["level"] for each in found] == ["enterprise", "session", "account"]
        scores = [each["score"] for each in found]
        assert scores == sorted(scores, reverse=True) and scores[2] > 0
        # Of equal ones the newest comes first; what is asked for decides how many.
        assert [each["content"][:14] for each in found[2:]] == ["measurement 59"]
        assert len(await ada.found("laser", limit=7)) == 7
        assert len(await ada.found("laser")) == 20
        assert {each["level"] for each in await ada.found("laser", level="enterprise")} == {"enterprise"}
        assert await ada.texts("this conversation") == []


@sync
async def test_all_of_it_comes_in_pages_newest_first(make_gateway: Make) -> None:
    gateway = make_gateway()
    async with await person(gateway, "ada", "red") as ada:
        kept = [(await ada.keep(f"n{number}", "account" if number % 3 else "enterprise"))["memory"]["memory_id"]
                for number in range(20)]  # fmt: skip
        assert [each["memory_id"] for each in await ada.found()] == kept[::-1]
        seen, before = [], ""
        while before is not None:
            params = {"limit": 3} | ({"before": before} if before else {})
            page = (await ada.http.get("/memory", params=params)).json()
            assert 0 < page["count"] <= 3
            seen += [each["memory_id"] for each in page["memories"]]
            before = page["next"]
        assert seen == kept[::-1]
        for wrong in ("x", "' OR 1=1 --", "000000000000", "00000000000000", "G000000000000"):
            assert error_of(await ada.http.get("/memory", params={"before": wrong})) == (422, "invalid_request")


@sync
async def test_what_is_kept_and_how_much(make_gateway: Make) -> None:
    gateway = make_gateway(limits={"memory_chars": 100, "memory_entries": 3, "tags": 2})
    async with await person(gateway, "ada") as ada:
        first = await ada.keep(" a\x1b[31m\u202ered\r\nline ", tags=["x", "x", " ", "y", "z"])
        assert first["created"] is True and first["memory"]["by"].startswith("token:")
        assert (first["memory"]["content"], first["memory"]["tags"]) == ("ared\nline", ["x", "y"])
        again = await ada.keep("ared\nline")
        assert again["created"] is False and again["memory"]["memory_id"] == first["memory"]["memory_id"]
        await ada.keep("b")
        await ada.keep("b", tags=["late"])
        assert await ada.texts("late") == ["b"]
        await ada.keep("c")
        refused = await ada.http.post("/memory", json={"content": "d"})
        assert error_of(refused) == (409, "memory_full")
        assert (await ada.keep("c"))["created"] is False  # nothing new: there is room for that
        for body in ({"content": "e" * 101}, {"content": " \u202e "}, {"content": "e", "level": "world"}, {}):
            assert error_of(await ada.http.post("/memory", json=body)) == (422, "invalid_request"), body
        assert error_of(await ada.http.post("/memory", json={"content": "e", "level": "session"})) == (
            422, "invalid_request",
        )  # fmt: skip
        assert error_of(await ada.http.post("/memory", json={"content": "e", "level": "enterprise"})) == (409, "no_org")
        for query in ({"query": "q" * 101}, {"limit": 0}, {"limit": 1001}, {"level": "*"}):
            assert error_of(await ada.http.get("/memory", params=query)) == (422, "invalid_request"), query
        assert len(await ada.found()) == 3


@sync
async def test_two_save_the_same_at_once(gateway: ThreadedGateway) -> None:
    async with await person(gateway, "ada") as ada:
        answers = await asyncio.gather(*(ada.keep("the same") for _ in range(10)))
        assert sum(each["created"] for each in answers) == 1
        assert len({each["memory"]["memory_id"] for each in answers}) == 1
