"""Our device and our gateway together, over real sockets."""

from __future__ import annotations

import asyncio
import base64
import time
from pathlib import Path
from typing import Literal

from support.gateways import ThreadedGateway
from support.hosts import joined
from support.running import until

from suzent_jupyter.node import NodeHost, Progress, TokenVault, capability, progress


def test_pair_call_and_come_back(gateway: ThreadedGateway, tmp_path: Path) -> None:
    @capability("camera.snap")
    def snap(format: Literal["png", "jpg"] = "png", size: int = 3) -> bytes:  # noqa: A002
        """Take a photo."""
        return b"\x89PNG\r\n\x1a\n" + b"x" * size

    async def main() -> None:
        async with gateway.http() as http:
            async with joined(gateway, tmp_path) as host:
                url, first = f"/nodes/{host.node_id}/invoke", host.node_id
                answer = await http.post(url, json={"command": "camera.snap", "params": {"size": "5"}})
                result = answer.json()["result"]
                assert result["media_type"] == "image/png" and base64.b64decode(result["base64"]).endswith(b"xxxxx")
                wrong = await http.post(url, json={"command": "camera.snap", "params": {"format": "bmp"}})
                assert wrong.status_code == 422 and "one of 'png', 'jpg'" in wrong.json()["error"]
                unknown = await http.post(url, json={"command": "camera.snap", "params": {"fmt": "png"}})
                assert unknown.status_code == 422
                large = await http.post(url, json={"command": "camera.snap", "params": {"size": 12 * 2**20}})
                assert len(large.json()["result"]["base64"]) > 2**24
                too_large = await http.post(url, json={"command": "camera.snap", "params": {"size": 20 * 2**20}})
                assert too_large.json()["success"] is False and "26,214,400" in too_large.json()["error"]
            async with joined(gateway, tmp_path) as host:
                assert host.node_id == first and host.approved == ["camera.snap"]

    asyncio.run(main())


def test_a_deadline_cancels_the_work_on_the_device(gateway: ThreadedGateway, tmp_path: Path) -> None:
    ended = []

    @capability
    def scan(report: Progress) -> None:
        while not report.cancelled:
            time.sleep(0.005)
        ended.append("thread")

    @capability
    async def watch() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("task")

    async def main() -> None:
        async with gateway.http() as http, joined(gateway, tmp_path) as host:
            for command in ("scan", "watch"):
                body = {"command": command, "timeout": 0.3}
                assert (await http.post(f"/nodes/{host.node_id}/invoke", json=body)).status_code == 504
            await until(lambda: len(ended) == 2)
            progress()  # nobody's call

    asyncio.run(main())


def test_new_commands_wait_for_approval_of_their_own(gateway: ThreadedGateway, tmp_path: Path) -> None:
    @capability
    def old() -> int:
        return 1

    def new() -> int:
        return 2

    async def main() -> None:
        async with gateway.http() as http, joined(gateway, tmp_path) as host:
            host.update([old, new])
            await until(lambda: host.pending_approval == ["new"])
            url = f"/nodes/{host.node_id}/invoke"
            assert (await http.post(url, json={"command": "new"})).status_code == 409
            assert (await http.post(url, json={"command": "old"})).json()["result"] == 1
            [waiting] = (await http.get("/nodes/pending")).json()["pending"]
            await gateway.approve(waiting["pairing_code"])
            await until(lambda: host.approved == ["old", "new"] and not host.pending_approval)
            assert (await http.post(url, json={"command": "new"})).json()["result"] == 2

    asyncio.run(main())


def test_denied_revoked_and_taken_over(gateway: ThreadedGateway, tmp_path: Path) -> None:
    async def main() -> None:
        async with gateway.http() as http:
            denied = NodeHost(gateway.url, name="Bench", capabilities=[], vault=TokenVault(tmp_path, keyring=False))
            running = asyncio.create_task(denied.run())
            await until(lambda: denied.status == "pending")
            await http.post(f"/nodes/pending/{denied.pairing_code}/deny")
            assert await running == "refused" and "denied" in str(denied.last_error)

            both = joined(gateway, tmp_path, capabilities=[]), joined(gateway, tmp_path, capabilities=[])
            async with both[0] as first, both[1] as second:
                await until(lambda: first.status == "refused")
                assert "another process" in str(first.last_error) and second.status == "connected"
                key = f"node:{second.url}:Bench"
                assert second.vault.get(key)
                await http.post(f"/nodes/devices/{second.node_id}/revoke")
                await until(lambda: second.status == "refused")
                assert "revoked" in str(second.last_error).casefold() and second.vault.get(key) is None

    asyncio.run(main())
