"""Every frame of ``/ws/gateway`` has the fields and units that programs written against the protocol rely on."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from support.device import BareDevice
from support.executing import Worker
from support.gateways import ThreadedGateway
from support.keyed import KeyedNode, multinode_url
from support.running import sync, until

_NUMBER = (int, float)
_NONE = type(None)
#: What the gateway sends: the fields that are always there, and what they hold.
FRAMES: dict[str, dict[str, Any]] = {
    "challenge": {"nonce": str, "ts": int, "aud": str},
    "pending": {"pairing_code": str, "message": str, "expires_at": str},
    "hello-ok": {"account": str, "org": str, "protocol": int, "policy": dict},
    "error": {"code": str, "message": str, "hint": str, "retryable": bool},
    "tick": {"ts": int},
    "node.list": {"nodes": list},
    "node.online": {"node": dict},
    "node.offline": {"node": dict},
    "node.update": {"node": dict},
    "chat.accepted": {
        "id": (str, int),
        "run_id": str,
        "session_id": str,
        "node_id": str,
        "tier": str,
        "confidence": (*_NUMBER, _NONE),
        "reason": str,
    },
    "chat.event": {"run_id": str, "seq": int, "event": dict},
    "chat.run": {
        "run_id": str,
        "session_id": str,
        "message": str,
        "attachments": list,
        "caller": dict,
        "is_remote_session": bool,
    },
    "chat.abort": {"run_id": str},
    "node.invoke.request": {"id": str, "node_id": str, "command": str, "params": dict, "timeout_ms": _NUMBER},
    "node.invoke.result": {"id": (str, int), "ok": bool, "result": object, "error": (dict, _NONE)},
    "node.invoke.progress": {"id": (str, int), "fraction": _NUMBER},
    "node.invoke.cancel": {"id": str, "reason": str},
}


def check(frame: dict[str, Any]) -> None:
    fields = FRAMES[frame["type"]]
    assert fields.keys() <= frame.keys(), frame
    for name, kind in fields.items():
        # A bool is an int too, and no number here.
        assert isinstance(frame[name], kind) and (kind is not int or not isinstance(frame[name], bool)), (name, frame)


class Person(KeyedNode):
    """Somebody's web client that keeps all it hears."""

    def __init__(self, gateway: ThreadedGateway) -> None:
        super().__init__(multinode_url(gateway), role="web")
        self.headers = gateway.headers
        self.heard: list[dict[str, Any]] = []

    async def recv(self, kind: str | None = None, seconds: float = 10.0) -> dict[str, Any]:
        while True:
            self.heard.append(await super().recv(None, seconds))
            if kind in (None, self.heard[-1]["type"]):
                return self.heard[-1]

    async def __aenter__(self) -> Person:
        await self.open()
        await self.ask()
        await self.send({"type": "connect", "role": "web"})
        await self.joined()
        return self


async def answers(node: Worker, run: dict[str, Any]) -> str:
    if run["message"] == "hang":
        await asyncio.Event().wait()
    return "said"


@sync
async def test_every_frame_is_as_it_is_documented(make_gateway: Any) -> None:
    gateway: ThreadedGateway = make_gateway(limits={"tick_interval": 0.5, "ticks_missed": 100})
    heard: list[dict[str, Any]] = []
    async with Person(gateway) as person:
        waiting = KeyedNode(multinode_url(gateway), "Waits")
        async with waiting:
            heard += [waiting.challenge, await waiting.recv("pending")]
        async with Worker(gateway, "A", answers, features=["cancel", "progress"]) as node:
            heard.append(node.hello)
            async with BareDevice(gateway.node_url, "Phone") as phone:
                await gateway.pair(phone)
                await node.send({"type": "node.update", "node": {"tags": ["lab"]}})
                while (await person.recv("node.update"))["node"]["tags"] != ["lab"]:
                    pass
            await person.recv("node.offline")
            await person.send({"type": "node.list", "id": "list"})
            await person.recv("node.list")
            await person.send({"type": "chat.send", "id": 1, "message": "hello", "attachments": []})
            accepted = await person.recv("chat.accepted")
            seqs = []
            while not seqs or person.heard[-1]["event"]["type"] != "RUN_FINISHED":
                seqs.append((await person.recv("chat.event"))["seq"])
            assert seqs == list(range(len(seqs)))
            assert (accepted["id"], accepted["node_id"], accepted["tier"]) == (1, node.node_id, "recent")
            assert {"run_id", "session_id", "message"} <= node.runs[0].keys()
            assert (node.runs[0]["run_id"], node.runs[0]["session_id"]) == (accepted["run_id"], accepted["session_id"])
            await person.send({"type": "chat.send", "id": "2", "message": "hang", "target_node_id": "A"})
            run_id = (await person.recv("chat.accepted"))["run_id"]
            await until(lambda: len(node.runs) == 2)
            await person.send({"type": "chat.abort", "run_id": run_id})
            await until(lambda: node.aborted == [run_id])
            request = {"type": "node.invoke.request", "node_id": "A", "command": "echo", "params": {"a": 1}}
            await person.send({**request, "id": "3", "timeout_ms": 5000})
            result = await person.recv("node.invoke.result")
            assert (result["id"], result["ok"], result["result"], result["error"]) == ("3", True, {"a": 1}, None)
            node.silent = True
            await person.send({**request, "id": 4, "timeout_ms": 100})
            result = await person.recv("node.invoke.result")
            assert (result["id"], result["ok"], result["result"]) == (4, False, None)
            assert result["error"].keys() >= {"code", "message", "hint", "retryable"}
            assert (result["error"]["code"], result["error"]["retryable"]) == ("deadline", True)
            await person.send({"type": "node.invoke.request", "id": "5", "node_id": "A", "agent": "prompt"})
            assert (await person.recv("node.invoke.result"))["result"] == "said"
            await person.send({"type": "chat.watch", "id": "6", "run_id": "none"})
            assert (await person.recv("error"))["id"] == "6"
            tick = await person.recv("tick")
            assert abs(tick["ts"] / 1000 - time.time()) < 60
            await until(lambda: any(frame["type"] == "node.invoke.cancel" for frame in node.frames))
            heard += node.frames
    heard += person.heard
    for frame in heard:
        if frame["type"] in FRAMES:
            check(frame)
    assert {frame["type"] for frame in heard} >= FRAMES.keys()
    hellos = [frame for frame in heard if frame["type"] == "hello-ok"]
    assert all(type(number) is int for frame in hellos for number in frame["policy"].values())
    assert [bool(frame.get("node_id")) for frame in hellos] == [True, False]
    asked = next(frame for frame in heard if frame["type"] == "node.invoke.request")
    assert 4000 < asked["timeout_ms"] <= 5000
