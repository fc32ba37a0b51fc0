"""Trust in a key instead of in authorities: the pin of a certificate, and TLS that goes on only if it matches.

A gateway at home has no name an authority could vouch for. Its pairing link carries the SHA-256 of its public key
instead, as in RFC 7469 section 2.4; the key stays the same when the certificate is renewed.
"""

from __future__ import annotations

import base64
import hashlib
import re
import ssl
from typing import Any

# SHA-256 in base64url without padding.
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")
_SEQUENCE, _VERSION = 0x30, 0xA0
_BEFORE_KEY = 5  # serial number, signature algorithm, issuer, validity, subject: RFC 5280 section 4.1


class WrongKey(ssl.SSLCertVerificationError):
    """The peer's public key is not the pinned one; nothing but the handshake was exchanged."""


def is_pin(text: str) -> bool:
    """Tell whether ``text`` has the form of a pin."""
    return _FORM.fullmatch(text) is not None


def pin_of_key(spki: bytes) -> str:
    """Return the pin of a SubjectPublicKeyInfo in DER: SHA-256, base64url without padding."""
    return base64.urlsafe_b64encode(hashlib.sha256(spki).digest()).rstrip(b"=").decode()


def pin_of(certificate: bytes) -> str:
    """Return the pin of a certificate in DER.

    Its bytes are hashed as they stand, whatever kind of key they hold.

    Raises
    ------
    ValueError
        When it is no X.509 certificate.
    """
    try:
        whole, _ = _element(certificate, 0, _SEQUENCE)
        start, end = _element(certificate, whole, _SEQUENCE)
        if certificate[start] == _VERSION:
            _, start = _element(certificate, start, _VERSION)
        for _ in range(_BEFORE_KEY):
            _, start = _element(certificate, start)
        _, after = _element(certificate, start, _SEQUENCE)
        if after > end:
            raise ValueError("This is no certificate.")
    except IndexError:
        raise ValueError("This is no certificate.") from None
    return pin_of_key(certificate[start:after])


def _element(data: bytes, start: int, tag: int | None = None) -> tuple[int, int]:
    """Return where the content of the DER element at ``start`` begins and ends (X.690 sections 8.1 and 10.1)."""
    if tag is not None and data[start] != tag:
        raise ValueError("This is no certificate.")
    size, begin = data[start + 1], start + 2
    if size >= 0x80:
        count = size & 0x7F
        size, begin = int.from_bytes(data[begin : begin + count], "big"), begin + count
    if begin + size > len(data):
        raise ValueError("This is no certificate.")
    return begin, begin + size


def pinned_context(pin: str) -> ssl.SSLContext:
    """Return TLS for a client that asks no authority, but ends the handshake unless the peer's key has this pin.

    It works wherever an ``SSLContext`` does, blocking or not: the check is part of the handshake, so that not a byte
    of the application leaves before it.

    Raises
    ------
    ValueError
        When ``pin`` has another form.
    """
    if not is_pin(pin):
        raise ValueError("A pin is 43 letters, digits, - and _; copy the whole pairing link.")

    def check(certificate: bytes | None) -> None:
        try:
            matches = certificate is not None and pin_of(certificate) == pin
        except ValueError:
            matches = False
        if not matches:
            raise WrongKey(1, "the peer's key is not the pinned one")

    def before_check() -> ssl.SSLError:
        # OpenSSL would shake hands by itself and send.
        return ssl.SSLError(1, "shake hands first: the peer's key is not checked yet")

    class PinnedSocket(ssl.SSLSocket):
        checked = False

        def do_handshake(self, block: bool = False) -> None:
            super().do_handshake(block)
            check(self.getpeercert(True))
            self.checked = True

        def send(self, data: Any, flags: int = 0) -> int:
            if not self.checked:
                raise before_check()
            return super().send(data, flags)

        def write(self, data: Any) -> int:
            if not self.checked:
                raise before_check()
            return super().write(data)

    class PinnedObject(ssl.SSLObject):
        checked = False

        def do_handshake(self) -> None:
            super().do_handshake()
            check(self.getpeercert(True))
            self.checked = True

        def write(self, data: Any) -> int:
            if not self.checked:
                raise before_check()
            return super().write(data)

    context: Any = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.check_hostname = False  # the key says who it is, by whatever name or address it was reached
    context.verify_mode = ssl.CERT_NONE
    context.sslsocket_class, context.sslobject_class = PinnedSocket, PinnedObject
    checked: ssl.SSLContext = context
    return checked
