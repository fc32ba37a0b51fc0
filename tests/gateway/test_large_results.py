"""Large results: up to 25 MiB they arrive, above that call fails, above 32 MiB the socket closes."""

from __future__ import annotations

import asyncio

import pytest
from support.calls import error_of, invoke
from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync, until

MIB = 2**20


async def answer_with(device: BareDevice, size: int) -> None:
    frame = await device.recv("invoke")
    head = '{{"type":"result","request_id":"{}","success":true,"result":"'.format(frame["request_id"])
    await device.send(head + "x" * size + '"}')


@sync
async def test_results_by_size(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        call = asyncio.create_task(invoke(http, "MyPhone"))
        await answer_with(device, 24 * MIB)
        answer = await call
        assert (answer.status_code, len(answer.content) > 24 * MIB) == (200, True)

        call = asyncio.create_task(invoke(http, "MyPhone"))
        await answer_with(device, 26 * MIB)
        answer = await call
        assert error_of(answer) == (413, "too_large")
        assert f"{26 * MIB:,}"[:3] in answer.json()["error"]

        # The node is still connected.
        call = asyncio.create_task(invoke(http, "MyPhone"))
        await answer_with(device, 10)
        assert (await call).json()["result"] == "x" * 10

        call = asyncio.create_task(invoke(http, "MyPhone"))
        await device.recv("invoke")
        with pytest.raises(Exception):  # noqa: B017 - the socket may close while this is being sent
            await device.send("x" * (33 * MIB))
            raise ConnectionError
        assert (await device.closed())[0] in (1009, 1006)
        assert error_of(await asyncio.wait_for(call, 5)) == (502, "node_disconnected")
        await until(lambda: len(gateway.service.gateway.registry) == 0)


@sync
async def test_line_separators_in_results_are_escaped(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer(lambda command, params: {"text": "a\u2028b\u0085c 😀 é"})
        answer = await invoke(http, "MyPhone")
        assert answer.content.isascii()
        assert answer.json()["result"] == {"text": "a\u2028b\u0085c 😀 é"}


@sync
async def test_binary_passes_through_untouched(gateway: ThreadedGateway) -> None:
    photo = {"media_type": "image/png", "base64": "iVBORw0KGgo=" * 10_000, "name": "p.png"}
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        device.answer(lambda command, params: {"photos": [photo]})
        assert (await invoke(http, "MyPhone")).json()["result"] == {"photos": [photo]}
