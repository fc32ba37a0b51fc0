"""Is this JWT a proof that a device holds the key in its header? One code for each way in which it is none.

RFC 7519 (JWT) over RFC 8037 (Ed25519). What the header says is used only to check the signature, and what the claims
say only after that. Claims about who the device is (``sub``, ``org``, ``account``) count for nothing, and no clock but
the gateway's is asked: ``iat`` and ``nbf`` are the device's.
"""

from __future__ import annotations

import asyncio
import hmac
import math
import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

from ...protocol.errors import SuzentError
from ...protocol.keys import public_bytes, thumbprint
from ...protocol.limits import Limits
from .challenge import Challenge

ALGORITHM = "EdDSA"
_NEEDED = ("cryptography.hazmat.primitives.asymmetric.ed25519", "jwt")
_FAR = 1e15  # seconds since 1970: no time that comes
_NO_EXTENSIONS = "The JWT's header must not have `crit`: no extensions are taken."
#: Header members that would have keys, or rules, come from elsewhere.
_REFUSED = ("jku", "x5u", "x5c", "x5t", "x5t#S256", "b64", "zip", "enc")
_UNCHECKED = ("exp", "nbf", "iat", "aud", "iss", "sub", "jti")  # checked here, or of no importance


class Proof(NamedTuple):
    """The key that was proven: its 32 bytes, and its RFC 7638 thumbprint."""

    public: bytes
    thumbprint: str


async def load() -> None:
    """Load what :func:`verify` needs, off the event loop."""
    for name in _NEEDED:
        if name not in sys.modules:
            await asyncio.to_thread(import_module, name)


def verify(text: object, challenge: Challenge | None, audience: str, limits: Limits) -> Proof:
    """Check a JWT; call :func:`load` first.

    Parameters
    ----------
    text : object
        What stands in the frame as ``jwt``.
    challenge : Challenge, optional
        What this socket was given and has not used.
    audience : str
        The gateway's identity.
    limits : Limits
        ``jwt_bytes``, ``nonce_ttl`` and ``jwt_lifetime``.

    Raises
    ------
    SuzentError
        ``too_large``, ``jwt_malformed``, ``jwt_algorithm``, ``jwt_key``, ``jwt_signature``, ``jwt_audience``,
        ``jwt_nonce`` or ``jwt_expired``.
    """
    if not isinstance(text, str):
        raise SuzentError("jwt_malformed", "`jwt` is no text.")
    if len(text) > limits.jwt_bytes:
        raise SuzentError("too_large", f"The JWT takes {len(text):,} bytes; {limits.jwt_bytes:,} is the most.")
    proof = _key(_header(text))
    claims = _claims(text, proof.public)
    # From here on the key's holder speaks; what it says may still be meant for somebody else, or be old.
    if claims.get("aud") != audience:
        raise SuzentError("jwt_audience", "The JWT was signed for another gateway.")
    nonce = claims.get("nonce")
    if (
        challenge is None
        or not isinstance(nonce, str)
        or not hmac.compare_digest(nonce.encode("utf-8", "replace"), challenge.nonce.encode())
    ):
        raise SuzentError("jwt_nonce", "The JWT does not hold this socket's nonce, or that was used already.")
    if challenge.age > limits.nonce_ttl:
        raise SuzentError("jwt_expired", f"The challenge is older than {limits.nonce_ttl:g} s.")
    _check_expiry(claims.get("exp"), challenge, limits)
    return proof


def _header(text: str) -> Mapping[str, Any]:
    import jwt

    try:
        header = jwt.get_unverified_header(text)
    except (jwt.InvalidTokenError, ValueError, RecursionError) as error:
        # The library refuses extensions itself, from some version on.
        why = _NO_EXTENSIONS if "crit" in str(error) else "That is no JWT."
        raise SuzentError("jwt_malformed", why) from None
    if "crit" in header:
        raise SuzentError("jwt_malformed", _NO_EXTENSIONS)
    if header.get("alg") != ALGORITHM:
        raise SuzentError("jwt_algorithm", f"The JWT's `alg` is not {ALGORITHM}.")
    foreign = [name for name in _REFUSED if name in header]
    if foreign:
        raise SuzentError("jwt_key", f"The JWT's header must not have `{foreign[0]}`: its key stands in `jwk`.")
    return header


def _key(header: Mapping[str, Any]) -> Proof:
    try:
        public = public_bytes(header.get("jwk"))
    except ValueError as error:
        raise SuzentError("jwt_key", str(error)) from None
    proof = Proof(public, thumbprint(public))
    if header.get("kid") != proof.thumbprint:
        raise SuzentError("jwt_key", "The JWT's `kid` is not the thumbprint of its key.")
    return proof


def _claims(text: str, public: bytes) -> Mapping[str, Any]:
    import jwt
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    options: Any = {"verify_signature": True, "require": [], **{f"verify_{name}": False for name in _UNCHECKED}}
    try:
        key = Ed25519PublicKey.from_public_bytes(public)
        claims: dict[str, Any] = jwt.decode(text, key, algorithms=[ALGORITHM], options=options)
    except jwt.InvalidSignatureError:
        raise SuzentError("jwt_signature", "The JWT's signature is not of the key in its header.") from None
    except (jwt.InvalidTokenError, ValueError, RecursionError):
        raise SuzentError("jwt_malformed", "The JWT can't be read.") from None
    return claims


def _check_expiry(exp: object, challenge: Challenge, limits: Limits) -> None:
    if isinstance(exp, bool) or not isinstance(exp, int | float) or not -math.inf < exp < math.inf:
        raise SuzentError("jwt_malformed", "The JWT's `exp` is no number of seconds.")
    # A whole number may be one that no float can hold.
    ends_in = min(max(exp, -1), _FAR) - challenge.ts / 1000
    if ends_in > limits.jwt_lifetime:
        raise SuzentError(
            "jwt_expired", f"The JWT's `exp` is more than {limits.jwt_lifetime:g} s after the challenge's `ts`."
        )
    if ends_in <= challenge.age:
        raise SuzentError("jwt_expired", "The JWT has expired by the gateway's clock.")
