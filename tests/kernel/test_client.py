"""Calls, lists and the socket, against a real gateway and real devices."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from support.gateways import Process, ThreadedGateway
from support.waiting import wait_for

import suzent_jupyter as sz
from suzent_jupyter.kernel import (
    CallTimeout,
    CapabilityFailed,
    ConnectionLost,
    Gateway,
    KernelError,
    NodeAmbiguous,
    NodeNotFound,
    Unauthorized,
    UnknownCommand,
)
from suzent_jupyter.kernel.errors import InvalidParams, Unreachable
from suzent_jupyter.protocol.errors import SuzentError

from .conftest import PNG, Phone


def test_a_call_and_its_result(gw: Gateway, phone: Phone) -> None:
    result = gw.invoke("myphone", "echo", {"x": 1, "blob": b"abc"})
    assert result.success
    assert result.data["x"] == 1
    assert result.data["blob"].data == b"abc"
    assert 0 < result.seconds < 10
    assert gw.invoke(phone.device.node_id[:6], "echo").data == {}


def test_a_call_in_a_running_loop(gw: Gateway, phone: Phone) -> None:
    async def cell() -> list[Any]:
        blocking = gw.invoke("MyPhone", "echo", {"n": -1})  # as a magic does, on the loop's own thread
        many = await asyncio.gather(*(gw.ainvoke("MyPhone", "echo", {"n": n}) for n in range(200)))
        return [blocking.data["n"], *(result.data["n"] for result in many)]

    assert asyncio.run(cell()) == list(range(-1, 200))


def test_calls_from_many_threads(gw: Gateway, phone: Phone) -> None:
    seen: list[int] = []

    def work(number: int) -> None:
        seen.extend(gw.invoke("MyPhone", "echo", {"n": number * 100 + step}).data["n"] for step in range(10))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(seen) == sorted(number * 100 + step for number in range(8) for step in range(10))


def test_large_values_pass(gw: Gateway, phone: Phone) -> None:
    text = "é" * 300_000
    assert gw.invoke("MyPhone", "echo", {"text": text}).data["text"] == text


@pytest.mark.parametrize("use", ["sync", "async"])
def test_refusals_are_typed(gw: Gateway, phone: Phone, use: str) -> None:
    def call(*arguments: Any, **options: Any) -> Any:
        if use == "sync":
            return gw.invoke(*arguments, **options)
        return asyncio.run(gw.ainvoke(*arguments, **options))

    with pytest.raises(NodeNotFound) as missing:
        call("nobody", "echo")
    assert missing.value.code == "node_not_found"
    assert isinstance(missing.value, KeyError)
    assert isinstance(missing.value, SuzentError)
    with pytest.raises(UnknownCommand) as unknown:
        call("MyPhone", "camera.snip")
    assert "camera.snap" in unknown.value.details["commands"]
    with pytest.raises(InvalidParams, match="width"):
        call("MyPhone", "camera.snap", {"width": "wide"})
    with pytest.raises(InvalidParams, match="can't be sent"):
        call("MyPhone", "echo", {"x": object()})
    assert call("MyPhone", "echo", {"x": 2**53}).data == {"x": 2**53}
    with pytest.raises(CallTimeout):
        call("MyPhone", "silence", timeout=0.05)
    for timeout in (0, -1, float("nan"), float("inf"), True, "5"):
        with pytest.raises(SuzentError) as refused:
            call("MyPhone", "echo", timeout=timeout)
        assert refused.value.code == "invalid_timeout"


def test_a_failure_of_the_device_is_a_result(gw: Gateway, phone: Phone) -> None:
    result = gw.invoke("MyPhone", "fail")
    assert not result.success
    assert result.error == "The lens cap is on."
    with pytest.raises(CapabilityFailed, match="lens cap") as failure:
        result.check()
    assert failure.value.result is result


def test_progress_is_reported_on_the_calling_thread(gw: Gateway, phone: Phone) -> None:
    seen: list[Any] = []
    result = gw.invoke("MyPhone", "slow", on_progress=lambda progress: seen.append((threading.get_ident(), progress)))
    assert result.data == "done"
    assert {ident for ident, _progress in seen} == {threading.get_ident()}
    assert [progress.message[:6] for _ident, progress in seen] == ["step 0", "step 1", "step 2"]
    assert "\x1b" not in seen[0][1].message
    assert seen[-1][1].fraction == 1
    seen.clear()

    async def cell() -> None:
        await gw.ainvoke("MyPhone", "slow", on_progress=lambda progress: seen.append((threading.get_ident(), progress)))

    asyncio.run(cell())
    assert [progress.seq for _ident, progress in seen] == [0, 1, 2]


def test_cancelling_a_task_cancels_on_the_device(gw: Gateway, phone: Phone) -> None:
    async def cell() -> None:
        task = asyncio.create_task(gw.ainvoke("MyPhone", "silence"))
        while not phone.got("invoke"):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cell())
    wait_for(lambda: phone.got("cancel"))


def test_an_interrupt_cancels_on_the_device(gw: Gateway, phone: Phone) -> None:
    import signal

    def interrupt() -> None:
        wait_for(lambda: phone.got("invoke"))
        signal.raise_signal(signal.SIGINT) if os.name == "nt" else os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        gw.invoke("MyPhone", "silence")
    thread.join()
    wait_for(lambda: phone.got("cancel"))
    assert gw.invoke("MyPhone", "echo", {"still": "works"}).success


def test_an_idempotency_key_calls_once(gw: Gateway, phone: Phone) -> None:
    for _ in range(3):
        gw.invoke("MyPhone", "echo", {"x": 1}, idempotency_key="k1")
    assert len(phone.got("invoke")) == 1


def test_nodes_as_objects(gw: Gateway, phone: Phone) -> None:
    node = gw["myphone"]
    assert node.id == phone.device.node_id
    assert node.camera.snap(format="png").image.size == (1, 1)
    assert node["camera.snap"](format="png", timeout_=5).success
    assert node["my-odd command"]().data == "odd"
    assert node.invoke("echo", {"a": 1}).data == {"a": 1}
    assert asyncio.run(node.camera.snap.acall()).success
    assert "camera" in dir(node)
    assert "snap" in dir(node.camera)
    assert node.commands[0] == "echo"
    with pytest.raises(AttributeError, match="camera.snap"):
        _ = node.microphone
    with pytest.raises(UnknownCommand):
        _ = node["nope"]
    with pytest.raises(UnknownCommand):
        node.camera()
    with pytest.raises(TypeError, match="by name: format"):
        node.camera.snap("png")
    assert node.echo(self=1).data == {"self": 1}
    assert node.fail().node == "MyPhone"
    assert [one.name for one in gw] == ["MyPhone"]
    phone.run(phone.device.ws.close())
    wait_for(lambda: gw.nodes.empty)
    with pytest.raises(NodeNotFound, match=r"MyPhone \(.*\) is not connected now"):
        node.echo()


def test_commands_document_themselves(gw: Gateway, phone: Phone) -> None:
    import inspect

    snap = gw["MyPhone"].camera.snap
    signature = inspect.signature(snap)
    assert signature.parameters["format"].default == "png"
    assert signature.parameters["width"].annotation is int
    assert "timeout_" in signature.parameters
    assert snap.__name__ == "snap"
    assert inspect.getdoc(snap).startswith("Take a photo.")  # type: ignore[union-attr]
    assert "The file type." in snap.__doc__
    assert "format" in repr(snap)


def test_pairing_and_devices(gw: Gateway, make_phone: Callable[..., Phone], gateway: ThreadedGateway) -> None:
    new = make_phone(gateway, "Lab PC")
    code = new.code()
    assert gw.pending.loc[code, "name"] == "Lab PC"
    for wrong in ("", "  ", "latest!", code[:-1], f"{code} {code}"):
        with pytest.raises(KernelError):
            gw.approve(wrong)
    assert list(gw.pending.index) == [code]
    answer = gw.approve(f"  {code.lower()} ")
    assert answer["success"]
    new.run(new.device.joined())
    new.serve()
    assert gw["lab pc"].status == "connected"
    assert bool(gw.devices.loc["Lab PC", "connected"]) is True
    gw.pause("Lab PC")
    assert gw.devices.loc["Lab PC", "status"] == "paused"
    with pytest.raises(KernelError) as paused:
        gw.invoke("Lab PC", "echo")
    assert paused.value.code == "paused"
    gw.resume(answer["device_id"][:8])
    assert gw.invoke("Lab PC", "echo").success
    gw.revoke("Lab PC")
    assert len(gw.devices) == 0
    with pytest.raises(NodeNotFound):
        gw.revoke("Lab PC")
    assert {"device.approve", "device.revoke"} <= set(gw.audit()["action"])
    denied = make_phone(gateway, "Stranger")
    gw.deny(denied.code())
    assert len(gw.pending) == 0


def test_two_of_one_name_are_ambiguous(gw: Gateway, make_phone: Callable[..., Phone], gateway: ThreadedGateway) -> None:
    twins = [make_phone(gateway, "Twin").approve() for _ in range(2)]
    with pytest.raises(NodeAmbiguous) as ambiguous:
        gw["twin"]
    assert set(ambiguous.value.details["ids"]) == {twin.device.node_id for twin in twins}
    with pytest.raises(NodeAmbiguous):
        gw.invoke("Twin", "echo")
    assert gw[twins[0].device.node_id].id == twins[0].device.node_id


def test_settings_and_host_tokens(gw: Gateway, gateway: ThreadedGateway) -> None:
    assert gw.config()["nodes_enabled"] is True
    assert gw.config(display_name="Kitchen")["display_name"] == "Kitchen"
    with pytest.raises(KernelError):
        gw.config(nodes_enabled="perhaps")
    made = gw.host_token("script")
    assert made.token not in repr(made)
    with Gateway(gateway.url, made.token) as other:
        assert len(other.nodes) == 0


def test_origin_is_recorded(shell: Any, phone: Phone, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JPY_SESSION_NAME", "work/photo.ipynb")
    monkeypatch.setattr("IPython.core.getipython.get_ipython", lambda: shell.ip)
    shell.run("%suzent invoke MyPhone echo")
    row = shell.run("%suzent audit").query("action == 'invoke'").iloc[0]
    assert row["notebook"] == "work/photo.ipynb"
    assert row["cell"] == 1


def test_no_token_in_logs_errors_or_reprs(
    gateway: ThreadedGateway, phone: Phone, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with Gateway(gateway.url.replace("://", f"://suzent:{gateway.token}@")) as gw:
        gw.invoke("MyPhone", "echo")
        assert gw.nodes.shape[0] == 1
        assert gateway.token not in repr(gw) + repr(gw["MyPhone"]) + repr(gw._locator.target)
    with Gateway(gateway.url, "szt_wrong-token") as wrong:
        for use in (lambda: wrong.nodes, lambda: wrong.invoke("MyPhone", "echo")):
            with pytest.raises(Unauthorized) as refused:
                use()
            assert "szt_wrong-token" not in str(refused.value) + repr(refused.value)
    assert gateway.token not in caplog.text
    assert "szt_wrong-token" not in caplog.text


def test_a_dead_gateway_is_an_error_and_no_hang() -> None:
    began = time.monotonic()
    with Gateway("http://127.0.0.1:9", "szt_x") as gw:
        for use in (lambda: gw.nodes, lambda: gw.invoke("a", "b"), lambda: asyncio.run(gw.ainvoke("a", "b"))):
            with pytest.raises(Unreachable, match="not running"):
                use()
    assert time.monotonic() - began < 10


def test_something_else_on_the_port_is_an_error() -> None:
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

    class Redirect(BaseHTTPRequestHandler):
        seen: list[str] = []
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.seen.append(self.path)
            self.send_response(302)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Redirect)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with Gateway(f"http://127.0.0.1:{server.server_port}", "szt_x") as gw:
            with pytest.raises(KernelError, match="not a gateway"):
                gw.records("nodes")
            with pytest.raises(Unreachable, match="302"):
                gw.invoke("a", "b")
        assert "/elsewhere" not in Redirect.seen  # the token does not follow a redirect
    finally:
        server.shutdown()
        server.server_close()


def test_a_closed_client_says_so(gw: Gateway, phone: Phone) -> None:
    gw.invoke("MyPhone", "echo")
    gw.close()
    with pytest.raises(Unreachable, match="closed"):
        gw.invoke("MyPhone", "echo")


def test_a_forgotten_client_ends_its_thread(gateway: ThreadedGateway, phone: Phone) -> None:
    import gc

    gw = sz.connect(gateway.url, gateway.token)
    gw._mirror.start()
    gw.invoke("MyPhone", "echo")
    thread = gw._channel._thread
    assert thread is not None
    assert thread.is_alive()
    del gw
    gc.collect()
    wait_for(lambda: not thread.is_alive())


def test_the_mount_of_a_jupyter_server(start_jupyter: Callable[..., Any], make_phone: Callable[..., Phone]) -> None:
    server = start_jupyter(base_url="/user/a@b/")
    phone = make_phone(server).approve()
    with sz.connect(server.mount.replace("://", f"://suzent:{server.token}@")) as gw:
        assert gw.url == server.mount
        assert gw.invoke(phone.device.node_id, "echo", {"x": 1}).data == {"x": 1}
        assert list(gw.nodes.index) == ["MyPhone"]


@pytest.fixture
def restarting(start_process: Callable[..., Process], monkeypatch: pytest.MonkeyPatch) -> Callable[[], Process]:
    """Start (again) a gateway process with one directory and port, as this process finds it by its runtime file."""
    port = [0]

    def start() -> Process:
        process = start_process(port=port[0])
        port[0] = int(process.url.rpartition(":")[2])
        monkeypatch.setenv("JUPYTER_RUNTIME_DIR", process.env["JUPYTER_RUNTIME_DIR"])
        return process

    return start


def test_a_restarted_gateway_is_found_again(
    restarting: Callable[[], Process], make_phone: Callable[..., Phone]
) -> None:
    first = restarting()
    with sz.connect() as gw:
        phone = make_phone(first).approve()
        token = phone.device.token
        gw._mirror.start()
        assert gw._mirror.wait("nodes", 10)
        lost: list[BaseException] = []

        def hang() -> None:
            try:
                gw.invoke("MyPhone", "silence")
            except KernelError as error:
                lost.append(error)

        thread = threading.Thread(target=hang)
        thread.start()
        wait_for(lambda: phone.got("invoke"))
        first.kill()
        thread.join(20)
        assert isinstance(lost[0], ConnectionLost)
        assert "unknown" in str(lost[0])
        second = restarting()
        assert second.token != first.token
        wait_for(lambda: gw._channel.connected)
        again = make_phone(second, device_token=token)
        again.run(again.device.joined())
        again.serve()
        assert gw.invoke("MyPhone", "echo", {"x": 2}).data == {"x": 2}
        assert list(gw.nodes.index) == ["MyPhone"]
        wait_for(lambda: [item["status"] for item in gw._mirror.items("nodes")] == ["connected"])


def test_new_calls_wait_for_a_gateway_that_has_just_gone(
    make_gateway: Callable[..., ThreadedGateway], make_phone: Callable[..., Phone], tmp_path: Any
) -> None:
    first = make_gateway(tmp_path / "data")
    phone = make_phone(first).approve()
    made = Gateway(first.url, first.token)
    token = made.host_token("survives").token
    made.close()
    with Gateway(first.url, token) as gw:
        gw.invoke("MyPhone", "echo")
        port = first.service.port
        first.stop()
        wait_for(lambda: not gw._channel.connected)
        answers: list[Any] = []

        def call() -> None:
            try:
                answers.append(gw.invoke("MyPhone", "echo", {"late": True}))
            except KernelError as error:
                answers.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        make_gateway(tmp_path / "data", listener_port=port)
        thread.join(20)
        # The call got through to the new gateway, whether or not the phone was back by then.
        assert isinstance(answers[0], NodeNotFound) or answers[0].success
        assert phone is not None


def test_a_gap_in_changes_subscribes_again(gw: Gateway, phone: Phone) -> None:
    gw._mirror.start()
    assert gw._mirror.wait("devices", 10)
    wait_for(lambda: len(gw._mirror.items("nodes")) == 1)
    gw._channel._seqs["devices"] = 40
    gw.pause("MyPhone")
    wait_for(lambda: [item["status"] for item in gw._mirror.items("devices")] == ["paused"])
    gw.revoke("MyPhone")
    wait_for(lambda: not gw._mirror.items("devices") and not gw._mirror.items("nodes"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_connection_of_its_own(gw: Gateway, phone: Phone) -> None:
    gw.invoke("MyPhone", "echo")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writer, str(gw.invoke("MyPhone", "echo", {"child": 1}, timeout=10).data).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as stream:
        assert stream.read() == "{'child': 1}"
    os.waitpid(child, 0)
    assert gw.invoke("MyPhone", "echo", {"parent": 1}).data == {"parent": 1}
    assert PNG


def test_importing_is_cheap() -> None:
    import subprocess
    import sys

    code = "import sys, suzent_jupyter.kernel.gateway as g; print([m for m in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    for module in ("pandas", "numpy", "IPython", "PIL", "tornado", "jupyter_server", "httpx", "websockets"):
        assert f"'{module}'" not in loaded, module
