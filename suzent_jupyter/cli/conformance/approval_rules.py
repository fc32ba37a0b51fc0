"""Rules of a gateway about approval and identity: who may be called, as what, and until when."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from .gateway_kit import GatewayKit
from .played_device import ECHO, FEATURES, echo
from .rules import Rulebook, Skipped, expect
from .talk import Frame

_OUR_FRAMES = {"pending", "connected", "error", "invoke", "ping"}

book: Rulebook[GatewayKit] = Rulebook()


@book.rule("approve.connected", "Approval brings `connected` with an id and a durable token.", legacy=True)
async def _approve(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    node_id, token = connected.get("node_id"), connected.get("device_token")
    expect(isinstance(node_id, str) and node_id and isinstance(token, str) and token, f"{sorted(connected)}")
    listed = [node.get("node_id") for node in await kit.operator.list("/nodes", "nodes")]
    expect(node_id in listed, "it is not in GET /nodes")
    await device.leave()
    return f"node_id {node_id}"


@book.rule("approve.limits", "`connected` names the largest frame and the features in use, and what is approved.")
async def _limits(kit: GatewayKit) -> str:
    device, connected = await kit.approved(features=FEATURES)
    limit, features = (connected.get("limits") or {}).get("max_frame_bytes"), connected.get("features")
    expect(isinstance(limit, int) and limit >= 2**20, f"limits {connected.get('limits')!r}")
    expect(isinstance(features, list) and set(features) <= set(FEATURES), f"features {features!r}")
    expect(connected.get("approved") == [ECHO["name"]], f"approved {connected.get('approved')!r}")
    await device.leave()
    return f"{limit:,} bytes; {', '.join(features or [])}"


@book.rule("approve.needed", "A device that waits can be neither seen nor called.", legacy=True)
async def _needed(kit: GatewayKit) -> str:
    name = kit.name()
    device, _ = await kit.waiting(name)
    names = [node.get("display_name") for node in await kit.operator.list("/nodes", "nodes")]
    answer = await kit.operator.invoke(name, ECHO["name"])
    expect(name not in names and answer.status_code == 404, f"calling it answers {answer.status_code}")
    expect(not device.invokes, "it was called")
    await device.leave()
    return "404"


@book.rule("approve.exact", "A code that never was is answered 404, one that was used is not approved again.")
async def _exact(kit: GatewayKit) -> str:
    operator = kit.operator
    device, code = await kit.waiting()
    unknown = await operator.http.post("/nodes/pending/ZZZZZZZZ/approve")
    expect(unknown.status_code == 404, f"an unknown code answers {unknown.status_code}")
    await operator.settle(code)
    connected = await device.next("connected")
    used = await operator.http.post(f"/nodes/pending/{code}/approve")
    expect(used.status_code in (404, 409), f"a used code answers {used.status_code}")
    await operator.http.post(f"/nodes/devices/{connected['node_id']}/revoke")
    return f"404 and {used.status_code}"


@book.rule("deny.final", "A denied device is told with `error` and closed with 1008.", legacy=True)
async def _deny(kit: GatewayKit) -> str:
    device, code = await kit.waiting()
    await kit.operator.settle(code, "deny")
    error = await device.next("error")
    ended = await device.ended()
    expect(ended == 1008, f"closed with {ended}")
    return str(error.get("message"))


@book.rule("token.silent", "With its token a device is connected at once, under the same id, and gets no new token.")
async def _silent(kit: GatewayKit) -> str:
    device, first = await kit.approved()
    await device.leave()
    device, second = await kit.again(first["device_token"])
    expect(second.get("type") == "connected", f"answered {second.get('type')!r}")
    expect(second.get("device_token", "") == "", "a new token was made")
    expect(second.get("node_id") == first["node_id"], f"{first['node_id']} became {second.get('node_id')}")
    await device.leave()
    return "same id"


@book.rule("token.replaces", "A second connection with a token replaces the first (4001), and outlives its end.")
async def _replaces(kit: GatewayKit) -> str:
    old, first = await kit.approved()
    new, second = await kit.again(first["device_token"])
    expect(second.get("type") == "connected", f"the second was answered {second.get('type')!r}")
    code = await old.ended()
    expect(code == 4001, f"the first was closed with {code}")
    answer = await kit.operator.invoke(first["node_id"], ECHO["name"], {"text": "new"})
    expect(answer.status_code == 200 and answer.json().get("success"), f"then a call answers {answer.status_code}")
    expect(new.invokes and not old.invokes, "the old one was called")
    await new.leave()
    return "4001, and the new one is called"


@book.rule("revoke.closes", "Revoking closes the socket with 4003, fails calls under way, and ends the token.")
async def _revoke(kit: GatewayKit) -> str:
    operator = kit.operator
    device, connected = await kit.approved()
    device.answer = _never
    call = operator.start(connected["node_id"], ECHO["name"], timeout=20)
    await device.called()
    started = time.monotonic()
    await operator.device(connected["node_id"])
    await operator.http.post(f"/nodes/devices/{connected['node_id']}/revoke")
    answer = await call
    took, code = time.monotonic() - started, await device.ended()
    expect(code == 4003, f"the socket was closed with {code}")
    expect(took < 2 and answer.status_code == 502, f"the call ended with {answer.status_code} after {took:.1f} s")
    device, again = await kit.again(connected["device_token"])
    expect(again.get("type") == "pending", f"the token still leads to {again.get('type')!r}")
    await device.leave()
    return f"4003, the call failed with {answer.json().get('code')}"


@book.rule("pause.keeps", "A paused device stays connected and its calls are answered 409.")
async def _pause(kit: GatewayKit) -> str:
    operator = kit.operator
    device, connected = await kit.approved()
    path = f"/nodes/devices/{connected['node_id']}/status"
    await operator.device(connected["node_id"])
    await operator.http.post(path, json={"status": "paused"})
    paused = await operator.invoke(connected["node_id"], ECHO["name"])
    expect(paused.status_code == 409, f"a call answers {paused.status_code}")
    expect(await device.alive(), "it was disconnected")
    await operator.http.post(path, json={"status": "active"})
    active = await operator.invoke(connected["node_id"], ECHO["name"])
    expect(active.status_code == 200, f"resumed, a call answers {active.status_code}")
    await device.leave()
    return "409, then 200"


@book.rule("approve.shown", "Approval covers what was shown: commands added later wait for an approval of their own.")
async def _shown(kit: GatewayKit) -> str:
    operator = kit.operator
    device, first = await kit.approved(features=FEATURES)
    await device.leave()
    added: Frame = {"name": "conformance.added", "description": "Added", "params_schema": {}}
    device, second = await kit.again(first["device_token"], features=FEATURES, capabilities=[ECHO, added])
    expect(second.get("type") == "connected", f"then it was answered {second.get('type')!r}")
    old = await operator.invoke(first["node_id"], ECHO["name"])
    new = await operator.invoke(first["node_id"], added["name"])
    expect(old.status_code == 200, f"the approved command answers {old.status_code}")
    expect(new.status_code == 409 and len(device.invokes) == 1, f"the added command answers {new.status_code}")
    waiting = [
        item for item in await operator.list("/nodes/pending", "pending") if item.get("node_id") == first["node_id"]
    ]
    shown = [entry.get("name") for item in waiting for entry in item.get("capabilities", [])]
    expect(shown == [added["name"]], f"/nodes/pending shows {shown}")
    await operator.settle(waiting[0]["pairing_code"])
    answer = await operator.invoke(first["node_id"], added["name"])
    expect(answer.status_code == 200, f"once approved it answers {answer.status_code}")
    await device.leave()
    return "409 until approved under a code of its own"


@book.rule("capabilities.first", "Of two capabilities with one name the first counts.")
async def _first(kit: GatewayKit) -> str:
    device, connected = await kit.approved(
        capabilities=[{**ECHO, "description": "one"}, {**ECHO, "description": "two"}]
    )
    node = (await kit.operator.http.get(f"/nodes/{connected['node_id']}")).json()
    texts = [entry.get("description") for entry in node["capabilities"]]
    expect(texts == ["one"], f"described as {texts}")
    await device.leave()
    return "the first"


@book.rule("frames.legacy", "A device that sent no `features` gets no frame that Suzent does not know.", legacy=True)
async def _legacy(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    device.answer = _never
    await kit.operator.invoke(connected["node_id"], ECHO["name"], timeout=0.5)
    device.answer = echo
    await kit.operator.invoke(connected["node_id"], ECHO["name"])
    kinds = {str(frame.get("type")) for frame in device.frames}
    expect(kinds <= _OUR_FRAMES - {"error"}, f"it got {', '.join(sorted(kinds))}")
    await device.leave()
    return ", ".join(sorted(kinds))


@book.rule("frames.cancel", "A device with feature `cancel` hears that nobody waits for a call any more.")
async def _cancel(kit: GatewayKit) -> str:
    device, connected = await kit.approved(features=FEATURES)
    if "cancel" not in (connected.get("features") or []):
        raise Skipped("the gateway does not use the feature")
    device.answer = _never
    await kit.operator.invoke(connected["node_id"], ECHO["name"], timeout=0.5)
    frame = await device.next("cancel", seconds=2)
    expect(frame.get("request_id") == device.invokes[0]["request_id"], "it names another call")
    await device.leave()
    return str(frame.get("reason"))


@book.rule("frames.pong", "An unasked or late JSON `pong`, and an `event`, harm nothing.", legacy=True)
async def _pong(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    await device.send({"type": "pong"})
    await device.send({"type": "event", "event": "conformance", "data": {"value": 1}})
    await device.send({"type": "result", "request_id": "never-asked", "success": True, "result": 1})
    answer = await kit.operator.invoke(connected["node_id"], ECHO["name"])
    expect(answer.status_code == 200, f"then a call answers {answer.status_code}")
    await device.leave()
    return "the next call went well"


async def _never(frame: Frame) -> Frame | None:
    await asyncio.sleep(0)
    return None


def never() -> Any:
    """Return an answer that never comes."""
    return _never
