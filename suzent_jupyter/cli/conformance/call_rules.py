"""Rules of a gateway about calls: each gets its own answer, in its own time."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

from .approval_rules import never
from .gateway_kit import GatewayKit
from .played_device import ECHO, echo
from .rules import Rulebook, expect
from .talk import Frame

_COMMAND = ECHO["name"]

book: Rulebook[GatewayKit] = Rulebook()


@book.rule("invoke.timeout", "The caller's own timeout is the one that is armed and sent.")
async def _timeout(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    await kit.operator.invoke(connected["node_id"], _COMMAND, timeout=7)
    sent = device.invokes[0].get("timeout")
    expect(isinstance(sent, int | float) and 5 < sent <= 7, f"the frame says {sent!r}")
    await device.leave()
    return f"the frame says {sent:.2f} of 7 s"


@book.rule("invoke.deadline", "A call ends with 504 when its time is up, not before and not long after.", legacy=True)
async def _deadline(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    device.answer = never()
    started = time.monotonic()
    answer = await kit.operator.invoke(connected["node_id"], _COMMAND, timeout=1)
    took = time.monotonic() - started
    expect(answer.status_code == 504 and 0.9 <= took <= 3, f"{answer.status_code} after {took:.2f} s")
    await device.leave()
    return f"504 after {took:.2f} s"


@book.rule("invoke.late", "A result that comes too late never answers another call.", legacy=True)
async def _late(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    device.answer = never()
    await kit.operator.invoke(connected["node_id"], _COMMAND, timeout=0.5)
    second = kit.operator.start(connected["node_id"], _COMMAND, timeout=10)
    await device.called(1)
    await device.result(device.invokes[0], success=True, result="late")
    await device.result(device.invokes[1], success=True, result="own")
    answer = (await second).json()
    expect(answer.get("result") == "own", f"the second call got {answer.get('result')!r}")
    await device.leave()
    return "the second call got its own"


@book.rule("invoke.concurrent", "A slow call does not delay another one to the same device.", legacy=True)
async def _concurrent(kit: GatewayKit) -> str:
    device, connected = await kit.approved()

    async def answer(frame: Frame) -> Frame:
        if frame["params"].get("text") == "slow":
            await asyncio.sleep(1.5)
        return {"success": True, "result": frame["params"].get("text")}

    device.answer = answer
    slow = kit.operator.start(connected["node_id"], _COMMAND, {"text": "slow"})
    await device.called()
    started = time.monotonic()
    fast = await kit.operator.invoke(connected["node_id"], _COMMAND, {"text": "fast"})
    took = time.monotonic() - started
    expect(fast.json().get("result") == "fast" and took < 1.2, f"the quick one took {took:.2f} s")
    expect((await slow).json().get("result") == "slow", "the slow one got another's result")
    await device.leave()
    return f"{took * 1000:.0f} ms beside a call of 1.5 s"


@book.rule("invoke.failure", "A capability that fails is answered 200 with `success` false and its error.", legacy=True)
async def _failure(kit: GatewayKit) -> str:
    device, connected = await kit.approved()

    async def fail(frame: Frame) -> Frame:
        return {"success": False, "error": "lens cap on"}

    device.answer = fail
    answer = await kit.operator.invoke(connected["node_id"], _COMMAND)
    body = answer.json()
    expect(answer.status_code == 200 and body.get("success") is False, f"{answer.status_code} {body}")
    expect("lens cap on" in str(body.get("error")), f"the error says {body.get('error')!r}")
    await device.leave()
    return "200, success false"


@book.rule("invoke.binary", "Binary in a result arrives as it was sent.", legacy=True)
async def _binary(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    photo = {"media_type": "image/png", "base64": "iVBORw0KGgo=", "name": "photo.png", "note": "é\u2028"}

    async def snap(frame: Frame) -> Frame:
        return {"success": True, "result": {"photos": [photo]}}

    device.answer = snap
    answer = await kit.operator.invoke(connected["node_id"], _COMMAND)
    expect(answer.json().get("result") == {"photos": [photo]}, f"got {answer.text[:120]}")
    await device.leave()
    return "the same"


@book.rule("invoke.unknown", "An unknown command or node is answered 404; only the latter says “not found”.")
async def _unknown(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    command = await kit.operator.invoke(connected["node_id"], "conformance.no-such-command")
    node = await kit.operator.invoke("no-such-node-" + secrets.token_hex(4), _COMMAND)
    expect(command.status_code == 404 and node.status_code == 404, f"{command.status_code} and {node.status_code}")
    expect("not found" in node.json().get("error", ""), f"the node's error says {node.json().get('error')!r}")
    expect("not found" not in command.json().get("error", ""), f"the command's says {command.json().get('error')!r}")
    await device.leave()
    return "404 twice"


@book.rule("invoke.timeouts", "Timeouts of 0, −1, NaN, infinity, text or a boolean are answered 422.")
async def _timeouts(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    seen = {}
    for text in ("0", "-1", '"soon"', "true", "NaN", "Infinity", "1e400"):
        body = f'{{"command": "{_COMMAND}", "params": {{}}, "timeout": {text}}}'
        seen[text] = (await _post(kit, connected, body)).status_code
    wrong = {
        text: status
        for text, status in seen.items()
        if status not in ((400, 422) if text in "NaN Infinity 1e400" else (422,))
    }
    expect(not wrong and not device.invokes, f"answered {wrong}, called {len(device.invokes)} times")
    await device.leave()
    return "all refused"


@book.rule("params.convert", "Parameters are converted where nothing is lost: 42 for a text, “5” for a whole number.")
async def _convert(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    await kit.operator.invoke(connected["node_id"], _COMMAND, {"text": 42, "level": "5"})
    params = device.invokes[0].get("params")
    expect(params == {"text": "42", "level": 5}, f"the device got {params}")
    await device.leave()
    return f"the device got {params}"


@book.rule("params.refuse", "A parameter of another type is answered 422, naming it, and never sent.")
async def _refuse(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    answer = await kit.operator.invoke(connected["node_id"], _COMMAND, {"level": "x"})
    expect(answer.status_code == 422 and not device.invokes, f"answered {answer.status_code}")
    expect("level" in answer.json().get("error", ""), f"the error says {answer.json().get('error')!r}")
    await device.leave()
    return str(answer.json()["error"])


@book.rule("params.required", "With an `input_schema`, missing and unknown parameters are answered 422.")
async def _required(kit: GatewayKit) -> str:
    schema = {
        "type": "object",
        "properties": {"text": {"type": "string"}},
        "required": ["text"],
        "additionalProperties": False,
    }
    device, connected = await kit.approved(capabilities=[{**ECHO, "input_schema": schema}], features=[])
    missing = await kit.operator.invoke(connected["node_id"], _COMMAND, {})
    unknown = await kit.operator.invoke(connected["node_id"], _COMMAND, {"text": "x", "zz": 1})
    expect(missing.status_code == unknown.status_code == 422, f"{missing.status_code} and {unknown.status_code}")
    expect(not device.invokes, "the device was called")
    await device.leave()
    return "422 twice"


@book.rule("params.free", "Without an `input_schema` every parameter is optional and unknown ones pass.", legacy=True)
async def _free(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    answer = await kit.operator.invoke(connected["node_id"], _COMMAND, {"other": [1, None]})
    expect(
        answer.status_code == 200 and device.invokes[0].get("params") == {"other": [1, None]}, f"{answer.status_code}"
    )
    await device.leave()
    return "passed on"


@book.rule("invoke.json", "A body that is no JSON, or holds NaN, is answered 400.", legacy=True)
async def _json(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    bodies = ("{", "[1", '{"command": "' + _COMMAND + '", "params": {"text": NaN}}')
    seen = [(await _post(kit, connected, body)).status_code for body in bodies]
    expect(seen == [400] * 3, f"answered {seen}")
    await device.leave()
    return "400"


@book.rule("invoke.gone", "A device that vanishes in the middle of a call ends it with 502 within a second.")
async def _gone(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    device.answer = never()
    call = kit.operator.start(connected["node_id"], _COMMAND, timeout=20)
    await device.called()
    started = time.monotonic()
    device.left = True
    device.abort()
    answer = await call
    took = time.monotonic() - started
    expect(answer.status_code == 502 and took < 1, f"{answer.status_code} after {took:.2f} s")
    return f"502 after {took * 1000:.0f} ms"


@book.rule("invoke.once", "The same idempotency key and body is one call; another body under that key is answered 409.")
async def _once(kit: GatewayKit) -> str:
    device, connected = await kit.approved()
    key = secrets.token_hex(8)
    first = await kit.operator.invoke(connected["node_id"], _COMMAND, {"text": "a"}, idempotency_key=key)
    second = await kit.operator.invoke(connected["node_id"], _COMMAND, {"text": "a"}, idempotency_key=key)
    other = await kit.operator.invoke(connected["node_id"], _COMMAND, {"text": "b"}, idempotency_key=key)
    expect(len(device.invokes) == 1, f"the device was called {len(device.invokes)} times")
    expect(first.json() == second.json() and other.status_code == 409, f"then {second.text[:80]}, {other.status_code}")
    await device.leave()
    return "one call, 409 for the other"


@book.rule("invoke.garbage", "Frames that make no sense from an approved device harm only that device.")
async def _garbage(kit: GatewayKit) -> str:
    _, connected = await kit.approved()
    bad, _ = await kit.approved()
    for frame in ("{", "[]", "null", '{"type": 5}', '{"type": "result"}', '{"type":"result","request_id":{}}', b"\xff"):
        if bad.close_code is None:
            await bad.send(frame)
    answer = await kit.operator.invoke(connected["node_id"], _COMMAND)
    expect(answer.status_code == 200, f"another device's call answers {answer.status_code}")
    expect(await bad.alive() or bad.close_code in (1002, 1003, 1007, 1008), f"closed with {bad.close_code}")
    return "still connected" if bad.close_code is None else f"closed with {bad.close_code}"


@book.rule(
    "result.large",
    "A result above the frame limit fails that one call with 413 and leaves the device connected.",
    slow=True,
)
async def _large(kit: GatewayKit) -> str:
    device, connected = await kit.approved(features=[])
    limit = (connected.get("limits") or {}).get("max_frame_bytes", 0)
    expect(limit, "no limit was named")

    async def large(frame: Frame) -> Frame:
        return {"success": True, "result": "x" * (limit + 1000)}

    device.answer = large
    answer = await kit.operator.invoke(connected["node_id"], _COMMAND, timeout=30)
    device.answer = echo
    after = await kit.operator.invoke(connected["node_id"], _COMMAND)
    expect(answer.status_code == 413 and after.status_code == 200, f"{answer.status_code}, then {after.status_code}")
    await device.leave()
    return "413, then 200"


@book.rule("close.live", "No connected device is closed with 1000 or 1001 while the gateway runs.", legacy=True)
async def _close(kit: GatewayKit) -> str:
    codes = [
        device.close_code for device in kit.devices if device.live and not device.left and device.close_code is not None
    ]
    expect(not {1000, 1001} & set(codes), f"closed with {codes}")
    return f"closed with {sorted(set(codes), key=str)}" if codes else "none was closed"


async def _post(kit: GatewayKit, connected: Frame, body: str) -> Any:
    headers = {"Content-Type": "application/json"}
    return await kit.operator.http.post(f"/nodes/{connected['node_id']}/invoke", content=body, headers=headers)
