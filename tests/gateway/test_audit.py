"""The audit trail: who did what, newest first, in pages, and not without end."""

from __future__ import annotations

from typing import Any

import pytest
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.gateway import audit


@sync
async def test_every_act_is_one_row(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        async with BareDevice(gateway.node_url, "Pi", features=["update"]) as device:
            await gateway.pair(device)
            device.answer()
            await invoke(http, "Pi", params={"secret": "hunter2"})
            await invoke(http, "Pi", "nothing")
            await invoke(http, "Pi", params={"a": 1}, timeout=20)
            url = f"/nodes/devices/{device.node_id}"
            await http.post(f"{url}/status", json={"status": "paused"})
            await http.post(f"{url}/status", json={"status": "paused"})
            await invoke(http, "Pi")
            await http.post(f"{url}/status", json={"status": "active"})
            host = (await http.post("/nodes/host-token", json={"name": "script"})).json()
            async with gateway.http(headers={"Authorization": f"Bearer {host['token']}"}) as script:
                await invoke(script, "Pi")
            await http.post("/nodes/config", json={"display_name": "Lab"})
            await http.post(f"{url}/revoke")
        async with BareDevice(gateway.node_url, "Stranger") as stranger:
            await http.post(f"/nodes/pending/{await stranger.code()}/deny")
        page = (await http.get("/audit")).json()
        rows = [(row["action"], row["actor"], row["node"], row["command"], row["outcome"]) for row in page["entries"]]
        node = f"device:{device.node_id}"
        assert sorted(rows) == sorted(
            [
                ("device.approve", "kernel", "Pi", "", "ok"),
                ("node.connect", node, "Pi", "", "ok"),
                ("invoke", "kernel", "Pi", "echo", "ok"),
                ("invoke", "kernel", "Pi", "nothing", "unknown_command"),
                ("invoke", "kernel", "Pi", "echo", "ok"),
                ("device.pause", "kernel", "Pi", "", "ok"),
                ("invoke", "kernel", "Pi", "echo", "paused"),
                ("device.resume", "kernel", "Pi", "", "ok"),
                ("token.create", "kernel", "script", "", "ok"),
                ("invoke", f"token:{host['device_id']}", "Pi", "echo", "ok"),
                ("config", "kernel", "", "", "ok"),
                ("device.revoke", "kernel", "Pi", "", "ok"),
                ("node.disconnect", node, "Pi", "", "ok"),
                ("device.deny", "kernel", "Stranger", "", "ok"),
            ]
        )
        ids = [row["id"] for row in page["entries"]]
        assert ids == sorted(ids, reverse=True)
        assert (page["count"], page["next"]) == (14, None)
        assert "hunter2" not in (await http.get("/audit")).text
        by_action = {row["action"]: row for row in page["entries"]}
        assert by_action["device.approve"]["detail"] == {"remote": "127.0.0.1", "commands": ["echo"]}
        assert by_action["device.approve"]["node_id"] == device.node_id
        assert by_action["config"]["detail"] == {"display_name": "Lab"}
        assert all(row["duration_ms"] > 0 for row in page["entries"] if row["outcome"] == "ok" and row["command"])


@sync
async def test_pages(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer()
        for _ in range(23):
            await invoke(http, "MyPhone")
        seen: list[int] = []
        before = ""
        sizes = []
        while True:
            page = (await http.get(f"/audit?limit=10{before}")).json()
            assert page["count"] == len(page["entries"])
            sizes.append(page["count"])
            seen += [row["id"] for row in page["entries"]]
            if page["next"] is None:
                break
            before = f"&before={page['next']}"
        assert sizes == [10, 10, 5]
        assert (len(set(seen)), seen) == (25, sorted(seen, reverse=True))


@pytest.mark.parametrize("query", ["limit=0", "limit=1001", "limit=x", "limit=-1", "limit=1.5", "before=0", "before=é"])
@sync
async def test_odd_pages_are_refused(gateway: ThreadedGateway, query: str) -> None:
    async with gateway.http() as http:
        assert error_of(await http.get(f"/audit?{query}")) == (422, "invalid_request")


@sync
async def test_the_oldest_rows_go_first(make_gateway: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(audit, "_PRUNE_EVERY", 5)
    gateway: ThreadedGateway = make_gateway(tmp_path / "data", limits={"audit_rows": 20})
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer()
        for _ in range(40):
            await invoke(http, "MyPhone")
            page = (await http.get("/audit?limit=1000")).json()
            assert page["count"] < 25
        newest = page["entries"][0]["id"]
        assert [row["id"] for row in page["entries"]] == list(range(newest, newest - page["count"], -1))


@sync
async def test_a_gateway_that_is_restarted_often_prunes_too(make_gateway: Any, tmp_path: Any) -> None:
    for limits in ({}, {"audit_rows": 5}):
        gateway: ThreadedGateway = make_gateway(tmp_path / "data", limits=limits)
        async with gateway.http() as http:
            for number in range(15):
                await http.post("/nodes/config", json={"display_name": f"Name {number}"})
            count = (await http.get("/audit")).json()["count"]
        gateway.stop()
    # Pruned once, at the first row of the second life.
    assert count == 5 + 14


@sync
async def test_an_origin_nested_to_the_brink_poisons_no_page(gateway: ThreadedGateway) -> None:
    from support.client import BareClient

    origin: Any = "cell"
    for _ in range(400):
        origin = {"o": origin}
    async with BareDevice(gateway.node_url) as device, gateway.http() as http, BareClient(gateway) as client:
        await gateway.pair(device)
        device.answer()
        await client.send(type="invoke", id=1, node="MyPhone", command="echo", origin=origin)
        assert (await client.recv("result"))["success"] is True
        assert (await http.get("/audit")).status_code == 200


@sync
async def test_every_row_of_a_call_says_where_it_came_from(gateway: ThreadedGateway) -> None:
    from support.client import BareClient

    async with BareDevice(gateway.node_url) as device, gateway.http() as http, BareClient(gateway) as client:
        await gateway.pair(device)
        device.answer()
        for origin in ({"notebook": "a.ipynb", "cell": 3}, "text", {"x": "y" * 5000}):
            await client.send(type="invoke", id=1, node="MyPhone", command="echo", origin=origin)
            await client.recv("result")
        origins = [row["origin"] for row in (await http.get("/audit")).json()["entries"] if row["action"] == "invoke"]
        assert origins == [{}, {}, {"notebook": "a.ipynb", "cell": 3}]


@sync
async def test_ids_follow_time_also_of_calls_that_are_gathered(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer()
        for status in ("paused", "active"):
            await http.post("/nodes/MyPhone/invoke", json={"command": "echo"})
            await http.post(f"/nodes/devices/{device.node_id}/status", json={"status": status})
        entries = (await http.get("/audit")).json()["entries"]
        actions = [entry["action"] for entry in entries]
        assert actions[:4] == ["device.resume", "invoke", "device.pause", "invoke"]
        assert [entry["at"] for entry in entries] == sorted((entry["at"] for entry in entries), reverse=True)
