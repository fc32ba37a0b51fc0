"""``certfile`` and ``keyfile``: the operator's own certificate, read again when it was renewed on disk."""

from __future__ import annotations

import hashlib
import logging
from datetime import UTC, datetime
from pathlib import Path

from ...protocol.pin import pin_of
from .certificate import CertificateError

log = logging.getLogger("suzent_jupyter")


class OperatorCertificate:
    """A certificate chain and its key in PEM files that somebody else looks after. Its methods block.

    Parameters
    ----------
    certfile, keyfile : str
        As configured; both may name one file that holds both.
    """

    def __init__(self, certfile: str, keyfile: str) -> None:
        self._given = bool(certfile and keyfile)
        self.file = Path(certfile).expanduser()
        self.key_file = Path(keyfile).expanduser()
        self._seen = b""
        self._pin = ""

    def pin(self) -> str:
        """Return the pin of a self-signed certificate; ``""`` where an authority vouches for it.

        What an authority signed may be renewed under another key at any time, so nobody should pin that.
        """
        return self._pin

    def ensure(self) -> bool:
        """Read the files; return whether they changed.

        Raises
        ------
        CertificateError
            When there is no certificate in them, or only one of them was given.
        """
        from cryptography import x509

        if not self._given:
            raise CertificateError("SuzentApp.certfile and SuzentApp.keyfile go together; only one is set.")
        try:
            data = self.file.read_bytes()
            seen = hashlib.sha256(data + b"\0" + self.key_file.read_bytes()).digest()
        except OSError as error:
            raise CertificateError(f"{error.filename} can't be read: {error.strerror or error}.") from None
        if seen == self._seen:
            return False
        try:
            leaf = x509.load_pem_x509_certificate(data)
        except ValueError:
            raise CertificateError(f"{self.file} holds no certificate in PEM.") from None
        if leaf.not_valid_after_utc < datetime.now(UTC):
            log.warning("The certificate %s has expired; clients will refuse it.", self.file)
        from cryptography.hazmat.primitives.serialization import Encoding

        self._pin = pin_of(leaf.public_bytes(Encoding.DER)) if leaf.issuer == leaf.subject else ""
        self._seen = seen
        return True
