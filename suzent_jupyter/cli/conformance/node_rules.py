"""Rules of a device, looked at by playing a gateway for it."""

from __future__ import annotations

import time
from typing import Any

from websockets.exceptions import ConnectionClosed

from .played_gateway import FRAME_BYTES, PlayedGateway, Visit
from .rules import Broken, Rulebook, Skipped, Unreachable, expect
from .talk import Frame

TOKEN = "szt_conformance_0123456789012345678901234567890"  # noqa: S105 - of a gateway that is only played
_NODE_ID = "conformance-node"
_UNKNOWN = "conformance.no-such-command"
# Commands that only look: others could move something, and are called only if the caller names them.
_HARMLESS = ("echo", "system.info", "device.info", "conformance.echo")


class NodeKit:
    """One run of the rules against one device.

    Parameters
    ----------
    gateway : PlayedGateway
        Where the device connects.
    command, params
        A command that may be called, and its parameters; a harmless one the device declares otherwise.
    slow_command, slow_params
        A command that takes two seconds or more, for the rules about calls side by side.
    """

    def __init__(
        self,
        gateway: PlayedGateway,
        *,
        command: str = "",
        params: dict[str, Any] | None = None,
        slow_command: str = "",
        slow_params: dict[str, Any] | None = None,
    ) -> None:
        self.gateway = gateway
        self._command, self._params = command, params or {}
        self._slow, self._slow_params = slow_command, slow_params or {}
        self.visit: Visit
        self._first: Frame = {}
        self._patience = 60.0
        self._gone = False

    async def prepare(self, wait: float) -> None:
        """Wait ``wait`` seconds for the device; :class:`Unreachable` if none comes."""
        try:
            self.visit = await self.gateway.visit(seconds=wait)
        except TimeoutError:
            raise Unreachable(f"no device connected to {self.gateway.url} within {wait:g} s") from None
        self._patience = wait
        self._first = self.visit.connect_frame

    @property
    def first(self) -> Frame:
        """Its first connect frame."""
        return self._first

    def command(self) -> tuple[str, dict[str, Any]]:
        """Return a command that may be called."""
        if self._command:
            return self._command, self._params
        names = {entry.get("name") for entry in self.first.get("capabilities", []) if isinstance(entry, dict)}
        found = next((name for name in _HARMLESS if name in names), None)
        if found is None:
            raise Skipped("name a command that may be called: --command")
        return found, {}

    def slow_command(self) -> tuple[str, dict[str, Any]]:
        """Return a command that takes its time."""
        if not self._slow:
            raise Skipped("name a command that takes two seconds or more: --slow-command")
        return self._slow, self._slow_params

    async def welcome(self, **more: Any) -> None:
        """Say ``connected``, to a device without ``features`` in Suzent's words alone."""
        await self.visit.welcome(node_id=_NODE_ID, legacy="features" not in self.first, **more)

    async def live(self) -> Visit:
        """Return the connection; welcome the device again if it came back after an earlier rule had ended it."""
        if self.visit.close_code is not None:
            await self.back()
        return self.visit

    async def back(self) -> float:
        """Welcome the device when it comes back; return the seconds it waited since the last connection ended."""
        if self._gone:
            raise Skipped("the device is gone")
        ended = self.visit.closed_at
        try:
            self.visit = await self.gateway.visit(seconds=self._patience)
        except TimeoutError:
            self._gone = True
            raise Broken(f"it did not come back within {self._patience:g} s") from None
        await self.welcome()
        return self.visit.came_at - ended


book: Rulebook[NodeKit] = Rulebook()


@book.rule("connect.first", "The first frame is `connect` with a name, a platform and capabilities.", legacy=True)
async def _connect(kit: NodeKit) -> str:
    frame = kit.first
    expect(frame.get("type") == "connect", f"it was {frame.get('type')!r}")
    name, capabilities = frame.get("display_name"), frame.get("capabilities")
    expect(isinstance(name, str) and name.strip(), f"display_name {name!r}")
    expect(isinstance(frame.get("platform"), str), f"platform {frame.get('platform')!r}")
    expect(isinstance(capabilities, list), "capabilities is no list")
    return f"{name!r}, {len(capabilities or [])} capabilities"


