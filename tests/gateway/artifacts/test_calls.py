"""Large files in a call's parameters: references for nodes that know them, inside the frame for all others."""

from __future__ import annotations

import asyncio
import base64
import os
from collections.abc import Callable
from typing import Any

import pytest
from support.client import BareClient
from support.device import BareDevice
from support.executing import Worker
from support.gateways import ThreadedGateway
from support.kept import digest, fetched, kept_files, knowing, part
from support.running import sync, until

KIB64 = 64 * 1024
BLOB = os.urandom(KIB64 + 1)
MakeGateway = Callable[..., ThreadedGateway]


async def invoke(gateway: ThreadedGateway, device: Any, params: Any, **more: Any) -> Any:
    async with gateway.http() as http:
        node = device if isinstance(device, str) else device.node_id
        return await http.post(f"/nodes/{node}/invoke", json={"command": "echo", "params": params, **more})


async def echoed(gateway: ThreadedGateway, device: Any, params: Any) -> Any:
    answer = await invoke(gateway, device, params)
    assert answer.status_code == 200, answer.text
    assert answer.json()["success"], answer.text
    return answer.json()["result"]


async def refused(gateway: ThreadedGateway, device: Any, params: Any, **more: Any) -> str:
    answer = await invoke(gateway, device, params, **more)
    assert answer.status_code >= 400, answer.text
    return str(answer.json()["code"])


@sync
async def test_only_what_is_larger_than_the_limit_becomes_a_reference(gateway: ThreadedGateway) -> None:
    async with knowing(gateway) as device:
        await gateway.pair(device)
        device.answer()
        for small in (BLOB[:-2], BLOB[:-1]):
            assert await echoed(gateway, device, {"image": part(small)}) == {"image": part(small)}
        assert kept_files(gateway) == []
        for data in (BLOB, os.urandom(20_000_000)):
            result = await echoed(gateway, device, {"n": 1, "image": part(data, name="a.png", width=3)})
            reference = result["image"]
            assert result["n"] == 1
            assert "base64" not in reference
            said = [reference[name] for name in ("media_type", "name", "size", "sha256", "width", "data_url")]
            assert said == ["image/png", "a.png", len(data), digest(data), 3, False]
            answer = await fetched(gateway, reference["url"])
            assert answer.status_code == 200
            assert answer.content == data
        assert [path.stat().st_size for path in kept_files(gateway)].count(20_000_000) == 1


@sync
async def test_content_in_lists_and_data_urls_and_the_same_twice(gateway: ThreadedGateway) -> None:
    other = BLOB[::-1]
    url = f"data:image/jpeg;base64,{base64.b64encode(other).decode()}"
    async with knowing(gateway) as device:
        await gateway.pair(device)
        device.answer()
        params = {"all": [[part(BLOB, name="1")], {"deep": [part(BLOB, name="2"), url, "data:,x"]}]}
        for _ in range(2):
            result = await echoed(gateway, device, params)
            first, (second, third, text) = result["all"][0][0], result["all"][1]["deep"]
            assert (first["sha256"], second["sha256"], third["sha256"]) == (digest(BLOB), digest(BLOB), digest(other))
            assert (first["name"], second["name"], text) == ("1", "2", "data:,x")
            assert (third["data_url"], third["media_type"]) == (True, "image/jpeg")
            assert len(kept_files(gateway)) == 2  # the same content is kept once
            for reference, data in ((first, BLOB), (second, BLOB), (third, other)):
                assert (await fetched(gateway, reference["url"])).content == data


@sync
async def test_every_way_to_call_hoists(gateway: ThreadedGateway) -> None:
    data = os.urandom(20 * 1024 * 1024)
    async with (
        Worker(gateway, "App", features=["artifacts"]) as app,
        Worker(gateway, "Caller") as caller,
        BareClient(gateway) as client,
    ):
        result = await caller.call(app.node_id, command="echo", params={"image": part(data)}, timeout_ms=60_000)
        assert result["ok"], result
        assert result["result"]["image"]["sha256"] == digest(data)
        await client.send(type="invoke", id=1, node="App", command="echo", params={"image": part(data)})
        result = await client.recv("result", 30)
        assert result["result"]["image"]["sha256"] == digest(data)
        assert len(kept_files(gateway)) == 1


