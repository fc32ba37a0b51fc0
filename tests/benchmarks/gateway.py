"""A gateway process for benchmarks: obeys one-word commands on standard input and answers in JSON lines.

``adopt N`` makes N devices and returns their tokens, ``lag`` the loop lag since the last question in milliseconds,
``rss`` the resident memory in bytes, ``counts`` how much of each kind is open, ``talk`` gives it an agent.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
from pathlib import Path

import psutil

from suzent_jupyter.gateway.devices import Device
from suzent_jupyter.protocol.limits import Limits
from suzent_jupyter.server.service import GatewayService, ServiceConfig

_SAMPLE_SECONDS = 0.002


async def main(data_dir: Path, **limits: float) -> None:
    service = GatewayService()
    config = ServiceConfig(data_dir=data_dir, account="bench", listener_port=0, limits=Limits(**limits))  # type: ignore[arg-type]
    await service.start(config)
    lags: list[float] = []

    async def sample() -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _SAMPLE_SECONDS
            await asyncio.sleep(_SAMPLE_SECONDS)
            lags.append((loop.time() - due) * 1000)

    sampler: asyncio.Task[None] | None = None
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print(json.dumps({"port": service.port, "token": service.kernel_token.value}), flush=True)
    while line := (await reader.readline()).decode().split():
        answer: object = None
        match line[0]:
            case "adopt":
                made = [
                    Device("", b"", f"device {number}", account="bench", approved=["echo"])
                    for number in range(int(line[1]))
                ]
                adopted = await asyncio.gather(*(service.gateway.credentials.adopt(device) for device in made))
                answer = [[device.device_id, token] for device, token in adopted]
            case "sample":
                sampler = asyncio.create_task(sample())
            case "lag":
                assert sampler is not None
                sampler.cancel()
                answer = sorted(lags)
                lags.clear()
            case "rss":
                gc.collect()
                answer = psutil.Process().memory_info().rss
            case "counts":
                answer = counts(service)
            case "talk":
                from .talker import Talker

                service.gateway.agents.register("bench", Talker())
            case "stop":
                break
        print(json.dumps(answer), flush=True)
    began = time.perf_counter()
    await service.stop()
    took = time.perf_counter() - began
    left = [thread.name for thread in threading.enumerate() if "suzent" in thread.name.lower()]
    print(json.dumps({"seconds": took, "sockets": len(service.open_sockets), "threads": left}), flush=True)


def counts(service: GatewayService) -> dict[str, int]:
    hub, server = service.gateway, service.host.listener._server  # type: ignore[union-attr]
    return {
        "connections": len(server._connections),  # type: ignore[union-attr]
        "strangers": len(server.strangers),  # type: ignore[union-attr]
        "sockets": len(service.open_sockets),
        "unauthenticated": len(hub.sockets),
        "pending": len(hub.pairing),
        "nodes": len(hub.registry),
        "clients": len(hub._clients),
        "tasks": len(asyncio.all_tasks()),
        "files": psutil.Process().num_fds(),
    }


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), **(json.loads(sys.argv[2]) if len(sys.argv) > 2 else {})))
