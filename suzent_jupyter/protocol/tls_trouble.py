"""Why TLS with a gateway failed, in one line that says what to do."""

from __future__ import annotations

import ssl
from dataclasses import dataclass

from .pin import WrongKey

# X509_V_ERR_… of OpenSSL's x509_vfy.h.
_NOT_YET_VALID, _EXPIRED = 9, 10
_NOBODY_VOUCHES = frozenset([18, 19, 20, 21])
_OTHER_NAME = frozenset([62, 64])
# What OpenSSL says of an answer that is no TLS record.
_NO_TLS = frozenset(["WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNKNOWN_PROTOCOL"])
_DISTRUST = frozenset(["wrong_key", "unknown_authority", "expired", "not_yet_valid", "wrong_host", "unverified"])
# A fatal alert, as a TLS server answers plain HTTP: RFC 8446 sections 5.1 and 6.
_ALERTS = ("\x15\x03", "\\x15\\x03")


@dataclass(frozen=True, slots=True)
class TlsTrouble:
    """What is wrong.

    Attributes
    ----------
    problem : str
        ``wrong_key``, ``unknown_authority``, ``expired``, ``not_yet_valid``, ``wrong_host``, ``unverified``,
        ``no_tls``, ``speaks_tls``, ``hung_up``, ``silent`` or ``broken``.
    message, hint : str
        One sentence each: what it is, and what to do.
    final : bool
        Whether it stays so until somebody does something. A certificate's dates are not: a device's clock may still
        be wrong after it was switched on.
    """

    problem: str
    message: str
    hint: str
    final: bool

    @property
    def distrust(self) -> bool:
        """Whether it is the certificate or key that was refused, and not the connection."""
        return self.problem in _DISTRUST

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


def tls_trouble(error: BaseException, place: str) -> TlsTrouble | None:
    """Return what an exception of a connection attempt says about TLS; None if it says nothing.

    Parameters
    ----------
    error : exception
        As a client raised it; what it wraps is looked at too.
    place : str
        The gateway's URL, which people are shown.
    """
    seen: BaseException | None = error
    secure, hung_up = place.startswith(("wss:", "https:")), False
    while seen is not None:
        if isinstance(seen, ssl.SSLError):
            return _of_ssl(seen, place)
        if any(alert in str(seen) for alert in _ALERTS):
            return TlsTrouble(
                "speaks_tls",
                f"The gateway at {place} speaks TLS there.",
                "Use wss:// or https:// for that port.",
                False,
            )
        if secure and isinstance(seen, TimeoutError):
            # A server without TLS waits for the rest of what it takes for a request.
            return TlsTrouble(
                "silent", f"The gateway at {place} did not answer.", "It may be down, or not speak TLS there.", False
            )
        hung_up = hung_up or isinstance(seen, EOFError | ConnectionResetError)
        seen = seen.__cause__ or seen.__context__
    if hung_up and not secure:
        return TlsTrouble(
            "hung_up",
            f"The gateway at {place} hung up without an answer.",
            "If that is its TLS port, use wss:// or https://.",
            False,
        )
    return None


def _of_ssl(error: ssl.SSLError, place: str) -> TlsTrouble:
    if isinstance(error, WrongKey):
        return TlsTrouble(
            "wrong_key",
            f"The gateway at {place} shows another key than the one it was paired with; nothing was sent to it.",
            "If it was reinstalled on purpose, accept its new key by opening its new pairing link.",
            True,
        )
    if isinstance(error, ssl.SSLCertVerificationError):
        code = getattr(error, "verify_code", 0)
        if code in _NOBODY_VOUCHES:
            return TlsTrouble(
                "unknown_authority",
                f"The gateway at {place} shows a certificate that no authority known here vouches for.",
                "Use its pairing link, which carries the key to expect.",
                True,
            )
        if code == _EXPIRED:
            return TlsTrouble(
                "expired",
                f"The certificate of the gateway at {place} has expired.",
                "Renew it there, or set this machine's clock.",
                False,
            )
        if code == _NOT_YET_VALID:
            return TlsTrouble(
                "not_yet_valid",
                f"The certificate of the gateway at {place} is not valid yet.",
                "Set the clocks of both machines.",
                False,
            )
        if code in _OTHER_NAME:
            return TlsTrouble(
                "wrong_host",
                f"The certificate of the gateway at {place} is made out to another name.",
                "Use a name that stands in it, or the gateway's pairing link.",
                True,
            )
        return TlsTrouble(
            "unverified",
            f"The certificate of the gateway at {place} can't be verified ({getattr(error, 'verify_message', '')}).",
            "Use its pairing link, or mend the certificate.",
            True,
        )
    if error.reason in _NO_TLS:
        return TlsTrouble(
            "no_tls",
            f"The server at {place} does not speak TLS there.",
            "Give the gateway's TLS port, 25315 unless it was changed, or ws:// or http:// for this one.",
            False,
        )
    why = (error.reason or type(error).__name__).replace("_", " ").lower()
    return TlsTrouble("broken", f"TLS with the gateway at {place} failed ({why}).", "Try again.", False)
