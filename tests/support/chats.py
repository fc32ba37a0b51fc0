"""``chat.*`` as a test speaks it by hand, on either kind of socket."""

from __future__ import annotations

import json
from typing import Any

import websockets

from .client import BareClient
from .gateways import Addresses
from .keyed import multinode_url

Record = dict[str, Any]


class Person(BareClient):
    """A person on ``/ws/gateway``, known by a token: no node."""

    def __init__(self, gateway: Addresses, token: str | None = None) -> None:
        super().__init__(gateway, token)
        self._url = multinode_url(gateway)

    async def __aenter__(self) -> Person:
        headers = {"Authorization": f"Bearer {self._token}"}
        self.ws = await websockets.connect(self._url, additional_headers=headers, compression=None, ping_interval=None)
        await self.ws.send(json.dumps({"type": "connect", "role": "web"}))
        self.hello = await self.recv("hello-ok")
        return self


async def begin(client: BareClient, number: Any = "q", message: str = "hi", **more: Any) -> Record:
    await client.send(type="chat.send", id=number, message=message, **more)
    while (frame := await client.recv())["type"] != "chat.accepted":
        assert frame["type"] != "error", frame
    return frame


async def read(client: BareClient, run_id: str, seq: int = 0) -> list[Record]:
    """Return the events of a run to its end, each once and in order."""
    events: list[Record] = []
    while not events or events[-1]["type"] not in ("RUN_FINISHED", "RUN_ERROR"):
        frame = await client.recv("chat.event", 30)
        if frame["run_id"] == run_id:
            assert frame["seq"] == seq + len(events)
            events.append(frame["event"])
    return events


def text_of(events: list[Record]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


async def code(client: BareClient, **frame: Any) -> str:
    """Return the code of the error that a frame is answered with, under its own id."""
    await client.send(**{"id": "e", **frame})
    error = await client.recv("error")
    assert error["id"] == frame.get("id", "e")
    return str(error["code"])
