"""A gateway process for benchmarks: obeys one-word commands on standard input and answers in JSON lines.

``adopt N`` makes N devices and returns their tokens, ``lag`` the loop lag since the last question in milliseconds,
``rss`` the resident memory in bytes.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sys
from pathlib import Path

import psutil

from suzent_jupyter.gateway.devices import Device
from suzent_jupyter.server.service import GatewayService, ServiceConfig

_SAMPLE_SECONDS = 0.002


async def main(data_dir: Path) -> None:
    service = GatewayService()
    await service.start(ServiceConfig(data_dir=data_dir, account="bench", listener_port=0))
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
                answer = []
                for number in range(int(line[1])):
                    device = Device("", b"", f"device {number}", account="bench", approved=["echo"])
                    device, token = await service.gateway.adopt(device)
                    answer.append([device.device_id, token])
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
        print(json.dumps(answer), flush=True)
    await service.stop()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
