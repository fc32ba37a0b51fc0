"""A device and its callers that move megabytes all the time: arguments PORT ID TOKEN BEARER."""

from __future__ import annotations

import asyncio
import json
import sys

from .lean import LeanClient, echo_device, rate


async def main(port: int, device_id: str, token: str, bearer: str) -> None:
    connected = asyncio.get_running_loop().create_future()
    hello = {"type": "connect", "display_name": device_id, "capabilities": [{"name": "echo"}], "device_token": token}
    task = asyncio.create_task(echo_device(f"ws://127.0.0.1:{port}/ws/node", hello, connected.set_result))
    await connected
    clients = [await LeanClient(port, f"/nodes/{device_id}/invoke", bearer).open() for _ in range(4)]
    body = json.dumps({"command": "echo", "params": {"data": "x" * 1_000_000}}).encode()
    await clients[0].post(body)
    print("ready", flush=True)
    await rate(clients, body, 600)
    task.cancel()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), *sys.argv[2:]))
