"""Bodies have exactly the fields Suzent's programs read, under the names they read them."""

from __future__ import annotations

from typing import Any

from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync

NODE = {"node_id", "display_name", "platform", "status", "connected_at", "capabilities"}
CAPABILITY = {"name", "description", "params_schema"}
PENDING = {"pairing_code", "display_name", "platform", "capabilities", "requested_at"}
DEVICE = (
    "device_id display_name platform scope status token_hint callback_url node_identity approved_at trigger_count "
    "last_triggered_at connected"
).split()
CONFIG = {"nodes_enabled", "node_lan_bind", "binding_active", "port", "addresses", "lan_host", "gateway_url"}
STRINGS = {"status", "platform", "display_name", "token_hint", "callback_url", "node_identity", "approved_at"}


@sync
async def test_annex_a(gateway: ThreadedGateway) -> None:
    capability = {"name": "speak", "description": "Says it.", "params_schema": {"text": "str"}}
    async with BareDevice(gateway.node_url, "Pi", [capability]) as device, gateway.http() as http:
        code = await device.code()

        async def get(path: str) -> Any:
            return (await http.get(path)).json()

        pending = await get("/nodes/pending")
        assert (set(pending), pending["count"]) == ({"pending", "count"}, 1)
        assert set(pending["pending"][0]) >= PENDING
        assert set(pending["pending"][0]["capabilities"][0]) >= CAPABILITY

        approved = (await http.post(f"/nodes/pending/{code}/approve")).json()
        assert set(approved) >= {"success", "message"}
        await device.joined()
        device.answer()

        nodes = await get("/nodes")
        assert (set(nodes), nodes["count"]) == ({"nodes", "count"}, 1)
        [node] = nodes["nodes"]
        assert set(node) >= NODE
        assert (node["status"], node["capabilities"][0]["params_schema"]) == ("connected", {"text": "str"})
        assert set(node["capabilities"][0]) >= CAPABILITY
        assert await get(f"/nodes/{device.node_id}") == node

        answer = (await http.post("/nodes/Pi/invoke", json={"command": "speak", "params": {"text": "hi"}})).json()
        assert answer == {"success": True, "result": {"text": "hi"}, "error": None}

        devices = await get("/nodes/devices")
        assert (set(devices), devices["count"]) == ({"devices", "count"}, 1)
        [listed] = devices["devices"]
        assert set(listed) >= set(DEVICE)
        assert (listed["scope"], listed["trigger_count"], listed["connected"]) == ("node", 0, True)
        assert all(isinstance(listed[name], str) for name in STRINGS)

        status = await http.post(f"/nodes/devices/{device.node_id}/status", json={"status": "paused"})
        assert status.json() == {"success": True, "status": "paused"}
        revoked = await http.post(f"/nodes/devices/{device.node_id}/revoke")
        assert set(revoked.json()) >= {"success", "message"}

        host = (await http.post("/nodes/host-token", json={})).json()
        assert (set(host), host["scope"]) == ({"device_id", "token", "scope"}, "full")
        assert (await http.post("/nodes/host-token")).status_code == 200  # a body is not needed

        config = await get("/nodes/config")
        assert set(config) >= CONFIG
        assert [set(each) >= {"label", "host", "gateway_url"} for each in config["addresses"]] == [True]
        changed = (await http.post("/nodes/config", json={"node_lan_bind": False})).json()
        assert set(changed) >= {"success", "node_lan_bind", "restart_required"}

        assert await get("/nodes/peers") == {"peers": [], "count": 0, "requests": []}
        assert await get("/nodes/peers?refresh=1") == {"peers": [], "count": 0, "requests": []}
        assert await get("/nodes/grants") == {"grants": [], "count": 0}
        assert (await get("/nodes/connections")).items() >= {"connections": [], "count": 0}.items()
        assert (await http.post("/nodes/pending/ZZZZZZ/approve")).status_code == 404


@sync
async def test_times_are_utc_and_answers_are_not_cached(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        answer = await http.get("/nodes")
        [node] = answer.json()["nodes"]
        assert node["connected_at"].endswith("+00:00")
        assert node["connected_at"][10] == "T"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        assert answer.headers["Content-Type"] == "application/json"