@sync
async def test_names_are_names_and_never_paths(gateway: ThreadedGateway) -> None:
    async with knowing(gateway) as device:
        await gateway.pair(device)
        device.answer()
        before = {path for path in gateway.config.data_dir.parent.rglob("*") if "artifacts" not in path.parts}
        for name in (
            "../../evil.png",
            "..\\..\\evil.png",
            "/etc/evil.png",
            "C:\\evil.png",
            "a/../evil.png",
            "evil.png\0",
        ):
            result = await echoed(gateway, device, {"image": part(BLOB, name=name)})
            assert result["image"]["name"] == "evil.png", name
            assert ".." not in result["image"]["url"]
        assert (await echoed(gateway, device, {"image": part(BLOB, name="..")}))["image"]["name"] in ("", "file")
        after = {path for path in gateway.config.data_dir.parent.rglob("*") if "artifacts" not in path.parts}
        assert {path for path in after - before if path.suffix not in (".db-wal", ".db-shm")} == set()


@sync
async def test_broken_base64_is_refused_by_its_place_and_nothing_is_sent(gateway: ThreadedGateway) -> None:
    async with knowing(gateway) as device:
        await gateway.pair(device)
        got: list[Any] = []
        device.answer(lambda command, params: got.append(params))
        broken = {"media_type": "image/png", "base64": part(BLOB)["base64"][:-9] + "!" * 9}
        answer = await invoke(gateway, device, {"good": part(BLOB), "bad": [broken]})
        assert (answer.status_code, answer.json()["code"]) == (422, "invalid_params")
        assert "`bad[0]`" in answer.json()["error"]
        assert got == []
        await until(lambda: len(kept_files(gateway)) == 1)  # of the broken one nothing is left


@sync
async def test_other_nodes_get_it_all_inside(gateway: ThreadedGateway) -> None:
    params = {"image": part(BLOB), "url": f"data:image/png;base64,{part(BLOB)['base64']}"}
    async with BareDevice(gateway.node_url, "Old") as old, BareDevice(gateway.node_url, "New", features=[]) as new:
        for device in (old, new):
            await gateway.pair(device)
            device.answer()
            assert await echoed(gateway, device, params) == params
    assert kept_files(gateway) == []


