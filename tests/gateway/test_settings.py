"""Settings an operator changes are remembered; command line and config file beat them."""

from __future__ import annotations

from typing import Any

import pytest
from support.calls import error_of
from support.client import BareClient
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.gateway.settings import Settings


@sync
async def test_changes_are_in_force_at_once_and_remembered(make_gateway: Any, tmp_path: Any) -> None:
    changes = {
        "nodes_enabled": False,
        "node_discovery_enabled": False,
        "display_name": "Lab  gateway\n",
        "denied_commands": ["shell.*"],
    }
    shown = {**changes, "display_name": "Lab gateway", "node_lan_bind": False}
    gateway: ThreadedGateway = make_gateway(tmp_path / "data")
    async with gateway.http() as http:
        answer = (await http.post("/nodes/config", json=changes)).json()
        assert answer == {"success": True, "restart_required": False, **shown}
        async with BareClient(gateway) as client:
            assert client.hello["gateway"] == "Lab gateway"
    gateway.stop()
    again: ThreadedGateway = make_gateway(tmp_path / "data")
    async with again.http() as http:
        config = (await http.get("/nodes/config")).json()
        assert {name: config[name] for name in shown} == shown
        assert (config["fixed"], config["store"], config["restart_required"]) == ([], "ok", False)
    again.stop()


@sync
async def test_the_config_file_beats_the_store_and_can_not_be_changed_here(make_gateway: Any, tmp_path: Any) -> None:
    first: ThreadedGateway = make_gateway(tmp_path / "data")
    async with first.http() as http:
        await http.post("/nodes/config", json={"display_name": "Remembered", "denied_commands": ["a"]})
    first.stop()
    fixed = Settings(display_name="From the file", fixed=frozenset(["display_name"]))
    second: ThreadedGateway = make_gateway(tmp_path / "data", settings=fixed)
    async with second.http() as http:
        config = (await http.get("/nodes/config")).json()
        assert (config["display_name"], config["denied_commands"]) == ("From the file", ["a"])
        assert config["fixed"] == ["display_name"]
        answer = await http.post("/nodes/config", json={"display_name": "Other", "denied_commands": ["b"]})
        assert error_of(answer) == (422, "invalid_request")
        assert "display_name" in answer.json()["error"]
        # All or nothing.
        assert (await http.get("/nodes/config")).json()["denied_commands"] == ["a"]
        same = await http.post("/nodes/config", json={"display_name": "From the file"})
        assert same.status_code == 200


@sync
async def test_lan_bind_waits_for_a_restart(gateway: ThreadedGateway) -> None:
    async with gateway.http() as http:
        answer = (await http.post("/nodes/config", json={"node_lan_bind": True})).json()
        assert (answer["success"], answer["node_lan_bind"], answer["restart_required"]) == (True, True, True)
        config = (await http.get("/nodes/config")).json()
        assert (config["node_lan_bind"], config["binding_active"], config["restart_required"]) == (True, False, True)
        assert config["port"] == gateway.service.port
        assert config["gateway_url"] == gateway.node_url
        back = (await http.post("/nodes/config", json={"node_lan_bind": False})).json()
        assert back["restart_required"] is False


@pytest.mark.parametrize(
    "body",
    [
        {"nodes_enabled": "yes"},
        {"nodes_enabled": 1},
        {"display_name": ""},
        {"display_name": "\u202e\n"},
        {"display_name": 5},
        {"denied_commands": "shell.*"},
        {"denied_commands": [5]},
        {"listener_port": 1},
        {"unknown": True},
        {"fixed": []},
        [],
    ],
)
@sync
async def test_what_can_not_be_set_is_refused(gateway: ThreadedGateway, body: Any) -> None:
    async with gateway.http() as http:
        before = (await http.get("/nodes/config")).json()
        assert error_of(await http.post("/nodes/config", json=body)) == (422, "invalid_request")
        assert (await http.get("/nodes/config")).json() == before


@sync
async def test_config_shows_every_limit(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"invoke_timeout": 7.0})
    async with gateway.http() as http:
        limits = (await http.get("/nodes/config")).json()["limits"]
    assert (limits["invoke_timeout"], limits["calls_in_flight"], limits["frame_bytes"]) == (7.0, 64, 26214400)


@sync
async def test_lan_bind_is_in_force_after_the_restart(make_gateway: Any, tmp_path: Any) -> None:
    first: ThreadedGateway = make_gateway(tmp_path / "data")
    async with first.http() as http:
        await http.post("/nodes/config", json={"node_lan_bind": True})
    first.stop()
    second: ThreadedGateway = make_gateway(tmp_path / "data")
    async with second.http() as http:
        config = (await http.get("/nodes/config")).json()
    assert (config["node_lan_bind"], config["binding_active"], config["restart_required"]) == (True, True, False)
