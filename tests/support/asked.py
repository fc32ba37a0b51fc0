"""Everybody who may be asked, or must not be: people and devices of three accounts on one gateway, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import httpx

from suzent_jupyter.gateway.devices import Device

from .chats import Person
from .client import BareClient
from .device import BareDevice
from .executing import Worker
from .gateways import Addresses, ThreadedGateway
from .running import until

Frame = dict[str, Any]
Make = Callable[..., ThreadedGateway]

#: `guarded` says itself that it asks, `free` that it does not; of the camera its name decides.
ABLE = [
    {"name": "guarded", "requires_permission": True},
    {"name": "camera.snap"},
    {"name": "camera.free", "requires_permission": False},
    {"name": "echo"},
]


class Account(Addresses):
    """The gateway as the holder of an account's own token reaches it."""

    def __init__(self, gateway: ThreadedGateway, account: str, org: str) -> None:
        device = Device("", b"", f"{account}'s token", scope="full", account=account, org=org)
        _, self.token = gateway.run(gateway.service.gateway.credentials.adopt(device))
        self.url = gateway.url


class Seat:
    """Whoever sits at one socket: all it hears is kept, and calls are answered with their parameters."""

    def __init__(self, name: str, socket: Any) -> None:
        self.name = name
        self.socket = socket
        self.frames: list[Frame] = socket.frames if isinstance(socket, Worker) else []
        self.invoked: list[Frame] = []
        self._reading: asyncio.Task[None] | None = None
        self._ids = itertools.count()

    @property
    def node_id(self) -> str:
        return str(self.socket.node_id)

    def listen(self) -> None:
        if not isinstance(self.socket, Worker):
            self._reading = asyncio.create_task(self._read())

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)

    async def send(self, **frame: Any) -> None:
        await self.socket.ws.send(json.dumps(frame))

    async def _read(self) -> None:
        with contextlib.suppress(Exception):
            async for text in self.socket.ws:
                frame = json.loads(text)
                self.frames.append(frame)
                if frame["type"] == "invoke":
                    answer = {"request_id": frame["request_id"], "success": True, "result": frame["params"]}
                    await self.send(type="result", **answer)

    @property
    def calls(self) -> list[Frame]:
        """The calls it was sent."""
        return [each for each in self.frames if each["type"] in ("invoke", "node.invoke.request")]

    def prompts(self) -> list[Frame]:
        """Return the prompts it was asked, as it heard of them."""
        found = [each for each in self.frames if each["type"] == "permission.request"]
        changes = [each for each in self.frames if each["type"] == "change" and each["topic"] == "permissions"]
        for change in changes:
            found += change["item"] if change["kind"] == "snapshot" else []
            found += [change["item"]] if change["kind"] == "added" else []
        return found

    def closed(self) -> list[Frame]:
        """Return the prompts it heard the end of."""
        found = [each for each in self.frames if each["type"] == "permission.resolved"]
        return found + [
            each["item"]
            for each in self.frames
            if each["type"] == "change" and each["topic"] == "permissions" and each["kind"] == "removed"
        ]

    async def caught_up(self) -> None:
        """Wait for an answer that comes after all that was sent before."""
        before = len(self.frames)
        if isinstance(self.socket, BareDevice):
            await self.send(type="ping")
            await until(lambda: any(each["type"] == "pong" for each in self.frames[before:]))
            return
        mark = f"mark-{next(self._ids)}"
        await self.send(type="chat.watch", id=mark, run_id="none")
        await until(lambda: any(each.get("id") == mark for each in self.frames[before:]))

    async def prompt(self) -> Frame:
        """Wait for the next prompt that is still open, as this seat knows."""

        def open_one() -> Frame | None:
            over = {each["id"] for each in self.closed()}
            return next((each for each in self.prompts() if each["id"] not in over), None)

        return dict(await until(open_one, 20))

    async def answer(self, prompt_id: Any, decision: str = "allow", remember: str = "once") -> Frame:
        """Answer a prompt; return the frame that says what became of that."""
        before = len(self.frames)
        await self.send(type="permission.response", id=prompt_id, decision=decision, remember=remember)

        def said() -> Frame | None:
            for each in self.frames[before:]:
                if each["type"] in ("error", "permission.resolved") and each.get("id") == prompt_id:
                    return each
            return None

        return dict(await until(said, 20))


