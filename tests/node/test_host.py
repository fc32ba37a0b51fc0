"""The life of a device: pairing, keeping its token, coming back, and knowing when to stop."""

from __future__ import annotations

import asyncio
import http
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.running import until
from websockets.asyncio.server import serve

from suzent_jupyter.cli.conformance.played_gateway import PlayedGateway, played_gateway
from suzent_jupyter.node import Backoff, NodeHost, TokenVault, capability
from suzent_jupyter.protocol import SuzentError

Play = Callable[..., NodeHost]
TOKEN = "szt_" + "t" * 43


def test_pairing_shows_the_code_and_keeps_the_token(play: Play, tmp_path: Path) -> None:
    seen: list[tuple[str, str | None]] = []

    @capability("echo")
    def echo(text: str = "") -> str:
        """Say it again."""
        return text

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        frame = visit.connect_frame
        assert frame["type"] == "connect" and frame["display_name"] == "Bench 3" and frame["device_token"] == ""
        assert frame["features"] == ["agent", "cancel", "progress", "update", "artifacts"]
        assert len(frame["node_identity"]) == 32
        assert (frame["description"], frame["tags"], frame["platform"]) == ("A bench", ["lab"], "test")
        [declared] = frame["capabilities"]
        assert declared["description"] == "Say it again." and declared["params_schema"] == {"text": "str"}
        assert declared["input_schema"]["properties"]["text"] == {"type": "string", "default": ""}
        assert visit.offered_extensions == []
        await visit.send({"type": "pending", "pairing_code": "K7M2QX\x1b", "message": "wait"})
        await until(lambda: host.status == "pending")
        assert host.pairing_code == "K7M2QX"
        await visit.welcome(token=TOKEN, node_id="node-7", approved=["echo"], pending_approval=[])
        await until(lambda: host.status == "connected")
        assert (host.node_id, host.pairing_code, host.approved) == ("node-7", None, ["echo"])
        assert (await visit.invoke("echo", {"text": "hi"}))["result"] == "hi"
        await visit.send({"type": "approved", "approved": ["echo", "x"], "pending_approval": ["y"]})
        await until(lambda: host.pending_approval == ["y"])

    host = play(
        script,
        description="A bench",
        tags=["lab"],
        platform="test",
        on_status=lambda host: seen.append((host.status, host.pairing_code)),
    )
    assert [status for status, _ in seen] == ["connecting", "pending", "connected", "connected", "stopped"]
    kept = TokenVault(tmp_path / "vault", keyring=False)
    assert kept.get(f"node:{host.url}:Bench 3") == TOKEN
    assert kept.get("identity:Bench 3") == host.node_identity


def test_the_next_process_comes_back_with_token_and_identity(tmp_path: Path) -> None:
    def host(url: str, name: str = "Bench 3") -> NodeHost:
        return NodeHost(url, name=name, capabilities=[], vault=TokenVault(tmp_path, keyring=False))

    async def main() -> None:
        async with played_gateway() as gateway:
            frames = []
            for name in ("Bench 3", "Bench 3", "Bench 4"):
                device = host(gateway.url, name)
                running = asyncio.create_task(device.run())
                visit = await gateway.visit()
                frames.append(visit.connect_frame)
                await visit.welcome(token=TOKEN if len(frames) == 1 else "")
                await until(lambda device=device: device.status == "connected")
                device.stop()
                assert await running == "stopped"
                assert await visit.ended() == 1000
            first, again, other = frames
            assert first["device_token"] == "" and again["device_token"] == TOKEN and other["device_token"] == ""
            assert first["node_identity"] == again["node_identity"] != other["node_identity"]

    asyncio.run(main())


def test_suzents_own_gateway_says_less_and_that_is_enough(play: Play) -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.send({"type": "pending", "pairing_code": "ABC123", "message": "Waiting"})
        await visit.send({"type": "ping"})
        await visit.next("pong")
        await visit.send({"type": "connected", "node_id": "uuid", "device_token": TOKEN})
        result = await visit.invoke("add", {"a": 1, "b": "2"}, timeout=None)
        assert result == {"type": "result", "request_id": result["request_id"], "success": True, "result": 3}
        await visit.send({"type": "ping"})
        await visit.next("pong", after=3)
        host.update([add])
        await visit.alive()
        assert {frame["type"] for frame in visit.frames} == {"connect", "pong", "result"}

    play(script, capabilities=[add])