async def posted(gateway: ThreadedGateway, data: bytes, token: str | None = None, **query: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {token or gateway.token}", "Content-Type": "image/png"}
    async with gateway.http(headers=headers) as http:
        answer = await http.post("/artifacts", content=data, params=query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json()["artifact"])


@sync
async def test_a_reference_that_a_caller_passes_is_put_inside_for_others(gateway: ThreadedGateway) -> None:
    reference = await posted(gateway, BLOB, name="a.png")
    async with BareDevice(gateway.node_url, "New", features=[]) as device, knowing(gateway) as scope:
        for each in (device, scope):
            await gateway.pair(each)
            each.answer()
        result = await echoed(gateway, device, {"images": [reference], "url": {**reference, "data_url": True}})
        assert result["images"] == [part(BLOB, name="a.png")]
        assert result["url"] == f"data:image/png;base64,{part(BLOB)['base64']}"
        result = await echoed(gateway, scope, {"images": [reference]})
        assert result["images"][0]["sha256"] == digest(BLOB)
        assert (await fetched(gateway, result["images"][0]["url"])).content == BLOB


@sync
async def test_a_reference_is_taken_where_bytes_are_declared(gateway: ThreadedGateway) -> None:
    schema = {"properties": {"image": {"type": ["string", "object"], "contentEncoding": "base64"}}}
    capabilities = [{"name": "echo", "params_schema": {"image": "bytes"}, "input_schema": schema}]
    reference = await posted(gateway, BLOB)
    async with BareDevice(gateway.node_url, "New", capabilities, features=[]) as device:
        await gateway.pair(device)
        device.answer()
        assert await echoed(gateway, device, {"image": reference}) == {"image": part(BLOB)}


@sync
async def test_references_that_lead_nowhere(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"frame_bytes": 1_000_000})
    reference = await posted(gateway, BLOB)
    large = await posted(gateway, os.urandom(800_000))
    elsewhere = {**reference, "url": "https://example.org/x.png", "sha256": "0" * 64}
    async with BareDevice(gateway.node_url, "New", features=[]) as device:
        await gateway.pair(device)
        got: list[Any] = []
        device.answer(lambda command, params: got.append(params) or params)
        for wrong in ({"sha256": "0" * 64}, {"sha256": "0" * 64, "url": "/artifacts/af_x?expires=1&signature=2"}):
            assert await refused(gateway, device, {"file": {**reference, **wrong}}) == "artifact_unknown"
        assert await refused(gateway, device, {"file": large}) == "too_large"
        assert got == []
        assert await echoed(gateway, device, {"file": elsewhere}) == {"file": elsewhere}  # not ours to judge
        [path] = [path for path in kept_files(gateway) if path.stat().st_size == len(BLOB)]
        path.write_bytes(BLOB[::-1])
        assert await refused(gateway, device, {"file": reference}) == "artifact_corrupt"
        path.write_bytes(BLOB[:-9])
        assert await refused(gateway, device, {"file": reference}) == "artifact_corrupt"
        path.unlink()
        assert await refused(gateway, device, {"file": reference}) == "artifact_unknown"
        assert len(got) == 1


@sync
async def test_a_full_store_is_said_and_nothing_is_sent(make_gateway: MakeGateway) -> None:
    gateway = make_gateway(limits={"artifact_store_bytes": 3 * KIB64})
    async with knowing(gateway) as device:
        await gateway.pair(device)
        got: list[Any] = []
        device.answer(lambda command, params: got.append(params))
        answer = await invoke(gateway, device, {"files": [part(os.urandom(KIB64 + 1)) for _ in range(3)]})
        assert (answer.status_code, answer.json()["code"]) == (507, "artifact_store_full")
        assert "artifact_store_bytes" in answer.json()["hint"]
        assert got == []
        await until(lambda: len(kept_files(gateway)) == 2)
        await echoed(gateway, device, {"small": part(b"x" * 100)})
        assert len(got) == 1


@sync
async def test_a_store_that_is_down_is_said_and_nothing_is_sent(make_gateway: MakeGateway, tmp_path: Any) -> None:
    (tmp_path / "file").write_text("no directory")
    gateway = make_gateway(artifact_url=f"file://{tmp_path / 'file'}/below")
    async with knowing(gateway) as device:
        await gateway.pair(device)
        got: list[Any] = []
        device.answer(lambda command, params: got.append(params))
        answer = await invoke(gateway, device, {"image": part(BLOB)})
        assert (answer.status_code, answer.json()["code"]) == (503, "artifact_store_failed")
        assert "artifact_url" in answer.json()["hint"]
        assert str(tmp_path) not in answer.text
        assert got == []
        await echoed(gateway, device, {"small": part(b"x" * 100)})
        assert len(got) == 1


