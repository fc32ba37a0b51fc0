"""Rules of a gateway before anybody is approved."""

from __future__ import annotations

import datetime
import json
import time
from typing import Any

from .gateway_kit import GatewayKit
from .rules import Broken, Rulebook, expect

_LOOK_ALIKES = set("0O1IL")
_REFUSALS = {1002, 1003, 1007, 1008, 1009}

book: Rulebook[GatewayKit] = Rulebook()


@book.rule("pending.shape", "A new device gets `pending` with a code and a message.", legacy=True)
async def _pending(kit: GatewayKit) -> str:
    device = await kit.device()
    answer = await device.join(kit.name())
    expect(answer.get("type") == "pending", f"a new device was answered {answer.get('type')!r}")
    code, message = answer.get("pairing_code"), answer.get("message")
    expect(isinstance(code, str) and code and isinstance(message, str), f"code {code!r}, message {message!r}")
    await device.leave()
    return f"code {code}"


@book.rule("pending.code", "The code has 6 characters, none that looks like another, and is new each time.")
async def _code(kit: GatewayKit) -> str:
    codes = []
    for _ in range(3):
        device, code = await kit.waiting()
        codes.append(code)
        await device.leave()
    odd = sorted({char for code in codes for char in code} & _LOOK_ALIKES)
    expect(all(len(code) == 6 and code.isalnum() for code in codes), f"codes {', '.join(codes)}")
    expect(not odd and len(set(codes)) == 3, f"codes {', '.join(codes)}")
    return f"codes {', '.join(codes)}"


@book.rule("pending.expires", "`pending` says in UTC when the code expires.")
async def _expires(kit: GatewayKit) -> str:
    device, _ = await kit.waiting()
    text = str(device.frames[0].get("expires_at"))
    at = datetime.datetime.fromisoformat(text)
    expect(at.tzinfo is not None, f"expires_at {text!r} has no time zone")
    left = (at - datetime.datetime.now(datetime.UTC)).total_seconds()
    expect(0 < left <= 3600, f"expires in {left:.0f} s")
    await device.leave()
    return f"in {left:.0f} s"


@book.rule("frames.unknown", "Fields and frame types it does not know are ignored.", legacy=True)
async def _unknown(kit: GatewayKit) -> str:
    device, _ = await kit.waiting(conformance={"nested": [1, None]}, features=["no-such-feature", 7])
    await device.send({"type": "conformance.unknown", "value": 1})
    expect(await device.alive(), "the socket died of an unknown frame")
    expect(device.close_code is None, f"closed with {device.close_code}")
    await device.leave()
    return "still waiting after both"


@book.rule("capabilities.odd", "No device is refused for what stands in its `params_schema`.")
async def _odd(kit: GatewayKit) -> str:
    odd: list[Any] = [
        {"name": "a", "description": "free text", "params_schema": {"x": "(optional) how loud, 0 to 10"}},
        {"name": "b", "description": "numbers", "params_schema": {"x": 5, "y": None, "z": {"type": "integer"}}},
        {"name": "c", "params_schema": None},
        {"name": "d", "description": None, "params_schema": ["x"]},
    ]
    for entry in odd:
        device, _ = await kit.waiting(capabilities=[entry])
        await device.leave()
    return f"{len(odd)} kinds accepted"


def _malformed(rule_id: str, what: str, frame: Any, *, legacy: bool = False) -> None:
    @book.rule(f"first.{rule_id}", f"A first frame that is {what} closes with a fitting code.", legacy=legacy)
    async def check(kit: GatewayKit) -> str:
        device = await kit.device()
        await device.send(frame)
        try:
            answer = await device.wait_for(lambda got: got.get("type") != "error", seconds=3)
        except ConnectionError:
            code = await device.ended()
        else:
            raise Broken(f"answered {answer.get('type')!r}")
        expect(code in _REFUSALS, f"closed with {code}")
        return f"closed with {code}"


_malformed("text", "not JSON", "hello")
_malformed("array", "an array", "[1, 2]")
_malformed("binary", "binary", b"\x00\x01\x02\x03")
_malformed("other", "no `connect`", {"type": "result", "request_id": "x", "success": True}, legacy=True)
_malformed(
    "nameless", "a `connect` without a name", {"type": "connect", "platform": "test", "capabilities": []}, legacy=True
)
_malformed(
    "empty", "a `connect` with an empty name", {"type": "connect", "display_name": " \u202e\n ", "capabilities": []}
)
_malformed(
    "large", "larger than 64 KiB", {"type": "connect", "display_name": "x", "capabilities": [], "x": "a" * 70_000}
)
_malformed(
    "deep", "nested thousands deep", '{"type":"connect","display_name":"x","x":' + "[" * 20_000 + "]" * 20_000 + "}"
)


@book.rule("first.silence", "A socket on which nothing comes closes after about 15 s.", slow=True)
async def _silence(kit: GatewayKit) -> str:
    device = await kit.device()
    started = time.monotonic()
    code = await device.ended(40)
    took = time.monotonic() - started
    expect(10 <= took <= 25, f"closed with {code} after {took:.0f} s")
    return f"closed with {code} after {took:.0f} s"


@book.rule("socket.compression", "permessage-deflate is not negotiated.", level="should")
async def _compression(kit: GatewayKit) -> str:
    device = await kit.device(compression="deflate")
    response = device.socket.response
    agreed = response.headers.get_all("Sec-WebSocket-Extensions") if response else []
    expect(not agreed, f"agreed to {', '.join(agreed)}")
    await device.leave()
    return "declined"


@book.rule("socket.ping", "A ping frame (RFC 6455) is answered, also while a device waits.", legacy=True)
async def _ping(kit: GatewayKit) -> str:
    device, _ = await kit.waiting()
    started = time.monotonic()
    expect(await device.alive(), "no pong within 5 s")
    await device.leave()
    return f"{(time.monotonic() - started) * 1000:.0f} ms"


@book.rule("token.unknown", "A token it never issued leads to `pending`, not to a refusal.", legacy=True)
async def _token(kit: GatewayKit) -> str:
    device, _ = await kit.waiting(device_token="szt_" + "A" * 43)
    await device.leave()
    return "pending"


@book.rule("pending.lifetime", "What waits is gone when its socket is.")
async def _lifetime(kit: GatewayKit) -> str:
    device, code = await kit.waiting()
    expect(await kit.operator.pending(code), "a waiting device is not in /nodes/pending")
    await device.leave()
    await gone(kit, code)
    answer = await kit.operator.http.post(f"/nodes/pending/{code}/approve")
    expect(answer.status_code in (404, 409, 410), f"approving it afterwards answers {answer.status_code}")
    return f"approving it afterwards answers {answer.status_code}"


async def gone(kit: GatewayKit, code: str) -> None:
    """Wait up to 3 s until nothing waits under ``code``."""
    deadline = time.monotonic() + 3
    while await kit.operator.pending(code):
        expect(time.monotonic() < deadline, "still in /nodes/pending 3 s after its socket closed")


@book.rule(
    "names.clean", "Names lose control characters, line breaks and bidirectional controls, and end at 64 characters."
)
async def _names(kit: GatewayKit) -> str:
    operator = kit.operator
    device, code = await kit.waiting("\x1b[31mEvil\u202e\nPhone\u200f " + "x" * 500)
    name = str((await operator.pending(code) or {}).get("display_name"))
    expect(name.isprintable() and len(name) <= 64, f"shown as {json.dumps(name)[:100]}")
    await device.leave()
    return f"shown as {name[:20]!r}…"
