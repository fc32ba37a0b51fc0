"""Answers that stream: how much later the first word comes through two gateways, and how many events pass."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
import urllib.request
from typing import Any

from .floor import bare_server

THINKING = 0.05
PIECES = 2000


def post(port: int, token: str, path: str, body: dict[str, Any]) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}",
        json.dumps(body).encode(),
        {"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def get(port: int, token: str, path: str) -> Any:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {token}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def link(controller: Any, target: Any) -> str:
    """Let one gateway control another; return the peer's id."""
    asked = post(controller.port, controller.token, "/nodes/control", {"base_url": f"http://127.0.0.1:{target.port}"})
    post(target.port, target.token, f"/nodes/grants/{asked['code']}/approve", {})
    query = f"?base_url={asked['base_url']}&request_id={asked['request_id']}"
    while (status := get(controller.port, controller.token, f"/nodes/control-status{query}"))["status"] == "pending":
        time.sleep(0.02)
    assert status["status"] == "approved", status
    return str(status["peer_id"])


async def read_stream(port: int, path: str, token: str, body: bytes) -> tuple[int, float]:
    """Read one answer to its end; return how many events it had and the seconds until the first word."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=2**22)
    started = time.perf_counter()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {token}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    events, first, tail = 0, 0.0, b""
    while chunk := await reader.read(2**16):
        if not first and b"TEXT_MESSAGE_CONTENT" in chunk:
            first = time.perf_counter() - started
        events += (tail + chunk).count(b"data: ") - tail.count(b"data: ")
        tail = chunk[-5:]
    writer.close()
    return events, first


async def streams(gateway: Any, rounds: int) -> None:
    """Compare with the agent alone, and with a bare handler that writes the same events."""
    from suzent_jupyter.kernel import connect

    from .talker import own_first_token

    with gateway() as ours, gateway() as theirs, bare_server("plain_stream") as floor_port:
        theirs.ask("talk")
        peer = await asyncio.to_thread(link, ours, theirs)
        trigger = f"/nodes/peers/{peer}/trigger"
        gw = connect(f"http://127.0.0.1:{ours.port}", ours.token)

        print(f"first word of an agent that thinks {THINKING * 1000:.0f} ms, through peer and gateway to the notebook")
        own, through = [], []
        await asyncio.to_thread(gw.trigger, peer, "0 1")
        for _ in range(rounds * 4):
            own.append(await own_first_token(f"{THINKING} 1"))
            through.append(await asyncio.to_thread(first_word, gw, peer))
        alone, later = statistics.median(own), statistics.median(through)
        print(
            f"    agent alone {alone * 1000:.1f} ms   notebook {later * 1000:.1f} ms   ratio {later / alone:.2f}"
            f"   ({(later - alone) * 1000:.1f} ms more)"
        )

        print("events per second           floor       one gateway   through both   (ratios, median of rounds)")
        for readers, pieces in ((1, PIECES), (100, 100)):
            rates: list[list[float]] = []
            for _ in range(rounds):
                rates.append([])
                for port, path, body in (
                    (floor_port, "/talk", str(pieces).encode()),
                    (theirs.port, "/chat", json.dumps({"message": f"0 {pieces}"}).encode()),
                    (ours.port, trigger, b""),
                ):
                    token = ours.token if port == ours.port else theirs.token
                    bodies = [
                        body or json.dumps({"prompt": f"0 {pieces}", "chat_id": f"s{number}"}).encode()
                        for number in range(readers)
                    ]
                    began = time.perf_counter()
                    got = await asyncio.gather(*(read_stream(port, path, token, each) for each in bodies))
                    took = time.perf_counter() - began
                    assert all(events >= pieces for events, _ in got), got[:3]
                    rates[-1].append(sum(events for events, _ in got) / took)
            bare, one, both = (statistics.median(each[index] for each in rates) for index in range(3))
            ratio_one, ratio_both = (statistics.median(each[i] / each[0] for each in rates) for i in (1, 2))
            print(
                f"{readers:>4} stream{'s' if readers > 1 else ' '}  {bare:>12.0f}/s {one:>12.0f}/s {both:>12.0f}/s"
                f"   {ratio_one:.2f} {ratio_both:.2f}",
                flush=True,
            )
        gw.close()


def first_word(gw: Any, peer: str) -> float:
    """Return the seconds from asking to the first word in a notebook's hands."""
    came: list[float] = []
    started = time.perf_counter()

    def hear(event: dict[str, Any]) -> None:
        if event.get("type") == "TEXT_MESSAGE_CONTENT" and not came:
            came.append(time.perf_counter())

    gw.trigger(peer, f"{THINKING} 1", on_event=hear)
    return came[0] - started
