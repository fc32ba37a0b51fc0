"""Chats: events per second from a node's agent through the gateway to a watcher, and how late the first word is.

Beside a bare WebSocket that hands on the very same frames.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from dataclasses import dataclass
from typing import Any

from ..support.keyed import Key
from .floor import bare_server
from .lean_socket import LeanSocket, packed
from .streams import post

EVENTS = 20_000
AHEAD = 1_000  # frames that are out and not back yet, where none are merged
BATCH = 50
WORD = "word "
FIRST_WORDS = 40


@dataclass
class Result:
    """What one watcher got in ``seconds``."""

    frames: int
    words: int
    seconds: float


def event_frame(run_id: str, seq: int, event: dict[str, Any]) -> bytes:
    frame = {"type": "chat.event", "run_id": run_id, "seq": seq, "event": event}
    return packed(json.dumps(frame, separators=(",", ":")))


def script(run_ids: list[str], total: int, *, merging: bool) -> list[bytes]:
    """Return the frames of the node, those of the runs in turn: words of one message, or events that never merge."""
    events: dict[str, Any] = (
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": WORD}
        if merging
        else {"type": "CUSTOM", "name": "w", "value": WORD}
    )
    each = total // len(run_ids)
    frames = [event_frame(run_id, seq, events) for seq in range(each) for run_id in run_ids]
    end = {"type": "RUN_FINISHED", "threadId": "t", "runId": "r"}
    return frames + [event_frame(run_id, each, end) for run_id in run_ids]


async def flow(node: LeanSocket, watcher: LeanSocket, frames: list[bytes], runs: int, ahead: int) -> Result:
    """Send all frames, and read until every run has said that it is over."""
    got = Result(0, 0, 0.0)
    room = asyncio.Event()
    began = time.perf_counter()

    async def send() -> None:
        for start in range(0, len(frames), BATCH):
            while ahead and start - got.frames > ahead:
                room.clear()
                await room.wait()
            node.writer.write(b"".join(frames[start : start + BATCH]))
            await node.writer.drain()
            await asyncio.sleep(0)

    sending = asyncio.create_task(send())
    tail, over = b"", 0
    while over < runs:
        chunk = await watcher.reader.read(2**16)
        assert chunk, "the watcher's socket was closed"
        both = tail + chunk
        marks = (b'"chat.event"', WORD.encode(), b'"RUN_FINISHED"')
        frame, word, end = (both.count(mark) - tail.count(mark) for mark in marks)
        assert b"RUN_ERROR" not in chunk, chunk[-500:]
        got.frames += frame
        got.words += word
        over += end
        tail = both[-16:]
        room.set()
    got.seconds = time.perf_counter() - began
    await sending
    return got


async def join(gate: Any) -> LeanSocket:
    """Connect an app node with an agent and approve it."""
    key, node = Key(), await LeanSocket(gate.port, "/ws/gateway").open()
    node.send(type="connect.challenge")
    challenge = await node.recv("challenge")
    node.send(type="connect", role="app", node={"name": "Bench", "agent": True}, jwt=key.sign(challenge))
    pending = await node.recv("pending")
    await asyncio.to_thread(post, gate.port, gate.token, f"/nodes/pending/{pending['pairing_code']}/approve", {})
    await node.recv("hello-ok")
    return node


async def begin(node: LeanSocket, watcher: LeanSocket, count: int) -> list[str]:
    """Begin runs and return their ids."""
    run_ids = []
    for number in range(count):
        watcher.send(type="chat.send", id=number, message="x")
        run_ids.append((await node.recv("chat.run"))["run_id"])
        while (await watcher.recv("chat.event"))["run_id"] != run_ids[-1]:
            pass
    return run_ids


async def first_words(gate: Any, floor_port: int) -> None:
    node, watcher = await join(gate), await LeanSocket(gate.port, "/ws/client", gate.token).open()
    out, into = await LeanSocket(floor_port, "/out").open(), await LeanSocket(floor_port, "/in").open()
    asked, through, bare = [], [], []
    for _ in range(FIRST_WORDS):
        began = time.perf_counter()
        watcher.send(type="chat.send", id=1, message="x")
        run_id = (await node.recv("chat.run"))["run_id"]
        frames = script([run_id], 1, merging=True)
        said = time.perf_counter()
        node.writer.write(frames[0])
        while (await watcher.recv("chat.event"))["event"]["type"] != "TEXT_MESSAGE_CONTENT":
            pass
        asked.append(time.perf_counter() - began)
        through.append(time.perf_counter() - said)
        node.writer.write(frames[1])
        while (await watcher.recv("chat.event"))["event"]["type"] != "RUN_FINISHED":
            pass
        began = time.perf_counter()
        into.writer.write(frames[0])
        await out.recv()
        bare.append(time.perf_counter() - began)
    values = [statistics.median(each) * 1000 for each in (bare, through, asked)]
    print(
        "first word, ms: bare {:.2f}   from the agent to its watcher {:.2f}   from the prompt on {:.2f}".format(*values)
    )
    for each in (node, watcher, out, into):
        each.close()


async def runs(gateway: Any, rounds: int) -> None:
    """Compare events that are merged, and some that are not, with the same frames over the bare socket."""
    print("                      bare frames/s   gateway events/s   ratio   frames in    out   words/s")
    with bare_server("frame_relay") as floor_port, gateway() as gate:
        await first_words(gate, floor_port)
        node, watcher = await join(gate), await LeanSocket(gate.port, "/ws/client", gate.token).open()
        out, into = await LeanSocket(floor_port, "/out").open(), await LeanSocket(floor_port, "/in").open()
        for count in (1, 20):
            for merging in (True, False):
                bare, ours = [], []
                for _ in range(rounds):
                    run_ids = await begin(node, watcher, count)
                    frames = script(run_ids, EVENTS, merging=merging)
                    ahead = 0 if merging else AHEAD
                    bare.append(await flow(into, out, frames, count, ahead))
                    ours.append(await flow(node, watcher, frames, count, ahead))
                    assert all(each.words == EVENTS for each in (bare[-1], ours[-1])), (bare[-1], ours[-1])
                ratio = statistics.median(b.seconds / o.seconds for b, o in zip(bare, ours, strict=True))
                floor_rate, rate = (len(frames) / statistics.median(r.seconds for r in each) for each in (bare, ours))
                seen = statistics.median(each.frames for each in ours)
                words = statistics.median(each.words / each.seconds for each in ours)
                label = f"{count:>2} run{'s' if count > 1 else ' '} {'words, merged' if merging else 'others'}"
                print(
                    f"{label:<21} {floor_rate:>13.0f}/s {rate:>17.0f}/s {ratio:>7.2f} {len(frames):>11} {seen:>6.0f}"
                    f" {words:>9.0f}",
                    flush=True,
                )
        for each in (node, watcher, out, into):
            each.close()
