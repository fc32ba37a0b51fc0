"""``python -m tests.benchmarks [invoke|client|devices|lag|floods|streams|startup|route|runs|memory …]``: numbers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import memory as _memory
from . import route as _route
from . import runs as _runs
from . import streams as _streams
from .floor import ROOT, bare_server
from .lean import LeanClient, echo_device, idle_device, rate

SECONDS = 1.0
ROUNDS = 5


class GatewayProcess:
    """See :mod:`.gateway`."""

    def __init__(self, directory: str) -> None:
        env = {**os.environ, "JUPYTER_RUNTIME_DIR": directory}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.gateway", directory],
            cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        facts = json.loads(self._line())
        self.port, self.token = facts["port"], facts["token"]

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self, command: str) -> Any:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return json.loads(self._line())

    async def device(self, device_id: str, token: str) -> asyncio.Task[None]:
        """Connect an echoing device and return the task that answers for it."""
        connected = asyncio.get_running_loop().create_future()
        hello = {
            "type": "connect",
            "display_name": device_id,
            "capabilities": [{"name": "echo"}],
            "device_token": token,
        }
        task = asyncio.create_task(
            echo_device(f"ws://127.0.0.1:{self.port}/ws/node", hello, lambda frame: connected.set_result(frame))
        )
        await connected
        return task


@contextlib.contextmanager
def gateway() -> Iterator[GatewayProcess]:
    with tempfile.TemporaryDirectory() as directory:
        process = GatewayProcess(directory)
        try:
            yield process
        finally:
            process.process.stdin.close()  # type: ignore[union-attr]
            process.process.wait(20)


def body(size: int) -> bytes:
    return json.dumps({"command": "echo", "params": {"data": "x" * max(1, size - 48)}}).encode()


async def invoke() -> None:
    """HTTP in, WebSocket to a bare device, back: this gateway over a bare Tornado relay."""
    print("invoke over HTTP           relay        gateway      gateway/relay (median of rounds)")
    with bare_server("relay") as relay_port, gateway() as gate:
        device_id, token = gate.ask("adopt 1")[0]
        tasks = [
            asyncio.create_task(echo_device(f"ws://127.0.0.1:{relay_port}/ws", None, lambda frame: None)),
            await gate.device(device_id, token),
        ]
        targets = ((relay_port, "/invoke", gate.token), (gate.port, f"/nodes/{device_id}/invoke", gate.token))
        for label, size in (("64 B", 64), ("100 KB", 100_000), ("1 MB", 1_000_000)):
            for flights in (1, 16, 64):
                rounds = []
                for _ in range(ROUNDS):
                    results = []
                    for port, path, bearer in targets:
                        clients = [await LeanClient(port, path, bearer).open() for _ in range(flights)]
                        results.append(await rate(clients, body(size), SECONDS))
                        for client in clients:
                            client.close()
                    rounds.append(results)
                ratio = statistics.median(own[0] / floor[0] for floor, own in rounds)
                floor_rate, own_rate = (statistics.median(r[i][0] for r in rounds) for i in (0, 1))
                p50 = statistics.median(r[1][1] for r in rounds)
                print(
                    f"{label:>7} {flights:>3} in flight  {floor_rate:>8.0f}/s  {own_rate:>8.0f}/s"
                    f"   {ratio:.2f}    p50 {p50:.2f} ms",
                    flush=True,
                )
        for task in tasks:
            task.cancel()


async def client() -> None:
    """The same calls from a notebook's client over its one socket, over the same floor."""
    from suzent_jupyter.kernel import connect

    print("invoke over /ws/client     relay (HTTP) client       client/relay (median of rounds)")
    with bare_server("relay") as relay_port, gateway() as gate:
        device_id, token = gate.ask("adopt 1")[0]
        tasks = [
            asyncio.create_task(echo_device(f"ws://127.0.0.1:{relay_port}/ws", None, lambda frame: None)),
            await gate.device(device_id, token),
        ]
        gw = connect(f"http://127.0.0.1:{gate.port}", gate.token)
        for label, size in (("64 B", 16), ("100 KB", 100_000), ("1 MB", 1_000_000)):
            params = {"data": "x" * size}
            for flights in (1, 64):
                rounds = []
                for _ in range(ROUNDS):
                    clients = [await LeanClient(relay_port, "/invoke", gate.token).open() for _ in range(flights)]
                    floor, _p50 = await rate(clients, body(size), SECONDS)
                    for each in clients:
                        each.close()
                    end, count = time.perf_counter() + SECONDS, 0
                    began = time.perf_counter()

                    async def work(end: float = end, params: dict[str, str] = params) -> int:
                        done = 0
                        while time.perf_counter() < end:
                            await gw.ainvoke(device_id, "echo", params)
                            done += 1
                        return done

                    count = sum(await asyncio.gather(*(work() for _ in range(flights))))
                    rounds.append((floor, count / (time.perf_counter() - began)))
                ratio = statistics.median(own / floor for floor, own in rounds)
                floor_rate, own_rate = (statistics.median(r[i] for r in rounds) for i in (0, 1))
                print(
                    f"{label:>7} {flights:>3} in flight  {floor_rate:>8.0f}/s  {own_rate:>8.0f}/s   {ratio:.2f}",
                    flush=True,
                )
        gw.close()
        for task in tasks:
            task.cancel()


