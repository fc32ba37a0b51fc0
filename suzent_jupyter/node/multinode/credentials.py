"""Who this device is, and for which gateway alone it signs: its Ed25519 key, and the identity it pinned."""

from __future__ import annotations

import base64
import binascii
import logging
from typing import TYPE_CHECKING, Any

from ...protocol.limits import Limits
from ...protocol.multinode import Challenge
from ...protocol.text import clean_text
from ..vault import TokenVault, VaultError
from ..verdicts import Lost, Refused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

log = logging.getLogger(__name__)

_LIFETIME = int(Limits().jwt_lifetime)
_IDENTITY_CHARS = 128
_SHOWN = 16  # characters of an identity; enough to tell two apart


class Credentials:
    """The key of one device, and what it knows of one gateway. Its methods block: call them in a thread.

    The key is made once and kept in the vault under ``key:<url>:<name>``: one for every address, so that whoever
    answers at another one, and passes on this gateway's challenges, gets a signature that nobody knows. The gateway's
    identity is that of the pairing link, else what the challenge said when this device was first approved there, kept
    under ``gateway:<url>``.

    Parameters
    ----------
    url, name : str
        The gateway's socket, and what people call this device.
    gateway_id : str
        The identity a pairing link names; ``""`` for none.
    vault : TokenVault
        Where both are kept.
    """

    def __init__(self, url: str, name: str, gateway_id: str, vault: TokenVault) -> None:
        self._url = url
        self._name = name
        self._named = gateway_id
        self._vault = vault
        self._key: Ed25519PrivateKey | None = None
        self._is_kept = True
        self._seen = ""

    @property
    def gateway_id(self) -> str:
        """The gateway that was signed for last; ``""`` before the first time."""
        return self._seen

    def prove(self, challenge: Challenge) -> str:
        """Return the JWT (RFC 7519, EdDSA as RFC 8037) that answers a challenge.

        ``exp`` counts from the gateway's clock; this device's own may be anything.

        Raises
        ------
        Refused
            When another gateway asks than the one that is pinned.
        Lost
            When the vault, from which the key came, can't be asked which one is.
        """
        import jwt

        from ...protocol.keys import jwk_of, thumbprint

        key = self._private_key()
        pinned = self._named or self._pinned()
        asking = challenge.aud
        if pinned and asking != pinned:
            raise Refused(
                f"at {self._url} now answers another gateway ({_shown(asking)}) than the one this device belongs to "
                f"({_shown(pinned)}), and it signs for no other; if that is right, join again by the new gateway's "
                "pairing link"
            )
        self._seen = asking
        public = key.public_key().public_bytes_raw()
        claims = {"aud": asking, "nonce": challenge.nonce, "exp": challenge.ts // 1000 + _LIFETIME}
        headers = {"jwk": jwk_of(public), "kid": thumbprint(public)}
        return jwt.encode(claims, key, algorithm="EdDSA", headers=headers)

    def approved(self) -> None:
        """Pin the gateway that was signed for: it has let this device in."""
        try:
            if self._seen and self._vault.get(self._place) != self._seen:
                self._vault.set(self._place, self._seen)
        except VaultError as error:
            log.warning("Which gateway is at %s can't be remembered: %s", self._url, error)
        self._named = self._seen  # for as long as this process lives, whatever the vault does

    @property
    def _place(self) -> str:
        return f"gateway:{self._url}"

    def _pinned(self) -> str:
        if not self._is_kept:
            return ""  # nobody knows this key yet, so there is nothing to protect
        try:
            return self._vault.get(self._place) or ""
        except VaultError as error:
            raise Lost(f"which gateway is at {self._url} can't be looked up: {error}") from None

    def _private_key(self) -> Ed25519PrivateKey:
        if self._key is None:
            try:
                self._key = self._kept()
            except VaultError as error:  # costs a new approval, not the device
                log.warning(
                    "Node '%s' can't keep its key; the one it joins with needs a new approval at each start: %s",
                    self._name,
                    error,
                )
                self._key, self._is_kept = _read(_new_key()), False
        return self._key

    def _kept(self) -> Ed25519PrivateKey:
        place = f"key:{self._url}:{self._name}"
        text = self._vault.setdefault(place, _new_key)
        try:
            return _read(text)
        except ValueError:
            log.warning("The key of '%s' is damaged; a new one takes its place, and needs a new approval.", self._name)
            text = _new_key()
            self._vault.set(place, text)
            return _read(text)


def _new_key() -> str:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return base64.urlsafe_b64encode(Ed25519PrivateKey.generate().private_bytes_raw()).decode()


def _read(text: str) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    try:
        return Ed25519PrivateKey.from_private_bytes(base64.b64decode(text, b"-_", validate=True))
    except (binascii.Error, ValueError):
        raise ValueError("no Ed25519 key") from None


def _shown(identity: Any) -> str:
    text = clean_text(identity, _IDENTITY_CHARS)
    return f"{text[:_SHOWN]}…" if len(text) > _SHOWN else text or "one without a name"