class Cast:
    """Everybody, by name; the names of one account's begin alike."""

    def __init__(self, gateway: ThreadedGateway, accounts: dict[str, Addresses]) -> None:
        self.gateway = gateway
        self.accounts = accounts
        self.seats: dict[str, Seat] = {}
        self.http: dict[str, httpx.AsyncClient] = {}
        #: Set once the agent of `lab` may end its turns.
        self.go = asyncio.Event()

    def __getitem__(self, name: str) -> Seat:
        return self.seats[name]

    def asked(self) -> set[str]:
        """Return who heard of a prompt."""
        return {name for name, seat in self.seats.items() if seat.prompts()}

    async def caught_up(self) -> None:
        await asyncio.gather(*(seat.caught_up() for seat in self.seats.values()))

    async def waiting(self, account: str) -> list[Frame]:
        return list((await self.http[account].get("/permissions")).json()["permissions"])

    async def history(self, account: str) -> list[Frame]:
        return list((await self.http[account].get("/permissions?history=1")).json()["permissions"])

    async def work(self, node: Worker, run: Frame) -> str:
        """Answer what somebody asks the agent, once the test lets it."""
        await self.go.wait()
        return "done"


#: Seat → account, kind, and whether it can ask its person. `lab` has an agent and is shared with the organisation.
SEATS: dict[str, tuple[str, str, bool]] = {
    "ada-tab": ("ada", "client", True),
    "ada-page": ("ada", "web", True),
    "ada-a": ("ada", "app", True),
    "ada-b": ("ada", "app", True),
    "ada-mute": ("ada", "app", False),
    "ada-phone": ("ada", "device", True),
    "ada-old": ("ada", "device", False),
    "lab": ("ada", "agent", True),
    "bob-tab": ("bob", "client", True),
    "bob-page": ("bob", "web", True),
    "bob-a": ("bob", "app", True),
    "eve-tab": ("eve", "client", True),
    "eve-a": ("eve", "app", True),
}


@asynccontextmanager
async def cast(make_gateway: Make, *names: str, **config: Any) -> AsyncIterator[Cast]:
    """Connect seats, all of them where none is named; ada and bob are of one organisation, eve of another."""
    gateway = make_gateway(org="team", **config)
    gateway.service.gateway.waiting_account = None
    bob, eve = await asyncio.gather(
        *(asyncio.to_thread(Account, gateway, *each) for each in (("bob", "team"), ("eve", "other")))
    )
    everybody = Cast(gateway, {"ada": gateway, "bob": bob, "eve": eve})
    async with AsyncExitStack() as stack:
        for account, addresses in everybody.accounts.items():
            everybody.http[account] = await stack.enter_async_context(addresses.http())
        for name in names or SEATS:
            seat = await _seat(everybody, stack, name)
            everybody.seats[name] = seat
            seat.listen()
            stack.push_async_callback(seat.close)
            if name.endswith("-tab"):
                await seat.send(type="subscribe", topics=["permissions"])
        if "lab" in everybody.seats:
            answer = await everybody.http["ada"].post(f"/nodes/{everybody['lab'].node_id}/scope", json=_SHARED)
            assert answer.status_code == 200, answer.text
        yield everybody
        everybody.go.set()


_SHARED = {"scope": "enterprise"}


async def _seat(everybody: Cast, stack: AsyncExitStack, name: str) -> Seat:
    account, kind, can_ask = SEATS[name]
    addresses = everybody.accounts[account]
    features = ["cancel", *(["permissions"] if can_ask else [])]
    match kind:
        case "client":
            return Seat(name, await stack.enter_async_context(BareClient(addresses)))
        case "web":
            return Seat(name, await stack.enter_async_context(Person(addresses)))
        case "device":
            device = await stack.enter_async_context(
                BareDevice(addresses.node_url, name, ABLE, **({"features": features} if can_ask else {}))
            )
            return Seat(name, await addresses.pair(device))
        case _:
            work = everybody.work if kind == "agent" else None
            worker = Worker(addresses, name, work, features=features, capabilities=ABLE)  # type: ignore[arg-type]
            return Seat(name, await stack.enter_async_context(worker))