async def devices(count: int = 2000) -> None:
    """Time to connect many devices, memory each takes, and whether a call notices them."""
    with gateway() as gate:
        known = gate.ask(f"adopt {count + 1}")
        (device_id, token), idle = known[0], known[1:]
        task = await gate.device(device_id, token)
        path = f"/nodes/{device_id}/invoke"
        quiet = await rate([await LeanClient(gate.port, path, gate.token).open()], body(64), SECONDS * 3)
        before = gate.ask("rss")
        began = time.perf_counter()
        idle_devices = []
        for start in range(0, count, 100):
            batch = idle[start : start + 100]
            idle_devices += await asyncio.gather(*(idle_device(gate.port, name, secret) for name, secret in batch))
        took = time.perf_counter() - began
        each = (gate.ask("rss") - before) / count
        crowded = await rate([await LeanClient(gate.port, path, gate.token).open()], body(64), SECONDS * 3)
        print(f"{count} devices connected in {took:.2f} s (clients on the same 2 cores)")
        print(f"memory per idle device     {each / 1024:.1f} KB")
        print(
            f"invoke alone {quiet[0]:.0f}/s, beside {count} idle devices {crowded[0]:.0f}/s: "
            f"{crowded[0] / quiet[0]:.2f}"
        )
        task.cancel()
        for writer in idle_devices:
            writer.transport.abort()


async def lag(count: int = 200, flights: int = 64) -> None:
    """Loop lag with many devices and calls in flight; and small calls beside another device's megabytes."""
    with gateway() as gate:
        known = gate.ask(f"adopt {count}")
        tasks = [await gate.device(device_id, token) for device_id, token in known]
        paths = [f"/nodes/{known[i % count][0]}/invoke" for i in range(flights)]
        clients = [await LeanClient(gate.port, path, gate.token).open() for path in paths]
        gate.ask("sample")
        result = await rate(clients, body(64), SECONDS * 5)
        lags = gate.ask("lag")
        print(
            f"{count} devices, {flights} calls in flight: {result[0]:.0f}/s, "
            f"loop lag p50 {lags[len(lags) // 2]:.2f} ms, p99 {lags[int(len(lags) * 0.99)]:.2f} ms"
        )
        small = await LeanClient(gate.port, paths[0], gate.token).open()
        quiet = await _latencies(small, SECONDS * 3)
        noise = subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.noise", str(gate.port), *gate.ask("adopt 1")[0], gate.token],
            cwd=ROOT, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert noise.stdout is not None
        noise.stdout.readline()
        noisy = await _latencies(small, SECONDS * 3)
        noise.terminate()
        noise.wait()
        print(
            f"small call p99 alone {_p99(quiet):.1f} ms, beside another device's 1 MB calls {_p99(noisy):.1f} ms "
            f"({_p99(noisy) / _p99(quiet):.1f} times; all share 2 cores)"
        )
        for task in tasks:
            task.cancel()