def test_capabilities_are_declared_again_while_connected(play: Play) -> None:
    @capability
    def one() -> int:
        return 1

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome()

        @capability
        def two() -> int:
            return 2

        await until(lambda: host.status == "connected")
        host.update()
        update = await visit.next("update")
        assert [each["name"] for each in update["capabilities"]] == ["one", "two"]
        assert (await visit.invoke("two"))["result"] == 2

    play(script)


def test_events_go_out_and_say_so_when_they_can_not(play: Play) -> None:
    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        with pytest.raises(SuzentError, match="not connected"):
            host.send_event("motion")
        await visit.welcome()
        await until(lambda: host.status == "connected")
        host.send_event("motion", {"at": Path("/x"), "level": float("nan")})
        await asyncio.to_thread(host.send_event, "from a thread")
        event = await visit.next("event")
        assert event == {"type": "event", "event": "motion", "data": {"at": "/x", "level": None}}
        await visit.wait_for(lambda frame: frame.get("event") == "from a thread")
        with pytest.raises(ValueError, match="no JSON form"):
            host.send_event("odd", {"x": object()})

    play(script, capabilities=[])


@pytest.mark.parametrize("code", [1000, 1001, 1006, 1009, 1011, 1012, 1013, 4008, 4009])
def test_these_ends_are_tried_again_with_the_same_token(play: Play, code: int) -> None:
    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome(token=TOKEN)
        await until(lambda: host.status == "connected")
        if code == 1006:
            visit.abort()
        else:
            await visit.close(code, "reason\x1b[0m")
        visit = await gateway.visit()
        assert visit.connect_frame["device_token"] == TOKEN
        await visit.welcome()
        await until(lambda: host.status == "connected")

    statuses: list[tuple[str, str | None, float | None]] = []
    play(script, capabilities=[], on_status=lambda host: statuses.append((host.status, host.last_error, host.retry_in)))
    status, error, delay = statuses[2]
    assert status == "reconnecting" and str(code) in str(error) and "\x1b" not in str(error)
    assert delay is not None and 0.01 <= delay <= 0.05


@pytest.mark.parametrize(
    ("frame", "code", "told"),
    [
        ({"message": "Denied", "code": "pairing_denied", "hint": "Ask."}, 1008, "Denied Ask."),
        ({"message": "Rejected"}, 1008, "Rejected"),
        (None, 1008, "too bad"),
        (None, 1002, "another protocol"),
        (None, 4001, "another process"),
        ({"message": "Connected elsewhere", "code": "replaced"}, 4001, "another process"),
    ],
)
@pytest.mark.parametrize("connected", [False, True])
def test_a_refusal_is_final(play: Play, frame: Any, code: int, told: str, connected: bool) -> None:
    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        if connected:
            await visit.welcome(token=TOKEN)
        if frame is not None:
            await visit.send({"type": "error", **frame})
        await visit.close(code, "too bad")
        await until(lambda: host.status == "refused")
        with pytest.raises(TimeoutError):
            await gateway.visit(seconds=0.3)

    host = play(script, capabilities=[])
    assert host.status == "refused" and told in str(host.last_error)


def test_an_error_that_may_be_retried_is(play: Play) -> None:
    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.send({"type": "error", "message": "Full", "retryable": True})
        visit = await gateway.visit()
        await visit.welcome()
        await until(lambda: host.status == "connected")

    play(script, capabilities=[])


@pytest.mark.parametrize("frame", [None, {"type": "error", "message": "It was revoked.", "code": "revoked"}])
def test_revoked_forgets_the_token_and_stops(play: Play, tmp_path: Path, frame: Any) -> None:
    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome(token=TOKEN)
        await until(lambda: host.status == "connected")
        if frame is not None:
            await visit.send(frame)
        await visit.close(4003)
        await until(lambda: host.status == "refused")

    host = play(script, capabilities=[])
    assert "revoked" in str(host.last_error)
    assert TokenVault(tmp_path / "vault", keyring=False).get(f"node:{host.url}:Bench 3") is None


