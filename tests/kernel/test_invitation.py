"""``%suzent invite``: the QR code under the cell, the link, and what to do."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest
from support import qr
from support.external import external_address

from suzent_jupyter.gateway.settings import Settings
from suzent_jupyter.kernel.display import Config
from suzent_jupyter.kernel.invitation import Invitation
from suzent_jupyter.protocol.pairing_link import PairingLink
from suzent_jupyter.server.qr import qr_data_uri

from .conftest import Phone, Shell

EVIL = "<img src=x onerror=alert(1)>\x1b[31m\u202e"
LINK = "https://192.168.1.10:25315/node#join=abc&id=g1"
LOCAL = {
    "label": "This machine",
    "host": "127.0.0.1",
    "gateway_url": "ws://127.0.0.1:25314/ws/node",
    "kind": "local",
    "pairing_link": "http://127.0.0.1:25314/node#join=abc&id=g1",
    "qr": None,
}
LAN = {
    "label": "LAN",
    "host": "192.168.1.10",
    "gateway_url": "wss://192.168.1.10:25315/ws/node",
    "kind": "lan",
    "pairing_link": LINK,
    "qr": qr_data_uri(LINK),
}
ANSWER = {"ticket": "abc", "expires_at": "2026-05-01T10:20:30.000+00:00", "name": "Bench", "links": [LOCAL, LAN]}


def test_in_a_notebook(shell: Shell, make_phone: Callable[..., Phone], gateway: Any) -> None:
    invitation = shell.run("made = %suzent invite 'Bench 3'\nmade")
    assert isinstance(invitation, Invitation)
    assert not invitation.for_others
    assert invitation.png is None
    text = repr(invitation)
    assert text.splitlines()[0] == invitation.link == invitation.links[0]["pairing_link"]
    assert "Only programs on this machine" in text
    assert "%suzent config node_lan_bind true" in text
    assert set(shell.formatted(invitation)) == {"text/plain", "text/html"}
    phone = make_phone(gateway, "Pi", ticket=PairingLink.parse(invitation.link).ticket)
    code = phone.code()
    frame = shell.run("%suzent pending")
    assert (bool(frame.loc[code, "invited"]), frame.loc[code, "invitation"]) == (True, "Bench 3")
    assert shell.complete("%suzent invi") == [("invi", "invite")]
    assert "%suzent invite [NAME]" in repr(shell.run("%suzent help invite"))


def test_for_other_machines_the_code_is_shown(make_gateway: Any, gw: Any, shell: Shell) -> None:
    if external_address() is None:
        pytest.skip("this machine has no address but loopback")
    gateway = make_gateway(settings=Settings(node_lan_bind=True))
    shell.run(f"%suzent use {gateway.url} --token {gateway.token}")
    invitation = shell.run("%suzent invite")
    bundle = shell.formatted(invitation)
    assert set(bundle) == {"text/plain", "text/html", "image/png"}
    shown = bundle["image/png"]
    png = shown if isinstance(shown, bytes) else base64.b64decode(shown)
    qr.assert_says(png, invitation.link)
    assert base64.b64encode(png).decode() in bundle["text/html"]
    assert invitation.link.replace("&", "&amp;") in bundle["text/html"]
    assert "plain ws://" in repr(invitation)


def test_the_link_most_devices_can_use_is_the_link() -> None:
    invitation = Invitation(ANSWER)
    assert (invitation.link, invitation.for_others) == (LINK, True)
    assert invitation.png is not None
    qr.assert_says(invitation.png, LINK)
    assert "until 10:20 UTC" in repr(invitation)
    assert "qr" not in invitation.links[1]


@pytest.mark.parametrize("image", ["data:image/svg+xml;base64,PHN2Zz4=", "data:image/png;base64,PHN2Zz4=", EVIL, 5])
def test_what_a_gateway_sends_is_shown_as_text_and_as_png_only(image: Any) -> None:
    evil = dict.fromkeys(LAN, EVIL)
    invitation = Invitation(
        {**ANSWER, "name": EVIL, "problem": EVIL, "warnings": [EVIL], "links": [{**evil, "qr": image}]}
    )
    bundle = invitation._repr_mimebundle_()
    assert "image/png" not in bundle
    assert "<img" not in bundle["text/html"]
    assert "\x1b" not in bundle["text/plain"] + bundle["text/html"]
    assert "\u202e" not in bundle["text/plain"] + bundle["text/html"]


def test_without_an_address_it_says_why() -> None:
    invitation = Invitation({"links": [], "problem": "The port is taken."})
    assert repr(invitation) == "The port is taken."
    assert invitation.link == ""


def test_config_shows_addresses_and_no_codes(shell: Shell, gateway: Any) -> None:
    config = shell.run("%suzent config")
    assert config["addresses"][0]["gateway_url"] == gateway.node_url
    shown = repr(config)
    assert "address: This machine" in shown
    assert gateway.node_url in shown
    both = repr(Config({"addresses": [LAN, {**LAN, "host": "10.0.0.1"}], "port": 1}))
    assert both.count("address: LAN") == 2
    assert "base64" not in both + shown