class Held:
    """Holds up every write to the store until :meth:`release`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import threading

        from suzent_jupyter.gateway.artifacts import storage

        self.begun, self.released = threading.Event(), threading.Event()
        write = storage.Draft.write

        def slow(draft: Any, data: bytes) -> None:
            self.begun.set()
            assert self.released.wait(30)
            write(draft, data)

        monkeypatch.setattr(storage.Draft, "write", slow)

    async def under_way(self) -> None:
        await until(self.begun.is_set)

    def release(self) -> None:
        self.released.set()


@sync
async def test_other_calls_go_on_and_the_deadline_counts(
    gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    async with knowing(gateway) as device:
        await gateway.pair(device)
        got: list[Any] = []
        device.answer(lambda command, params: got.append(params) or params)
        slow = asyncio.ensure_future(invoke(gateway, device, {"image": part(BLOB)}, timeout=2))
        await held.under_way()
        for number in range(20):
            assert await echoed(gateway, device, {"n": number}) == {"n": number}
        answer = await slow
        assert (answer.status_code, answer.json()["code"]) == (504, "deadline")
        assert "for its files to be kept" in answer.json()["error"]
        held.release()
        await until(lambda: kept_files(gateway) == [])
        assert got == [{"n": number} for number in range(20)]


@sync
async def test_a_call_can_be_cancelled_while_its_files_are_kept(
    gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    async with knowing(gateway) as device, BareClient(gateway) as client:
        await gateway.pair(device)
        got: list[Any] = []
        device.answer(lambda command, params: got.append(params) or params)
        await client.send(type="invoke", id=1, node="Scope", command="echo", params={"image": part(BLOB)})
        await held.under_way()
        await client.send(type="cancel", id=1)
        assert (await client.recv("result"))["code"] == "cancelled"
        held.release()
        await until(lambda: kept_files(gateway) == [])
        await client.send(type="invoke", id=2, node="Scope", command="echo", params={"n": 1})
        assert (await client.recv("result"))["result"] == {"n": 1}
        assert got == [{"n": 1}]
        session = gateway.service.gateway.registry.by_id(device.node_id)
        assert session.open_calls() == []


@pytest.mark.parametrize("how", ["gone", "revoked", "paused", "denied"])
@sync
async def test_what_changes_while_files_are_kept_ends_the_call(
    gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    held = Held(monkeypatch)
    async with knowing(gateway) as device, gateway.http() as http:
        await gateway.pair(device)
        got: list[Any] = []
        if how != "gone":
            device.answer(lambda command, params: got.append(params) or params)
        slow = asyncio.ensure_future(invoke(gateway, device, {"image": part(BLOB)}))
        await held.under_way()
        match how:
            case "gone":
                await device.ws.close()
            case "revoked":
                await http.post(f"/nodes/devices/{device.node_id}/revoke")
            case "paused":
                await http.post(f"/nodes/devices/{device.node_id}/status", json={"status": "paused"})
            case "denied":
                gateway.call(gateway.service.gateway.settings.apply, {"denied_commands": ["echo"]})
        if how in ("paused", "denied"):
            held.release()
        code = (await slow).json()["code"]
        assert code == {"gone": "node_disconnected", "denied": "command_denied"}.get(how, how)
        held.release()
        assert got == []


@sync
async def test_so_many_calls_wait_for_their_files_and_no_more(
    make_gateway: MakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = make_gateway(limits={"calls_waiting": 3})
    held = Held(monkeypatch)
    async with knowing(gateway) as device:
        await gateway.pair(device)
        device.answer()
        calls = [asyncio.ensure_future(invoke(gateway, device, {"i": part(os.urandom(KIB64 + 1))})) for _ in range(4)]
        done, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert [each.result().json()["code"] for each in done] == ["node_busy"]
        held.release()
        answers = await asyncio.gather(*waiting)
        assert [answer.status_code for answer in answers] == [200] * 3
        assert len(kept_files(gateway)) == 3


@sync
async def test_the_same_key_gets_the_call_whose_files_are_kept(
    gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Held(monkeypatch)
    async with knowing(gateway) as device:
        await gateway.pair(device)
        got: list[Any] = []
        device.answer(lambda command, params: got.append(params) or len(got))
        params = {"image": part(BLOB)}
        calls = [asyncio.ensure_future(invoke(gateway, device, params, idempotency_key="k")) for _ in range(2)]
        await held.under_way()
        held.release()
        assert [(await call).json()["result"] for call in calls] == [1, 1]
        assert (await invoke(gateway, device, params, idempotency_key="k")).json()["result"] == 1
        assert len(got) == 1
