"""A bug: the log has it once, with its traceback, and every caller is told the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from support.calls import error_of, invoke
from support.client import BareClient
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.protocol.errors import SuzentError


@pytest.mark.parametrize("late", [False, True])
@sync
async def test_every_way_in_tells_the_same_of_a_bug(
    gateway: ThreadedGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, late: bool
) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        if not late:
            raise ZeroDivisionError("a secret")
        call = gateway.loop.create_future()
        call.set_exception(ZeroDivisionError("a secret"))
        return call

    dispatcher = gateway.service.gateway.dispatcher
    if late:
        monkeypatch.setattr(dispatcher, "prepare", lambda *_, **__: SimpleNamespace(capability=None))
    monkeypatch.setattr(dispatcher, "launch" if late else "prepare", broken)
    async with gateway.http() as http, BareClient(gateway) as client:
        short = await invoke(http, "MyPhone")
        long = await invoke(http, "MyPhone", params={"large": "x" * 1024 * 1024})
        await client.send(type="invoke", id=1, node="MyPhone", command="echo")
        frame = await client.recv()
    assert error_of(short) == error_of(long) == (500, "internal")
    assert short.json()["error"] == long.json()["error"] == frame.get("error", frame.get("message"))
    assert (frame["code"], frame["hint"]) == ("internal", SuzentError("internal", "").hint)
    assert "a secret" not in short.text + long.text + str(frame)
    logged = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(logged) == 3
    for record in logged:
        assert record.getMessage().endswith(" failed inside the gateway")
        assert record.exc_info is not None
        assert record.exc_info[0] is ZeroDivisionError
