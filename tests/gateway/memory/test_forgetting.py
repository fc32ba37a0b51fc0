"""What is forgotten is gone from the file; what belongs to a conversation goes with it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from support.calls import error_of
from support.gateways import ThreadedGateway
from support.grants import grant
from support.memories import person
from support.running import sync
from support.turns import ask

from suzent_jupyter.gateway.memory.terms import indexed

Make = Callable[..., ThreadedGateway]

SECRET = "Grandma's safe opens with xyzzy plugh; Schlüsselbrett 鍵の場所"


def in_files(directory: Path, text: str) -> list[str]:
    """Return what of a text is in the store's files: itself, its words, and what stands for them in an index."""
    sought = [text, *text.split()[3:], *indexed(text, [])]
    content = b"".join(path.read_bytes() for path in directory.glob("suzent.db*"))
    return [each for each in sought if each.encode() in content]


@sync
async def test_nothing_is_left_in_the_file(make_gateway: Make) -> None:
    gateway = make_gateway()
    async with await person(gateway, "ada") as ada:
        for number in range(300):
            await ada.keep(
                f"kept as note {number}qx {number * 7919}qx {number * 104729}qx"
            )  # as nothing else is written
            if number == 150:
                secret = (await ada.keep(SECRET, tags=["foursquare"]))["memory"]["memory_id"]
        directory = gateway.config.data_dir
        assert SECRET in in_files(directory, SECRET)
        assert in_files(directory, "foursquare")
        answer = await ada.forget(secret)
        assert answer.json() == {"success": True, "forgotten": 1}
        # At once: whoever was told that it is gone need not wait for a checkpoint.
        assert in_files(directory, SECRET) == []
        assert in_files(directory, "foursquare") == []
        assert await ada.found("xyzzy") == []
        assert len(await ada.found("note", limit=1000)) == 300
        await ada.forget(everything=True)
        assert in_files(directory, "kept as note 299qx 2367581qx 31313971qx") == []
        assert await ada.found() == []
        rows = (await ada.http.get("/audit")).json()["entries"]
        assert [row["detail"] for row in rows if row["action"] == "memory.forget"] == [
            {"level": "account", "entries": 300}, {"level": "account", "entries": 1},
        ]  # fmt: skip
        assert "xyzzy" not in str(rows)
    gateway.stop()
    with closing(sqlite3.connect(directory / "suzent.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert [row for row in connection.execute("SELECT name FROM sqlite_master") if "memory_index" in row[0]] == []


@sync
async def test_all_or_none(gateway: ThreadedGateway) -> None:
    async with await person(gateway, "ada") as ada:
        one, two = [(await ada.keep(text))["memory"]["memory_id"] for text in ("one", "two")]
        for ids in ([one, "0000000000000"], [one, "x"], [one, two.upper() + "'"], ["*"], [""]):
            assert error_of(await ada.forget(*ids)) == (404, "memory_unknown"), ids
        for body in ({"ids": []}, {"ids": [one], "everything": True}):
            answer = await ada.http.request("DELETE", "/memory", json=body)
            assert error_of(answer) == (422, "invalid_request")
        assert len(await ada.found()) == 2
        assert (await ada.forget(one, one, two)).json()["forgotten"] == 2
        assert error_of(await ada.forget(one)) == (404, "memory_unknown")
        assert (await ada.forget(everything=True)).json()["forgotten"] == 0


@sync
async def test_who_may_forget_what_an_organisation_shares(make_gateway: Make) -> None:
    gateway = make_gateway(org="red")
    async with (
        await person(gateway, "ada", "red") as ada,  # whose gateway it is
        await person(gateway, "bob", "red") as bob,
        await person(gateway, "cat", "red") as cat,
    ):
        kept = {}
        for who in (ada, bob, cat):
            kept[who.account] = (await who.keep(f"by {who.account}", "enterprise"))["memory"]
        assert {each["by"] for each in await bob.found()} == {"ada", "bob", "cat"}
        assert error_of(await bob.forget(kept["cat"]["memory_id"], level="enterprise")) == (403, "not_owner")
        assert (await bob.forget(level="enterprise", everything=True)).json()["forgotten"] == 1
        assert sorted(await cat.texts()) == ["by ada", "by cat"]
        assert (await ada.forget(kept["cat"]["memory_id"], level="enterprise")).json()["forgotten"] == 1
        assert await cat.texts() == ["by ada"]


@sync
async def test_a_conversations_memory_goes_with_it(make_gateway: Make) -> None:
    gateway = make_gateway(limits={"peer_conversations": 2})
    async with await person(gateway, "ada") as ada:
        refused = await ada.http.post("/memory", json={"content": "x", "level": "session", "session_id": "none"})
        assert error_of(refused) == (404, "conversation_unknown")
        device_id, headers = await grant(gateway)
        async with gateway.http(headers=headers) as peer:
            for name in ("a", "b"):
                await ask(peer, "/channels/suzent/inbound", {"content": "x", "chat_id": name})
                place = {"session_id": f"suzent:{device_id}:{name}"}
                await ada.keep(f"about {name}", "session", **place)
            assert await ada.texts("about", session_id=f"suzent:{device_id}:a") == ["about a"]
            assert in_files(gateway.config.data_dir, "about a")
            await ask(peer, "/channels/suzent/inbound", {"content": "x", "chat_id": "c"})
        assert await ada.texts("about", session_id=f"suzent:{device_id}:a") == []
        assert await ada.texts("about", session_id=f"suzent:{device_id}:b") == ["about b"]


@sync
async def test_the_oldest_conversations_make_room(make_gateway: Make) -> None:
    gateway = make_gateway(limits={"memory_sessions": 3})
    async with await person(gateway, "ada") as ada, await person(gateway, "bob") as bob:
        await bob.chat("c0")
        await bob.keep("bob's", "session", session_id="c0")
        for number in range(4):
            await ada.chat(f"c{number}")
        for number in range(3):
            await ada.keep(f"kept in c{number}", "session", session_id=f"c{number}")
        await ada.keep("c0 is used again", "session", session_id="c0")
        await ada.keep("kept in c3", "session", session_id="c3")
        left = [len(await ada.found("kept again", session_id=f"c{number}")) for number in range(4)]
        assert left == [2, 0, 1, 1]
        assert await bob.texts("bob", session_id="c0") == ["bob's"]