@book.rule(
    "connect.capabilities",
    "Each capability has a name of its own, a description and a `params_schema` of texts.",
    legacy=True,
)
async def _capabilities(kit: NodeKit) -> str:
    entries = kit.first.get("capabilities") or []
    for entry in entries:
        expect(
            isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry["name"], f"an entry is {entry!r}"
        )
        expect(isinstance(entry.get("description"), str), f"{entry['name']} has no description")
        schema = entry.get("params_schema")
        fine = isinstance(schema, dict) and all(isinstance(kind, str) for kind in schema.values())
        expect(fine, f"{entry['name']} has params_schema {schema!r}")
    names = [entry["name"] for entry in entries]
    expect(len(set(names)) == len(names), "names stand twice")
    return ", ".join(names)


@book.rule("connect.size", "The first frame stays under 64 KiB and 4 KiB for each capability.")
async def _size(kit: NodeKit) -> str:
    size = kit.visit.sizes[0]
    expect(size <= 65536 + 4096 * len(kit.first.get("capabilities") or []), f"{size:,} bytes")
    return f"{size:,} bytes"


@book.rule("socket.compression", "It does not ask for permessage-deflate.", level="should")
async def _compression(kit: NodeKit) -> str:
    offers = kit.visit.offered_extensions
    expect(not any("deflate" in offer for offer in offers), "it asks, and copes without")
    return "not asked for"


@book.rule("pending.waits", "After `pending` it waits, and answers pings (RFC 6455).", legacy=True)
async def _pending(kit: NodeKit) -> str:
    await kit.visit.send({"type": "pending", "pairing_code": "K7M2QX", "message": "Waiting for approval"})
    expect(await kit.visit.alive(), "no pong within 5 s")
    expect(len(kit.visit.frames) == 1, f"it sent {kit.visit.frames[-1].get('type')!r} while waiting")
    return "it waits"


@book.rule("connected.stays", "After `connected` it stays and takes fields it does not know.", legacy=True)
async def _connected(kit: NodeKit) -> str:
    await kit.welcome(token=TOKEN, conformance={"nested": [1]})
    expect(await kit.visit.alive(), f"closed with {kit.visit.close_code}")
    return "it stays"


@book.rule("ping.pong", "A JSON `ping` is answered with `pong`.", legacy=True)
async def _ping(kit: NodeKit) -> str:
    visit = await kit.live()
    await visit.send({"type": "ping"})
    await visit.next("pong")
    return "answered"


@book.rule("frames.unknown", "Frame types it does not know are ignored.", legacy=True)
async def _unknown_frames(kit: NodeKit) -> str:
    visit = await kit.live()
    await visit.send({"type": "conformance.unknown", "value": 1})
    expect(await _works(visit), f"closed with {visit.close_code}")
    return "ignored"


@book.rule("invoke.unknown", "An unknown command is answered `success` false, with an error that says so.", legacy=True)
async def _unknown(kit: NodeKit) -> str:
    visit = await kit.live()
    result = await visit.invoke(_UNKNOWN, {"x": 1}, conformance="unknown field")
    expect(result.get("success") is False, f"success {result.get('success')!r}")
    expect(isinstance(result.get("error"), str) and result["error"], f"error {result.get('error')!r}")
    expect(await visit.alive(), "then it was gone")
    return str(result["error"])


@book.rule("invoke.answer", "A command is answered with `success` true and its result.", legacy=True)
async def _answer(kit: NodeKit) -> str:
    visit = await kit.live()
    command, params = kit.command()
    result = await visit.invoke(command, params, seconds=30, timeout=30)
    expect(result.get("success") is True, f"{command} failed: {result.get('error')}")
    return f"{command} answered"


