"""The link that invites a device."""

from __future__ import annotations

import pytest

from suzent_jupyter.protocol.pairing_link import PairingLink

PIN = "A" * 42 + "_"


@pytest.mark.parametrize(
    "link",
    [
        PairingLink("https://192.168.1.10:25315", "ticket-1", PIN, "g1"),
        PairingLink("http://192.168.1.10:25314", "t"),
        PairingLink("https://hub.example/user/a%40b/suzent", "t", "", "g1"),
        PairingLink("https://[fe80::1]:25315", "a&b=c#d", PIN, "ü"),
    ],
)
def test_it_survives_being_written_and_read(link: PairingLink) -> None:
    assert PairingLink.is_link(str(link))
    assert PairingLink.parse(f"  {link}\n") == link


def test_it_leads_to_the_device_socket() -> None:
    assert PairingLink.parse("https://10.0.0.5:1/node#join=t").socket_url == "wss://10.0.0.5:1/ws/node"
    assert PairingLink.parse("http://h/user/ada/suzent/node/#id=g").socket_url == "ws://h/user/ada/suzent/ws/node"


@pytest.mark.parametrize(
    "text",
    ["", "ws://h/ws/node", "http://h/ws/node", "https://h/node", "javascript:alert(1)//node#join=t", "h:1/node#join=t"],
)
def test_an_address_is_no_link(text: str) -> None:
    assert not PairingLink.is_link(text)
    with pytest.raises(ValueError, match="not a pairing link"):
        PairingLink.parse(text)


@pytest.mark.parametrize("pin", ["x", PIN + "A", "<script>" + "A" * 35])
def test_a_damaged_pin_is_refused(pin: str) -> None:
    with pytest.raises(ValueError, match="damaged"):
        PairingLink.parse(f"https://h/node#join=t&pin={pin}")


def test_a_name_and_password_before_the_host_are_dropped() -> None:
    assert PairingLink.parse("https://me:secret@h:1/node#join=t").base_url == "https://h:1"


def test_a_repr_shows_no_ticket() -> None:
    assert "secret-ticket" not in repr(PairingLink("https://h:1", "secret-ticket", PIN, "g1"))
