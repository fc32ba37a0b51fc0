"""``tls="auto"``: a self-signed certificate of one's own, renewed in time and always under the same key.

Clients pin the key, so it is what must last: it is made once, never replaced while it can be read, and never
overwritten. Everything here blocks.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import os
import socket
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ..._files import create_file, replace_file
from ...discovery.addresses import interface_addresses
from ...protocol.pin import pin_of_key

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes

log = logging.getLogger("suzent_jupyter")

#: Clients refuse server certificates that are valid for longer than 398 days (CA/Browser Forum BR 6.3.2).
VALID_DAYS = 397
RENEW_DAYS = 30  # before the end
_SKEW = timedelta(days=1)  # how far the clock of a device may be behind
_NAMES = 100  # in one certificate
_NEW_PIN = (
    "Devices that joined over TLS refuse the new key until each opens a new pairing link; to keep the old one, stop "
    "the gateway and put a copy of it back."
)


class CertificateError(Exception):
    """There is no certificate to serve with; the message is one line for people."""


class OwnCertificate:
    """The key and certificate in a directory: ``tls.key`` and ``tls.crt``, both readable by their owner alone.

    Parameters
    ----------
    directory : Path
        Where they stand; the gateway's ``data_dir``.
    names : iterable of str
        More host names for the certificate, such as the MagicDNS name; may be replaced, for the next :meth:`ensure`.
    """

    def __init__(self, directory: Path, names: Iterable[str] = ()) -> None:
        self.key_file = directory / "tls.key"
        self.file = directory / "tls.crt"
        self.names = tuple(names)
        self._key: EllipticCurvePrivateKey | None = None
        self._pin = ""

    def pin(self) -> str:
        """Return the pin of the key, as a pairing link carries it; :meth:`ensure` comes first."""
        return self._pin

    def ensure(self) -> bool:
        """Make what is missing, renew what is due; return whether the certificate is a new one.

        It is due 30 days before its end, and when this machine has a name or address that it does not hold.
        A damaged file is set aside under another name, with a warning. One that can't be read is left alone: its key
        may be the one that devices know.

        Raises
        ------
        CertificateError
            When a file can't be read or written.
        """
        try:
            self.key_file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Once loaded it stays the key of this run, whatever happens to its file.
            key = self._key = self._key or self._load_key() or self._make_key()
            if not self.key_file.exists():
                create_file(self.key_file, _pem(key))
            self._pin = pin_of_key(_spki(key.public_key()))
            names, now = machine_names(self.names), datetime.now(UTC)
            if not self._is_due(key, names, now):
                return False
            replace_file(self.file, _issue(key, names, now))
        except OSError as error:
            where = error.filename or self.key_file.parent
            raise CertificateError(f"{where} can't be used: {error.strerror or error}.") from None
        return True

    def _load_key(self) -> EllipticCurvePrivateKey | None:
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            data = self.key_file.read_bytes()
        except FileNotFoundError:
            if self.file.exists():
                log.warning("The TLS key %s is gone. %s", self.key_file, _NEW_PIN)
            return None
        if os.name == "posix" and self.key_file.stat().st_mode & 0o077:
            self.key_file.chmod(0o600)
            log.warning("%s could be read by other users; it can't be any more.", self.key_file)
        with contextlib.suppress(ValueError, TypeError, ArithmeticError):
            key = load_pem_private_key(data, None)
            if isinstance(key, EllipticCurvePrivateKey):
                return key
        aside = _set_aside(self.key_file)
        log.warning(
            "The TLS key %s was damaged; it now is %s, and a new key takes its place. %s",
            self.key_file,
            aside.name,
            _NEW_PIN,
        )
        return None

    def _make_key(self) -> EllipticCurvePrivateKey:
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        create_file(self.key_file, _pem(key))
        return self._load_key() or key  # another process may have been first

    def _is_due(self, key: EllipticCurvePrivateKey, names: list[str], now: datetime) -> bool:
        from cryptography import x509

        try:
            data = self.file.read_bytes()
        except FileNotFoundError:
            return True
        try:
            held = x509.load_pem_x509_certificate(data)
            own = _spki(held.public_key()) == _spki(key.public_key())
            covered = _names_in(held)
        except (ValueError, TypeError, x509.ExtensionNotFound):
            own = False
        if not own:
            aside = _set_aside(self.file)
            log.warning(
                "The certificate %s was damaged or of another key; it now is %s. The new one has the key that devices "
                "know.",
                self.file,
                aside.name,
            )
            return True
        soon = held.not_valid_after_utc - timedelta(days=RENEW_DAYS)
        return not (held.not_valid_before_utc <= now < soon and covered >= set(names))


def machine_names(more: Iterable[str] = ()) -> list[str]:
    """Return the names and addresses this machine may be reached by, 100 at the most."""
    host = socket.gethostname()
    found = ["localhost", "127.0.0.1", "::1", host, *([] if "." in host else [f"{host}.local"]), *more]
    try:
        found += interface_addresses()
    except OSError as error:
        log.warning("The addresses of this machine can't be listed for the certificate: %s", error)
    names = (_canonical(name) for name in found)
    return list(dict.fromkeys(name for name in names if name))[:_NAMES]


def _canonical(name: str) -> str:
    """Return a name as certificates hold it; ``""`` for one they can't."""
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        ascii_name = name.strip().rstrip(".").casefold().encode("idna").decode()
    except UnicodeError:
        return ""
    fits = 0 < len(ascii_name) <= 253 and all(char.isalnum() or char in "-._" for char in ascii_name)
    return ascii_name if fits else ""


def _issue(key: EllipticCurvePrivateKey, names: list[str], now: datetime) -> bytes:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Suzent gateway")])
    public = key.public_key()
    start = now.replace(microsecond=0) - _SKEW
    usage = dict.fromkeys(
        ["content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "key_cert_sign", "crl_sign",
         "encipher_only", "decipher_only"], False
    )  # fmt: skip
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(digital_signature=True, **usage), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(public), critical=False)
        .sign(key, hashes.SHA256())
    )
    return built.public_bytes(serialization.Encoding.PEM)


def _general_name(name: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _names_in(certificate: x509.Certificate) -> set[str]:
    from cryptography import x509

    held = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {str(address) for address in held.get_values_for_type(x509.IPAddress)} | set(
        held.get_values_for_type(x509.DNSName)
    )


def _spki(public: CertificatePublicKeyTypes) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _set_aside(path: Path) -> Path:
    aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
    path.rename(aside)
    return aside
