"""Memory of users who are logged in to one Jupyter server: through the mount."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from support.calls import error_of
from support.gateways import JupyterServer
from support.household import household, start
from support.running import sync


def test_each_sees_their_own_and_their_organisations(
    start_jupyter: Callable[..., JupyterServer], tmp_path: Path
) -> None:
    server = start(start_jupyter, tmp_path)

    @sync
    async def work() -> None:
        async with household(server, {}) as house:
            for user, http in house.http.items():
                kept = await http.post("/memory", json={"content": f"safe of {user}"})
                assert kept.status_code == 200, kept.text
                shared = {"content": f"door of {user}", "level": "enterprise"}
                answer = await http.post("/memory", json=shared)
                assert answer.status_code == (409 if user == "dan" else 200), answer.text
            seen = {
                "ada": {"safe of ada", "door of ada", "door of bob"},
                "bob": {"safe of bob", "door of ada", "door of bob"},
                "eve": {"safe of eve", "door of eve"},
                "dan": {"safe of dan"},
            }
            ids = {}
            for user, http in house.http.items():
                for query in ("", "safe door", "safe of ada bob eve dan door"):
                    found = (await http.get("/memory", params={"query": query})).json()["memories"]
                    assert {each["content"] for each in found} == seen[user], (user, query)
                ids |= {each["content"]: each["memory_id"] for each in found}
            for user, http in house.http.items():
                for other in seen:
                    body = {"ids": [ids[f"safe of {other}"]]}
                    if other != user:
                        refused = await http.request("DELETE", "/memory", json=body)
                        assert error_of(refused) == (404, "memory_unknown")
            eve = house.http["eve"]
            wrong = {"ids": [ids["door of ada"]], "level": "enterprise"}
            assert error_of(await eve.request("DELETE", "/memory", json=wrong)) == (404, "memory_unknown")
            mine = {"ids": [ids["safe of eve"]]}
            assert (await eve.request("DELETE", "/memory", json=mine)).json() == {"success": True, "forgotten": 1}
            assert (await eve.get("/memory", params={"level": "account"})).json()["count"] == 0

    work()
