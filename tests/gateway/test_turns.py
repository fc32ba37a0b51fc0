"""Work is spread over the turns of the loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from support.device import BareDevice
from support.gateways import ThreadedGateway
from support.running import sync

from suzent_jupyter.gateway.turns import Turns


class Recorder:
    """Notes in which turn of the loop each job ran."""

    def __init__(self) -> None:
        self.turn = 0
        self.ran: list[tuple[int, str]] = []

    def job(self, name: str) -> Callable[[], None]:
        return lambda: self.ran.append((self.turn, name))

    async def count_turns(self, turns: int) -> None:
        for _ in range(turns):
            self.turn += 1
            await asyncio.sleep(0)


@sync
async def test_a_burst_takes_several_turns_and_keeps_its_order() -> None:
    turns, recorder = Turns(), Recorder()
    for number in range(20):
        turns.small(recorder.job(f"{number}"))
    await recorder.count_turns(10)
    assert [name for _, name in recorder.ran] == [f"{number}" for number in range(20)]
    each = [sum(1 for turn, _ in recorder.ran if turn == number) for number in range(10)]
    assert max(each) == 4
    assert sum(1 for count in each if count) == 5


@sync
async def test_a_single_job_runs_at_once() -> None:
    turns, recorder = Turns(), Recorder()
    for _ in range(3):
        turns.small(recorder.job("small"))
        turns.large(recorder.job("large"))
        assert turns.large_turn() is not None  # the next one has to wait
        await recorder.count_turns(4)
    assert [turn for turn, _ in recorder.ran] == [0, 0, 4, 4, 8, 8]


@sync
async def test_small_jobs_do_not_wait_for_large_ones() -> None:
    turns, recorder = Turns(), Recorder()
    for number in range(6):
        turns.large(recorder.job(f"large {number}"))
    turns.small(recorder.job("small"))
    await recorder.count_turns(10)
    assert recorder.ran[:2] == [(0, "large 0"), (0, "small")]
    assert [turn for turn, name in recorder.ran if name != "small"] == [0, 1, 2, 3, 4, 5]


@sync
async def test_a_flood_does_not_pile_up() -> None:
    turns, recorder = Turns(), Recorder()
    for number in range(10_000):
        turns.small(recorder.job(f"{number}"))
    await recorder.count_turns(150)
    assert len(recorder.ran) == 10_000


@sync
async def test_large_turns_are_granted_one_by_one_also_when_a_waiting_one_gives_up() -> None:
    turns = Turns()
    assert turns.large_turn() is None
    waiting = [turns.large_turn() for _ in range(3)]
    assert waiting[0] is not None
    waiting[0].cancel()
    for each in waiting[1:]:
        assert each is not None
        await asyncio.wait_for(each, 10)


@sync
async def test_large_results_count_also_if_the_device_hangs_up_right_after_them(gateway: ThreadedGateway) -> None:
    async with BareDevice(gateway.node_url) as device, gateway.http() as http:
        await gateway.pair(device)
        calls = [
            asyncio.create_task(http.post(f"/nodes/{device.node_id}/invoke", json={"command": "echo"}))
            for _ in range(4)
        ]
        frames = [await device.recv("invoke") for _ in calls]
        for frame in frames:
            answer = {"type": "result", "request_id": frame["request_id"], "success": True, "result": "x" * 1_000_000}
            await device.ws.send(json.dumps(answer))
        await device.ws.close()
        for answer in await asyncio.gather(*calls):
            assert len(answer.json()["result"]) == 1_000_000