async def _latencies(client: LeanClient, seconds: float) -> list[float]:
    taken, end = [], time.perf_counter() + seconds
    while (began := time.perf_counter()) < end:
        await client.post(body(64))
        taken.append((time.perf_counter() - began) * 1000)
    return sorted(taken)


def _p99(values: list[float]) -> float:
    return values[int(len(values) * 0.99)]


async def floods() -> None:
    """A known device's small calls while strangers flood the gateway: p99 over the quiet one. Target: under 2."""
    with gateway() as gate:
        device_id, token = gate.ask("adopt 1")[0]
        task = await gate.device(device_id, token)
        client = await LeanClient(gate.port, f"/nodes/{device_id}/invoke", gate.token).open()
        for kind in ("half-open", "tokens", "silent"):
            ratios = []
            for _ in range(ROUNDS):
                quiet = await _latencies(client, SECONDS)
                flood = subprocess.Popen(
                    [sys.executable, "-m", "tests.benchmarks.flood", str(gate.port), kind],
                    cwd=ROOT, stdout=subprocess.PIPE, text=True,
                )  # fmt: skip
                assert flood.stdout is not None
                await asyncio.to_thread(flood.stdout.readline)
                flooded = await _latencies(client, SECONDS)
                flood.kill()
                flood.wait()
                ratios.append((_p99(flooded) / _p99(quiet), _p99(quiet), _p99(flooded)))
            ratio, before, during = (statistics.median(each[i] for each in ratios) for i in range(3))
            print(
                f"{kind:>9}: p99 quiet {before:.1f} ms, flooded {during:.1f} ms, ratio {ratio:.2f} (all share 2 cores)",
                flush=True,
            )
        task.cancel()


async def startup() -> None:
    """Time until a Jupyter server answers, with and without this package."""

    def once(enabled: bool) -> float:
        with tempfile.TemporaryDirectory() as directory:
            env = {**os.environ, **{f"JUPYTER_{kind}_DIR": directory for kind in ("RUNTIME", "DATA", "CONFIG")}}
            config = {"ServerApp": {"jpserver_extensions": {"suzent_jupyter": enabled}}}
            (Path(directory) / "jupyter_server_config.json").write_text(json.dumps(config))
            began = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, "-m", "jupyter_server", "--no-browser", "--allow-root", "--ServerApp.port=0",
                 "--IdentityProvider.token=", "--SuzentApp.listener_port=0"],
                env=env, cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            path = Path(directory) / f"jpserver-{process.pid}.json"
            try:
                while True:
                    with contextlib.suppress(OSError, ValueError):
                        url = json.loads(path.read_text())["url"]
                        urllib.request.urlopen(f"{url}api", timeout=10).read()
                        return time.perf_counter() - began
                    time.sleep(0.002)
            finally:
                process.terminate()
                process.wait(20)

    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(ROUNDS + 2):
        for enabled in (False, True):
            times[enabled].append(once(enabled))
    without, with_us = (statistics.median(times[enabled]) for enabled in (False, True))
    print(
        f"Jupyter server answers after {without:.2f} s without, {with_us:.2f} s with us: "
        f"{1000 * (with_us - without):+.0f} ms"
    )


async def streams() -> None:
    """An agent's answer through two gateways: its first word over the agent's own, events over a bare stream."""
    await _streams.streams(gateway, ROUNDS)


async def runs() -> None:
    """Chats on a node: events through the gateway to a watcher, over a bare WebSocket with the same frames."""
    await _runs.runs(gateway, ROUNDS)


def main() -> None:
    every = (invoke, client, devices, lag, floods, streams, startup, _route.route, runs, _memory.memory)
    parts = {part.__name__: part for part in every}
    for name in sys.argv[1:] or parts:
        print(f"\n## {name}: {parts[name].__doc__}")
        asyncio.run(parts[name]())


if __name__ == "__main__":
    main()
