"""A pin is the hash of the key as it stands in the certificate, and a pinned handshake ends without it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from support.running import sync, until
from support.tls import Made, make_certificate, recorder

from suzent_jupyter.protocol.pairing_link import PairingLink
from suzent_jupyter.protocol.pin import is_pin, pin_of, pinned_context
from suzent_jupyter.protocol.tls_trouble import tls_trouble

KEYS: dict[str, Any] = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
    "Ed25519": ed25519.Ed25519PrivateKey.generate,
}


def expected(made: Made) -> str:
    spki = made.key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return base64.urlsafe_b64encode(hashlib.sha256(spki).digest()).decode().rstrip("=")


@pytest.mark.parametrize("kind", KEYS)
def test_a_pin_is_the_hash_of_the_public_key(tmp_path: Path, kind: str) -> None:
    made = make_certificate(tmp_path, key=KEYS[kind](), sans=[f"host-{n}.example" for n in range(60)])
    assert pin_of(made.der) == expected(made)
    assert is_pin(made.pin)
    again = make_certificate(tmp_path, "renewed", key=made.key)
    assert again.der != made.der
    assert again.pin == made.pin
    link = f"https://10.0.0.5:25315/node#join=t&pin={made.pin}"
    assert PairingLink.parse(link).pin == made.pin


@given(st.binary(max_size=200))
def test_what_is_no_certificate_has_no_pin(data: bytes) -> None:
    with pytest.raises(ValueError, match="no certificate"):
        pin_of(data)


def test_a_cut_certificate_has_no_pin(tmp_path: Path) -> None:
    der = make_certificate(tmp_path).der
    for end in range(len(der)):
        with pytest.raises(ValueError, match="no certificate"):
            pin_of(der[:end])


@pytest.mark.parametrize("pin", ["", "short", "A" * 42 + "=", "A" * 44, "A" * 42 + "+"])
def test_other_forms_are_no_pins(pin: str) -> None:
    assert not is_pin(pin)
    with pytest.raises(ValueError, match="pairing link"):
        pinned_context(pin)


def handshake(client: ssl.SSLContext, made: Made, version: ssl.TLSVersion) -> bytes:
    """Shake hands in memory, say a word if it succeeds; return what the server could read."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.minimum_version = server.maximum_version = version
    server.load_cert_chain(made.file, made.key_file)
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    here = client.wrap_bio(down, up, server_hostname="anything.example")
    there = server.wrap_bio(up, down, server_side=True)
    done = {"here": False, "there": False}
    error: ssl.SSLError | None = None
    for _ in range(10):
        for name, side in (("here", here), ("there", there)):
            try:
                side.do_handshake()
                done[name] = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as wrong:
                error = error or wrong
        if error is not None or all(done.values()):
            break
    if error is None:
        here.write(b"token")
    try:
        heard = there.read(100)
    except ssl.SSLError:
        heard = b""
    if error is not None:
        assert heard == b""
        raise error
    return heard


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_only_the_pinned_key_is_spoken_to(tmp_path: Path, version: ssl.TLSVersion) -> None:
    made, other = make_certificate(tmp_path, "one", days=(-9, -5)), make_certificate(tmp_path, "two")
    assert handshake(pinned_context(made.pin), made, version) == b"token"  # whatever the dates and the name say
    with pytest.raises(ssl.SSLCertVerificationError) as refused:
        handshake(pinned_context(made.pin), other, version)
    trouble = tls_trouble(refused.value, "wss://10.0.0.5:25315/ws/node")
    assert trouble is not None
    assert trouble.final
    assert "shows another key than the one it was paired with" in str(trouble)
    assert "new pairing link" in trouble.hint


@sync
async def test_nothing_is_written_before_the_check(tmp_path: Path) -> None:
    made = make_certificate(tmp_path)
    async with recorder(made) as other:

        def early() -> None:
            raw = socket.create_connection(("127.0.0.1", other.port), 10)
            with pinned_context(made.pin).wrap_socket(raw, do_handshake_on_connect=False) as wrapped:
                for say in (wrapped.send, wrapped.sendall, wrapped.write):
                    with pytest.raises(ssl.SSLError, match="not checked yet"):
                        say(b"token")
                assert other.said == b""
                wrapped.do_handshake()
                wrapped.sendall(b"now")

        await asyncio.to_thread(early)
        await until(lambda: other.said == b"now")
    outside = pinned_context(made.pin).wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())
    with pytest.raises(ssl.SSLError, match="not checked yet"):
        outside.write(b"token")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_old_tls_is_not_spoken(tmp_path: Path) -> None:
    made = make_certificate(tmp_path)
    with pytest.raises(ssl.SSLError):
        handshake(pinned_context(made.pin), made, ssl.TLSVersion.TLSv1_1)
