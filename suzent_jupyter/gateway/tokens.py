"""Tokens: made here, shown once, kept only as a hash."""

from __future__ import annotations

import hashlib
import secrets

TOKEN_PREFIX = "szt_"  # noqa: S105


def mint_token() -> str:
    """Return a new token: ``szt_`` and 32 random bytes, urlsafe."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def token_digest(token: str) -> bytes:
    """Return the SHA-256 under which a token is kept. Tokens are random, so no salt or stretching is needed."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def key_digest(public: bytes) -> bytes:
    """Return the digest under which a device's public key is kept.

    No token has it: a token is UTF-8, in which the first byte here never stands.
    """
    return hashlib.sha256(b"\xffed25519:" + public).digest()


def token_hint(token: str) -> str:
    """Return what may be shown of a token: its first 10 and last 4 characters."""
    return f"{token[:10]}…{token[-4:]}"
