"""Memory of 10 to 10,000 entries: keeping, finding and forgetting one more, beside a disk that is asked to sync."""

from __future__ import annotations

import os
import random
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from suzent_jupyter.gateway import Gateway
from suzent_jupyter.gateway.memory import spaces
from suzent_jupyter.gateway.memory.reach import reach_of
from suzent_jupyter.gateway.principals import Authority, Principal
from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.protocol.limits import Limits

WORDS = 40
VOCABULARY = 5_000
SIZES = (10, 1_000, 10_000)
TIMES = 15


async def _ms(work: Callable[[int], Awaitable[Any]]) -> float:
    taken = []
    for number in range(TIMES):
        began = time.perf_counter()
        await work(number)
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


def _sync_ms(directory: Path) -> float:
    taken = []
    for _ in range(TIMES):
        began = time.perf_counter()
        with (directory / "floor").open("ab") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        taken.append((time.perf_counter() - began) * 1000)
    return statistics.median(taken)


async def memory() -> None:
    """Median ms. Target: a question to 10,000 entries of 40 words in under 50 ms, off the event loop."""
    print("entries     save    query (3 words)    newest 20    forget one    fsync of 4 KiB")
    for size in SIZES:
        with tempfile.TemporaryDirectory() as directory:
            saved, asked, newest, forgot, floor = await _measure(Path(directory), size)
        print(f"{size:>7,} {saved:>8.1f} {asked:>18.1f} {newest:>12.1f} {forgot:>13.1f} {floor:>17.1f}", flush=True)


async def _measure(directory: Path, size: int) -> tuple[float, float, float, float, float]:
    rng = random.Random(3)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = ["".join(rng.choices(letters, k=rng.randint(3, 11))) for _ in range(VOCABULARY)]
    weights = [1 / (place + 10) for place in range(VOCABULARY)]

    def text(count: int = WORDS) -> str:
        return " ".join(rng.choices(words, weights, k=count))

    limits = Limits(memory_entries=20_000)
    gateway = Gateway(directory / "data", Settings(display_name="b"), limits, account="ada")
    await gateway.start()
    reach, memories = reach_of(Principal(Authority.FULL, "ada", actor="user")), gateway.memories

    def fill(connection: Any) -> None:
        known = spaces.open_space(connection, reach.spaces[0], 1)
        for _ in range(size):
            spaces.add(connection, known, text(), [], "user")

    await gateway.store.run(fill)
    ids: list[str] = []

    async def save(_: int) -> None:
        entry, _is_new = await memories.save(reach, "account", text(), [])
        ids.append(entry.memory_id)

    saved = await _ms(save)
    asked = await _ms(lambda _: memories.query(reach, text(3)))
    newest = await _ms(lambda _: memories.query(reach, ""))
    forgot = await _ms(lambda number: memories.forget(reach, "account", [ids[number]]))
    await gateway.stop()
    return saved, asked, newest, forgot, _sync_ms(directory)
