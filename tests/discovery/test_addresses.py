"""Addresses that other machines can use, and none of the others."""

from __future__ import annotations

import ipaddress
import socket
from collections import namedtuple
from typing import Any

import psutil
import pytest
from support.running import sync

from suzent_jupyter.discovery import local_addresses
from suzent_jupyter.discovery.addresses import parse_ip, read_addresses

Entry = namedtuple("Entry", "family address")
State = namedtuple("State", "isup flags")


def machine(
    monkeypatch: pytest.MonkeyPatch, interfaces: dict[str, list[str]], **states: State
) -> list[tuple[str, str]]:
    """Return labels and hosts on a machine that has these interfaces."""

    def entries(addresses: list[str]) -> list[Entry]:
        return [Entry(socket.AF_INET6 if ":" in each else socket.AF_INET, each) for each in addresses]

    monkeypatch.setattr(psutil, "net_if_addrs", lambda: {name: entries(each) for name, each in interfaces.items()})
    monkeypatch.setattr(
        psutil, "net_if_stats", lambda: {name: states.get(name, State(True, "up,multicast")) for name in interfaces}
    )
    return [(each.label, each.host) for each in read_addresses()]


@sync
async def test_of_this_machine() -> None:
    hosts = [each.host for each in await local_addresses()]
    assert len(hosts) == len(set(hosts))
    for host in hosts:
        address: Any = ipaddress.ip_address(host)
        assert not address.is_loopback and not (address.version == 6 and address.is_link_local)


def test_what_nobody_else_can_use_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine(
        monkeypatch,
        {
            "lo": ["127.0.0.1", "::1"],
            "docker0": ["172.17.0.1"],
            "br-0123456789ab": ["172.18.0.1"],
            "utun3": ["198.18.0.1"],
            "eth1": ["10.9.9.9"],
            "eth0": ["192.168.7.5", "fe80::1%eth0", "fd12::5", "169.254.3.4"],
            "tailscale0": ["100.99.1.2", "fd7a:115c:a1e0::9", "fe80::2%tailscale0"],
        },
        eth1=State(False, ""),
    )
    assert found == [
        ("LAN", "192.168.7.5"), ("Tailscale", "100.99.1.2"), ("LAN IPv6", "fd12::5"),
        ("Tailscale IPv6", "fd7a:115c:a1e0::9"),
    ]  # fmt: skip


def test_several_interfaces_are_told_apart_and_tunnels_come_last(monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine(
        monkeypatch,
        {"wg0": ["10.0.0.2"], "wlan0": ["192.168.7.5"], "bad\x1b[2J": ["192.168.8.5"]},
        wg0=State(True, "up,pointopoint,running"),
    )
    assert found == [("LAN (wlan0)", "192.168.7.5"), ("LAN (bad)", "192.168.8.5"), ("LAN (wg0)", "10.0.0.2")]


def test_a_cable_between_two_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine(monkeypatch, {"eth0": ["169.254.3.4"]}) == [("LAN", "169.254.3.4")]


def test_no_network_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert machine(monkeypatch, {}) == []


def test_what_is_no_address() -> None:
    assert parse_ip("fe80::1%eth0") is None and parse_ip("x") is None and parse_ip(7) is None
