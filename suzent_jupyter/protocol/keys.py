"""Public keys of nodes as JSON Web Keys: Ed25519 alone (RFC 8037), named by their thumbprint (RFC 7638)."""

from __future__ import annotations

import base64
import binascii
import hashlib
from typing import Any

KEY_BYTES = 32


def public_bytes(jwk: Any) -> bytes:
    """Return the 32 bytes of a public key.

    Parameters
    ----------
    jwk : dict
        ``{"kty": "OKP", "crv": "Ed25519", "x": …}``; further members but ``kid``, ``use``, ``alg`` and ``key_ops``
        make it no public key of ours.

    Raises
    ------
    ValueError
        For anything else, a private part (``d``) above all.
    """
    if not isinstance(jwk, dict) or jwk.get("kty") != "OKP" or jwk.get("crv") != "Ed25519":
        raise ValueError("The key must be an Ed25519 public key as a JWK (kty OKP, crv Ed25519).")
    if "d" in jwk:
        raise ValueError("The key has its private part in it.")
    if set(jwk) - {"kty", "crv", "x", "kid", "use", "alg", "key_ops"}:
        raise ValueError("The key has members that an Ed25519 public key has not.")
    text = jwk.get("x")
    try:
        data = base64.urlsafe_b64decode(f"{text}=") if isinstance(text, str) and len(text) == 43 else b""
    except (binascii.Error, ValueError):
        data = b""
    if len(data) != KEY_BYTES or base64.urlsafe_b64encode(data).rstrip(b"=").decode() != text:
        raise ValueError("The key's `x` is not 32 bytes in base64url.")
    return data


def jwk_of(public: bytes) -> dict[str, str]:
    """Return the JWK of a public key's 32 bytes."""
    return {"kty": "OKP", "crv": "Ed25519", "x": _base64url(public)}


def thumbprint(public: bytes) -> str:
    """Return the key's thumbprint (RFC 7638 section 3, members as RFC 8037 section 2 orders them), base64url."""
    canonical = f'{{"crv":"Ed25519","kty":"OKP","x":"{_base64url(public)}"}}'
    return _base64url(hashlib.sha256(canonical.encode()).digest())


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
