"""Being found by mDNS, on the loopback interface. Other tests may speak there too, so each looks for its own names."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from dataclasses import dataclass
from typing import Any

import pytest
from support.running import sync, until

from suzent_jupyter.discovery import Discovery, advertiser, browser, mdns
from suzent_jupyter.discovery.browser import Found, browse

LOOPBACK = ["127.0.0.1"]


@dataclass
class Switches:
    """The settings discovery reads."""

    display_name: str
    node_discovery_enabled: bool = True


def unique(name: str) -> str:
    return f"{name} {os.getpid()} {os.urandom(3).hex()}"


def make(settings: Switches, place: str = "here", **options: Any) -> Discovery:
    options = {"port": 25314, "lan": True, "interfaces": LOOPBACK, **options}
    return Discovery(settings, place + settings.display_name, **options)


async def found(name: str, seconds: float = 20) -> Found:
    """Look until a gateway of this name is found."""
    end = time.monotonic() + seconds
    while True:
        for each in await browse(1.2, LOOPBACK):
            if each.name == name:
                return each
        assert time.monotonic() < end, f"{name} was not found"


@sync
async def test_advertised_as_suzent_reads_it() -> None:
    """Suzent decodes the TXT entries, takes the first IPv4 address, and knows no other key."""
    from zeroconf.asyncio import AsyncServiceInfo, AsyncZeroconf

    settings = Switches(unique("Lab.PC 🧪"))
    discovery = make(settings, port=25399, tls_port=25315)
    discovery.start()
    try:
        assert discovery.instance == "", "start does not wait"
        await until(lambda: discovery.instance, 15)
        assert discovery.instance == f"{settings.display_name.replace('.', '-')}._suzent-node._tcp.local."
        zeroconf = AsyncZeroconf(interfaces=LOOPBACK)
        info = AsyncServiceInfo("_suzent-node._tcp.local.", discovery.instance)
        assert await info.async_request(zeroconf.zeroconf, 5000)
        await zeroconf.async_close()
        assert (info.addresses[0], info.port) == (bytes([127, 0, 0, 1]), 25399)
        assert info.properties == {
            b"display_name": settings.display_name.encode(), b"auth_mode": b"approve", b"path": b"/ws/node",
            b"tls_port": b"25315",
        }  # fmt: skip
        seen = await found(settings.display_name)
        assert (seen.hosts, seen.port, seen.auth_mode, seen.tls_port) == (("127.0.0.1",), 25399, "approve", 25315)
    finally:
        await discovery.stop()


@sync
async def test_without_tls_there_is_no_key_for_it() -> None:
    info = mdns.Service("Lab", 25314, None, ("10.0.0.1", "fd00::1"), "abcd1234").info("Lab")
    assert set(info.properties) == {b"display_name", b"auth_mode", b"path"}
    assert info.server == "suzent-abcd1234.local."
    assert info.parsed_addresses() == ["10.0.0.1", "fd00::1"]


@sync
async def test_two_of_one_name_at_the_same_moment_and_a_third_later() -> None:
    settings = Switches(unique("Twins"))
    twins = [make(settings, f"place-{n}", port=25400 + n) for n in range(3)]
    for each in twins[:2]:
        each.start()
    try:
        await until(lambda: twins[0].instance and twins[1].instance, 30)
        twins[2].start()
        await until(lambda: twins[2].instance, 30)
        instances = [each.instance for each in twins]
        assert len(set(instances)) == 3
        plain = f"{settings.display_name}._suzent-node._tcp.local."
        assert plain in instances[:2], "one keeps its name"
        for each in set(instances) - {plain}:
            suffix = each.removeprefix(settings.display_name).removesuffix("._suzent-node._tcp.local.")
            assert len(suffix) == 5 and suffix[0] == " "
        ports: set[int] = set()
        async with asyncio.timeout(20):
            while ports != {25400, 25401, 25402}:
                ports |= {each.port for each in await browse(1.2, LOOPBACK) if each.name == settings.display_name}
        answer = await twins[0].discover(1.5)
        assert 25400 not in {each.port for each in answer.lan}, "never ourselves"
    finally:
        await asyncio.gather(*(each.stop() for each in twins))


@sync
async def test_settings_are_followed_while_it_runs() -> None:
    settings = Switches(unique("Before"), node_discovery_enabled=False)
    discovery = make(settings)
    discovery.start()
    try:
        settings.node_discovery_enabled = True
        discovery.refresh()
        await until(lambda: discovery.instance.startswith("Before"), 15)
        settings.display_name = unique("After")
        discovery.refresh()
        await until(lambda: discovery.instance.startswith("After"), 15)
        settings.node_discovery_enabled = False
        discovery.refresh()
        await until(lambda: not discovery.instance, 15)
        assert discovery.problem == ""
    finally:
        await discovery.stop()


@sync
async def test_on_loopback_alone_nothing_is_advertised() -> None:
    discovery = make(Switches(unique("Hidden")), lan=False)
    discovery.start()
    assert discovery._advertiser._task is None
    discovery.refresh()
    await discovery.stop()


@sync
async def test_stop_is_quick_at_any_moment() -> None:
    for wait in (False, True):
        discovery = make(Switches(unique("Quick")))
        discovery.start()
        looking = asyncio.ensure_future(discovery.discover(9))
        if wait:
            await until(lambda d=discovery: d.instance, 15)
        await asyncio.sleep(0)
        started = time.monotonic()
        await discovery.stop()
        assert time.monotonic() - started < 1.5
        with pytest.raises(asyncio.CancelledError):
            await looking


@sync
async def test_a_registration_that_hangs(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from zeroconf.asyncio import AsyncZeroconf

    opened: list[AsyncZeroconf] = []

    class Hanging(AsyncZeroconf):
        """It opens, and then does nothing, not even end."""

        async def async_register_service(self, *arguments: Any, **options: Any) -> Any:
            await asyncio.Event().wait()

        async def async_close(self) -> None:
            await asyncio.Event().wait()

    async def open_hanging(interfaces: Any) -> AsyncZeroconf:
        opened.append(Hanging(interfaces=interfaces))
        return opened[-1]

    monkeypatch.setattr(advertiser, "open_zeroconf", open_hanging)
    monkeypatch.setattr(advertiser, "ASK_SECONDS", 0.01)
    monkeypatch.setattr(advertiser, "REGISTER_SECONDS", 0.2)
    discovery = make(Switches("Stuck"))
    started = time.monotonic()
    discovery.start()
    assert time.monotonic() - started < 0.1
    await until(lambda: discovery.problem)
    assert discovery.problem == "This gateway is not advertised by mDNS: no answer within 0.2 s"
    for _ in range(3):
        discovery.refresh()
        await asyncio.sleep(0.3)
    assert [each.levelno for each in caplog.records if "not advertised" in each.message] == [logging.WARNING]
    started = time.monotonic()
    await discovery.stop()
    assert time.monotonic() - started < 1.5
    for each in opened:
        await AsyncZeroconf.async_close(each)


@sync
async def test_a_machine_without_multicast(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refused(interfaces: Any) -> Any:
        raise OSError(19, "No such device")

    monkeypatch.setattr(advertiser, "open_zeroconf", refused)
    monkeypatch.setattr(browser, "open_zeroconf", refused)
    discovery = make(Switches("Alone"))
    discovery.start()
    await until(lambda: discovery.problem)
    answer = await discovery.discover(1)
    assert answer.lan == []
    assert [each for each in answer.problems if "Tailscale" not in each] == [
        "This gateway is not advertised by mDNS: [Errno 19] No such device",
        "The local network can't be searched by mDNS: [Errno 19] No such device.",
    ]
    await discovery.stop()


@sync
async def test_a_search_that_hangs_or_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    from suzent_jupyter.discovery import discover

    async def hang(seconds: float, interfaces: Any) -> Any:
        await asyncio.Event().wait()

    async def fail(seconds: float, interfaces: Any) -> Any:
        raise RuntimeError("\x1b[31mboom")

    monkeypatch.setattr(discover, "_SLACK_SECONDS", 0.1)
    for broken in (hang, fail):
        monkeypatch.setattr(discover, "browse", broken)
        discovery = make(Switches("Alone"), lan=False)
        answer = await discovery.discover(0.1)
        assert answer.lan == []
        assert answer.problems[0].startswith("The local network can't be searched by mDNS: ")
        assert answer.problems[0].isprintable()
        await discovery.stop()


@sync
async def test_hostile_advertisements_are_cleaned_or_left_out() -> None:
    from zeroconf import ServiceInfo
    from zeroconf.asyncio import AsyncZeroconf

    mark = unique("Evil")
    kind = "_suzent-node._tcp.local."

    def service(number: int, addresses: list[str], port: int, **properties: Any) -> ServiceInfo:
        return ServiceInfo(
            kind, f"{mark} {number}.{kind}", parsed_addresses=addresses, port=port, properties=properties,
            server=f"{os.urandom(4).hex()}.local.",
        )  # fmt: skip

    name = f"\x1b[31m{mark}\u202e<b>\n{'x' * 100}"
    infos = [
        service(
            1,
            ["127.0.0.1", "224.0.0.1", "fe80::1", "::ffff:127.0.0.1"],
            25371,
            display_name=name,
            auth_mode=b"\xff\0",
            tls_port="99999",
        ),
        service(2, ["224.0.0.1", "255.255.255.255", "0.0.0.0"], 25372, display_name=mark),
        service(3, ["127.0.0.1"], 0),
        service(4, ["127.0.0.1"], 25374, display_name=None, tls_port="-1"),
    ]
    zeroconf = AsyncZeroconf(interfaces=LOOPBACK)
    try:
        await asyncio.gather(*(await asyncio.gather(*(zeroconf.async_register_service(each) for each in infos))))
        seen: dict[int, Found] = {}
        async with asyncio.timeout(20):
            while len(seen) < 2:
                seen |= {each.port: each for each in await browse(1.2, LOOPBACK) if mark in each.name}
        assert set(seen) == {25371, 25374}
        assert seen[25371].name == f"{mark}<b> {'x' * 100}"[:64]
        assert (seen[25371].hosts, seen[25371].tls_port) == (("127.0.0.1",), None)
        assert seen[25371].auth_mode.isprintable()
        assert (seen[25374].name, seen[25374].auth_mode, seen[25374].tls_port) == (f"{mark} 4", "unknown", None)
    finally:
        await zeroconf.async_close()