def test_a_host_can_run_again_after_a_refusal(tmp_path: Path) -> None:
    async def main() -> None:
        async with played_gateway() as gateway:
            host = NodeHost(gateway.url, capabilities=[], vault=TokenVault(tmp_path, keyring=False))
            running = asyncio.create_task(host.run())
            await (await gateway.visit()).close(4003)
            assert await running == "refused"
            host.stop()
            running = asyncio.create_task(host.run())
            visit = await gateway.visit()
            await visit.welcome()
            with pytest.raises(RuntimeError, match="runs already"):
                await host.run()
            host.stop()
            assert await running == "stopped"

    asyncio.run(main())


def test_stopping_before_it_began_and_being_cancelled(tmp_path: Path) -> None:
    async def main() -> None:
        host = NodeHost("127.0.0.1:1", capabilities=[], vault=TokenVault(tmp_path, keyring=False))
        host.stop()
        assert await host.run() == "stopped"
        running = asyncio.create_task(host.run())
        await until(lambda: host.status == "reconnecting")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert host.status == "stopped"

    asyncio.run(main())


def test_delays_grow_while_nobody_listens_and_the_processor_rests(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    delays: list[float] = []

    def note(host: NodeHost) -> None:
        if host.retry_in is not None:
            delays.append(host.retry_in)

    async def main() -> None:
        host = NodeHost(
            f"127.0.0.1:{port}",
            capabilities=[],
            vault=TokenVault(tmp_path, keyring=False),
            on_status=note,
            backoff=Backoff(0.01, 0.16, floor=0.01, uniform=lambda low, high: high),
        )
        running = asyncio.create_task(host.run())
        started, used = time.monotonic(), time.process_time()
        await until(lambda: len(delays) >= 7)
        assert time.process_time() - used < 0.8 * (time.monotonic() - started)
        assert "can't reach" in str(host.last_error)
        host.stop()
        await running

    asyncio.run(main())
    assert delays[:7] == [0.01, 0.02, 0.04, 0.08, 0.16, 0.16, 0.16]


@pytest.mark.parametrize(
    ("status", "final"),
    [(404, True), (403, True), (401, True), (400, True), (200, True), (429, False), (500, False), (503, False)],
)
def test_http_answers_to_the_upgrade(tmp_path: Path, status: int, final: bool) -> None:
    async def main() -> None:
        requests = []

        def answer(connection: Any, request: Any) -> Any:
            requests.append(request)
            return connection.respond(http.HTTPStatus(status), "no")

        async with serve(lambda socket: None, "127.0.0.1", 0, process_request=answer) as server:  # type: ignore[arg-type,return-value]
            port = next(iter(server.sockets)).getsockname()[1]
            host = NodeHost(
                f"http://suzent:{TOKEN}@127.0.0.1:{port}/wrong",
                capabilities=[],
                vault=TokenVault(tmp_path, keyring=False),
                backoff=Backoff(0.01, 0.02, floor=0.01),
            )
            running = asyncio.create_task(host.run())
            if final:
                assert await asyncio.wait_for(running, 10) == "refused"
                assert "is this the gateway's address?" in str(host.last_error) and str(status) in str(host.last_error)
            else:
                await until(lambda: len(requests) >= 2)
                assert str(status) in str(host.last_error)
                host.stop()
                await running
            assert TOKEN not in str(host.last_error) + host.url
            assert "Authorization" not in requests[0].headers and requests[0].path == "/wrong/ws/node"

    asyncio.run(main())


def test_a_given_token_is_used_instead_of_the_kept_one(play: Play, tmp_path: Path) -> None:
    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        assert visit.connect_frame["device_token"] == "given"
        assert visit.connect_frame["node_identity"] == "mine"

    host = play(script, capabilities=[], token="given", node_identity="mine")
    assert TokenVault(tmp_path / "vault", keyring=False).get(f"node:{host.url}:Bench 3") is None


def test_a_vault_that_fails_costs_an_approval_and_not_the_device(play: Play, tmp_path: Path) -> None:
    directory = tmp_path / "vault"
    directory.mkdir()
    (directory / "vault.bin").mkdir()  # can be neither read nor replaced

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        assert visit.connect_frame["device_token"] == "" and "node_identity" not in visit.connect_frame
        await visit.welcome(token=TOKEN)
        await until(lambda: host.status == "connected")
        assert "can't be" in str(host.last_error)
        await visit.close(1001)
        assert (await gateway.visit()).connect_frame["device_token"] == TOKEN

    play(script, capabilities=[])


def test_programs_without_a_loop(tmp_path: Path) -> None:
    urls: list[str] = []

    async def serve_one() -> None:
        async with played_gateway() as gateway:
            urls.append(gateway.url)
            visit = await gateway.visit()
            await visit.welcome(node_id="node-9")
            assert await visit.ended(20) == 1000

    server = threading.Thread(target=lambda: asyncio.run(serve_one()))
    server.start()
    while not urls:
        time.sleep(0.005)
    host = NodeHost(urls[0], capabilities=[], vault=TokenVault(tmp_path, keyring=False))
    thread = host.run_in_thread()
    assert host.wait_for("connected", "refused", timeout=10) == "connected" and host.node_id == "node-9"
    assert host.wait_for("refused", timeout=0.01) == "connected"
    host.stop()
    thread.join(10)
    server.join(10)
    assert not thread.is_alive() and not server.is_alive() and host.status == "stopped"


@pytest.mark.parametrize("options", [{"url": "ftp://x"}, {"name": ""}, {"name": "\u202e"}, {"capabilities": ["none"]}])
def test_what_can_not_be_a_host(options: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"gateway|name|capability"):
        NodeHost(**{"url": "h", "vault": TokenVault(tmp_path), **options})


def test_a_gateway_that_never_answers_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from suzent_jupyter.node import connection

    monkeypatch.setattr(connection, "_FIRST_ANSWER", 0.05)

    async def main() -> None:
        async with played_gateway() as gateway:
            host = NodeHost(
                gateway.url,
                capabilities=[],
                vault=TokenVault(tmp_path, keyring=False),
                backoff=Backoff(0.01, 0.02, floor=0.01),
            )
            running = asyncio.create_task(host.run())
            await gateway.visit(1)
            assert "did not answer" in str(host.last_error)
            host.stop()
            await running

    asyncio.run(main())


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_leads_no_token_astray(tmp_path: Path, status: int) -> None:
    """Whoever answers in the gateway's place must not be able to send the device, token in hand, elsewhere."""
    said: list[Any] = []

    async def elsewhere(connection: Any) -> None:
        said.append(await connection.recv())

    async def main() -> str | None:
        async with serve(elsewhere, "127.0.0.1", 0) as thief:
            place = f"ws://127.0.0.1:{thief.sockets[0].getsockname()[1]}/ws/node"

            def redirect(connection: Any, request: Any) -> Any:
                answer = connection.respond(http.HTTPStatus(status), "")
                answer.headers["Location"] = place
                return answer

            async with serve(elsewhere, "127.0.0.1", 0, process_request=redirect) as gateway:
                host = NodeHost(
                    f"127.0.0.1:{gateway.sockets[0].getsockname()[1]}",
                    name="Bench 3",
                    token=TOKEN,
                    capabilities=[],
                    vault=TokenVault(tmp_path, keyring=False),
                )
                assert await asyncio.wait_for(host.run(), 10) == "refused"
                return host.last_error

    error = asyncio.run(main())
    assert error is not None and f"answered {status}" in error and "no redirect is followed" in error
    assert said == []


def test_frames_are_in_no_debug_log(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    """They hold tokens and tickets."""
    caplog.set_level("DEBUG")

    async def script(gateway: PlayedGateway, host: NodeHost) -> None:
        visit = await gateway.visit()
        await visit.welcome(token=TOKEN)
        await until(lambda: host.status == "connected")

    play(script, capabilities=[])
    assert [record.getMessage() for record in caplog.records if record.name == "websockets.client"] == []
    assert TOKEN[-20:] not in "".join(
        record.getMessage() for record in caplog.records if record.name != "websockets.server"
    )