@book.rule("invoke.failure", "A call with wrong parameters fails, and nothing else does.", level="should")
async def _failure(kit: NodeKit) -> str:
    visit = await kit.live()
    command, _ = kit.command()
    entry: Frame = next((entry for entry in kit.first["capabilities"] if entry.get("name") == command), {})
    if (entry.get("input_schema") or {}).get("additionalProperties") is not False:
        raise Skipped(f"{command} takes any parameters")
    result = await visit.invoke(command, {"conformance": [1]}, seconds=30)
    expect(result.get("success") is False, "it was answered with success")
    expect(await visit.alive(), "then it was gone")
    return str(result.get("error"))


@book.rule("invoke.concurrent", "A slow call delays neither another one nor a `pong`.", level="should")
async def _concurrent(kit: NodeKit) -> str:
    visit = await kit.live()
    slow = await visit.call(*kit.slow_command(), timeout=60)
    started, before = time.monotonic(), len(visit.frames)
    await visit.invoke(_UNKNOWN, seconds=60)
    await visit.send({"type": "ping"})
    await visit.next("pong", after=before, seconds=60)
    took = time.monotonic() - started
    early = bool(visit.about(slow, "result"))
    await visit.answer(slow, seconds=60)
    expect(not early or took < 1, f"both came after the slow call, {took:.1f} s later")
    return f"both within {took * 1000:.0f} ms"


@book.rule("cancel.honoured", "With feature `cancel` a cancelled call ends soon, with at most one result.")
async def _cancel(kit: NodeKit) -> str:
    visit = await kit.live()
    if "cancel" not in (kit.first.get("features") or []):
        raise Skipped("it does not declare the feature")
    slow = await visit.call(*kit.slow_command(), timeout=60)
    await visit.alive()
    started = time.monotonic()
    await visit.send({"type": "cancel", "request_id": slow, "reason": "conformance"})
    result = await visit.answer(slow, seconds=60)
    took = time.monotonic() - started
    expect(took < 1.5 and result.get("success") is False, f"success {result.get('success')} after {took:.1f} s")
    return f"ended after {took * 1000:.0f} ms"


@book.rule("invoke.timeout", "A call ends on the device too when the time in its frame is up.", level="should")
async def _timeout(kit: NodeKit) -> str:
    visit = await kit.live()
    started = time.monotonic()
    command, params = kit.slow_command()
    result = await visit.invoke(command, params, timeout=0.5, seconds=60)
    took = time.monotonic() - started
    expect(took < 1.5 and result.get("success") is False, f"success {result.get('success')} after {took:.1f} s")
    return f"after {took * 1000:.0f} ms"


@book.rule("progress.order", "Progress frames of a call have a rising `seq` and come before its result.")
async def _progress(kit: NodeKit) -> str:
    frames = [frame for visit in kit.gateway.visits for frame in visit.frames]
    reports = [frame for frame in frames if frame.get("type") == "progress"]
    if not reports:
        raise Skipped("no call reported any")
    for request_id in {frame.get("request_id") for frame in reports}:
        about = [frame for frame in frames if frame.get("request_id") == request_id]
        numbers: list[Any] = [frame.get("seq") for frame in about if frame.get("type") == "progress"]
        rising = all(isinstance(seq, int) for seq in numbers) and numbers == sorted(set(numbers))
        expect(rising, f"seq {numbers[:20]}")
        kinds = [frame.get("type") for frame in about]
        expect("result" not in kinds or kinds.index("result") == len(kinds) - 1, "some came after the result")
    return f"{len(reports)} frames"


@book.rule("frames.garbage", "What is no JSON object does not end it.", level="should")
async def _garbage(kit: NodeKit) -> str:
    visit = await kit.live()
    for frame in ("hello", "[1]", "null"):
        await visit.send(frame)
    if not await _works(visit):
        code = visit.close_code
        await kit.back()
        expect(False, f"it closed with {code} and came back")
    return "ignored"


