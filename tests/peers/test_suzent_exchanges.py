"""Exchanges with a Suzent 0.9 server as written down in ``exchanges/``, over real sockets, in both directions."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.device import BareDevice
from support.exchanges import Exchange
from support.gateways import ThreadedGateway
from support.played_suzent import PlayedSuzent

if TYPE_CHECKING:
    from ag_ui.core import BaseEvent

    from suzent_jupyter.protocol.agents import Turn

EXCHANGES = Path(__file__).parent / "exchanges"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


class Echo:
    """An agent that says what it was told; U+2028 would break readers that take it for a line end."""

    name = "Echo"

    async def run(self, turn: Turn) -> AsyncIterator[BaseEvent]:
        from ag_ui.core import TextMessageContentEvent, TextMessageEndEvent, TextMessageStartEvent

        yield TextMessageStartEvent(message_id="m", role="assistant")
        yield TextMessageContentEvent(message_id="m", delta="You said: ")
        yield TextMessageContentEvent(message_id="m", delta=f"{turn.message}\u2028")
        yield TextMessageEndEvent(message_id="m")


@contextmanager
def device(gateway: ThreadedGateway, told: dict[str, Any], photo: Path) -> Iterator[None]:
    """A device of ours that gives the answers that are written down; a photo is a file on this machine."""
    ready, loop = threading.Event(), asyncio.new_event_loop()

    async def serve() -> None:
        capabilities = [{"name": name} for name in told["answers"]]
        async with BareDevice(gateway.node_url, told["display_name"], capabilities) as joined:
            await gateway.pair(joined)
            ready.set()
            async for text in joined.ws:
                frame = json.loads(text)
                if frame["type"] == "invoke":
                    answer = told["answers"][frame["command"]]
                    reply: dict[str, Any] = {"success": True, "result": answer}
                    if "fails" in answer:
                        reply = {"success": False, "error": answer["fails"]}
                    elif "photo" in answer:
                        photo.write_bytes(base64.b64decode(PNG))
                        reply["result"] = {"file": str(photo), "format": "png"}
                    await joined.send({"type": "result", "request_id": frame["request_id"], **reply})

    task = loop.create_task(serve())
    thread = threading.Thread(target=lambda: loop.run_until_complete(asyncio.wait([task])), daemon=True)
    thread.start()
    assert ready.wait(20)
    yield
    loop.call_soon_threadsafe(task.cancel)
    thread.join(10)
    loop.close()


def grant(gateway: ThreadedGateway, suzent: PlayedSuzent) -> dict[str, str]:
    """Give the server control of our gateway; returns what an exchange may name."""
    import httpx

    request = suzent.do("control", base_url=gateway.url)
    answer = httpx.post(f"{gateway.url}/nodes/grants/{request}/approve", json={}, headers=gateway.headers)
    assert answer.status_code == 200, answer.text
    peer = suzent.do("control_status", base_url=gateway.url, request_id=request)["peer_id"]
    token = suzent.do("look", what="peers")[peer]["token"]
    who = httpx.get(f"{gateway.url}/channels/suzent/whoami", headers={"Authorization": f"Bearer {token}"}).json()
    return {"peer": peer, "token": token, "device": who["peer_id"]}


CASES = [pytest.param(path, "", id=path.stem) for path in sorted(EXCHANGES.glob("*.json"))]
# Suzent trusts its own machine, where a token that is gone is answered with nobody; elsewhere it is refused.
CASES += [
    pytest.param(EXCHANGES / f"{name}.json", "--remote", id=f"{name}, from afar")
    for name in ("control_of_theirs", "offered_back")
]


@pytest.mark.parametrize(("path", "option"), CASES)
def test_as_it_is_written_down(
    path: Path, option: str, make_gateway: Callable[..., ThreadedGateway], tmp_path: Path
) -> None:
    gateway = make_gateway()
    gateway.call(gateway.service.gateway.agents.register, "ada", Echo())
    told = json.loads(path.read_text())
    with ExitStack() as stack:
        suzent = stack.enter_context(PlayedSuzent("suzent-box", *option.split()))
        if "device" in told:
            # Only what was just made in the directory of temporary files is handed out.
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            stack.enter_context(device(gateway, told["device"], folder / "photo.png"))
        exchange = Exchange(path, gateway.url, gateway.token, suzent)
        note = tmp_path / "note.txt"
        note.write_text("what a note says")
        exchange.keep({"note": str(note)})
        if told.get("granted"):
            exchange.keep(grant(gateway, suzent))
        exchange.play()