@book.rule("token.sent", "After 1001 it comes back by itself and sends the token it was given.", legacy=True)
async def _token(kit: NodeKit) -> str:
    visit = await kit.live()
    await visit.close(1001, "restarting")
    waited = await kit.back()
    expect(kit.visit.connect_frame.get("device_token") == TOKEN, "it did not send its token")
    expect(waited >= 0.05, f"it came back after {waited * 1000:.0f} ms, which is a spin")
    return f"after {waited:.1f} s"


@book.rule(
    "reconnect.lost", "After a connection that breaks without a word (1006) it comes back by itself.", legacy=True
)
async def _lost(kit: NodeKit) -> str:
    visit = await kit.live()
    visit.abort()
    await visit.ended()
    waited = await kit.back()
    expect(waited >= 0.05, f"it came back after {waited * 1000:.0f} ms, which is a spin")
    return f"after {waited:.1f} s"


@book.rule(
    "reconnect.delays",
    "Told to try again later (1013) it waits each time, never the same, and longer in the end.",
    level="should",
    slow=True,
)
async def _delays(kit: NodeKit) -> str:
    await kit.live()
    waits = []
    for _ in range(4):
        await kit.visit.close(1013, "busy")
        waits.append(await kit.back())
    shown = ", ".join(f"{wait:.2f}" for wait in waits)
    expect(min(waits) >= 0.05, f"waited {shown} s, which is a spin")
    expect(max(waits) - min(waits) > 0.05, f"waited {shown} s, always the same")
    expect(max(waits[2:]) > waits[0], f"waited {shown} s, not longer in the end")
    return f"waited {shown} s"


@book.rule("identity.stable", "It names itself the same at every connect.")
async def _identity(kit: NodeKit) -> str:
    seen = {
        (visit.connect_frame.get("display_name"), visit.connect_frame.get("node_identity"))
        for visit in kit.gateway.visits
    }
    expect(len(seen) == 1, f"it was {', '.join(map(repr, seen))}")
    return f"over {len(kit.gateway.visits)} connections"


@book.rule("invoke.once", "Each call was answered exactly once.", legacy=True)
async def _once(kit: NodeKit) -> str:
    answers: dict[str, int] = {}
    for visit in kit.gateway.visits:
        for frame in visit.frames:
            if frame.get("type") == "result":
                key = str(frame.get("request_id"))
                answers[key] = answers.get(key, 0) + 1
    twice = [key for key, count in answers.items() if count > 1]
    expect(not twice, f"{len(twice)} of {len(answers)} were answered more than once")
    return f"{len(answers)} calls"


@book.rule("frames.size", "No frame was larger than the limit the gateway named.")
async def _frame_size(kit: NodeKit) -> str:
    largest = max(size for visit in kit.gateway.visits for size in visit.sizes)
    expect(largest <= FRAME_BYTES, f"{largest:,} bytes")
    return f"the largest had {largest:,} bytes"


@book.rule("refusal.final", "After an `error` frame and 1008 it does not come back.", legacy=True)
async def _refusal(kit: NodeKit) -> str:
    visit = await kit.live()
    count = len(kit.gateway.visits)
    await visit.send({"type": "error", "message": "Refused", "code": "pairing_denied", "hint": "", "retryable": False})
    await visit.close(1008, "Refused")
    try:
        await kit.gateway.visit(count, seconds=4)
    except TimeoutError:
        return "not within 4 s"
    expect(False, "it came back")
    return ""


async def _works(visit: Visit) -> bool:
    """Tell whether the device still answers calls; a pong alone may come from a program that is just ending."""
    try:
        await visit.invoke(_UNKNOWN)
    except (TimeoutError, ConnectionError, ConnectionClosed):
        return False
    return True
