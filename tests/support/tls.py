"""Certificates as tests want them, and a TLS server that remembers every byte that was said to it."""

from __future__ import annotations

import asyncio
import ipaddress
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from suzent_jupyter.protocol.pin import pin_of

DAY = timedelta(days=1)


@dataclass
class Made:
    """A certificate, its key, and the files of both."""

    certificate: x509.Certificate
    key: Any
    file: Path
    key_file: Path

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.DER)

    @property
    def pin(self) -> str:
        return pin_of(self.der)

    def files(self) -> dict[str, str]:
        return {"certfile": str(self.file), "keyfile": str(self.key_file)}


def make_certificate(
    directory: Path,
    name: str = "gateway",
    *,
    sans: Sequence[str] = ("127.0.0.1",),
    signed_by: Made | None = None,
    authority: bool = False,
    days: tuple[int, int] = (-1, 30),
    key: Any = None,
    passphrase: bytes | None = None,
) -> Made:
    """Make a certificate, self-signed unless an authority signs it; ``days`` from now it begins and ends."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signer = signed_by.key if signed_by else key
    built = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signed_by.certificate.subject if signed_by else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + days[0] * DAY)
        .not_valid_after(now + days[1] * DAY)
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if authority:
        usage = dict.fromkeys(
            ["digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
             "encipher_only", "decipher_only"], False
        )  # fmt: skip
        built = built.add_extension(x509.KeyUsage(key_cert_sign=True, crl_sign=True, **usage), critical=True)
    else:
        built = built.add_extension(x509.SubjectAlternativeName([_general_name(san) for san in sans]), critical=False)
    algorithm = hashes.SHA256() if hasattr(signer, "curve") or hasattr(signer, "private_numbers") else None
    certificate = built.sign(signer, algorithm)
    made = Made(certificate, key, directory / f"{name}.pem", directory / f"{name}.key")
    made.file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secrecy = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    made.key_file.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, secrecy))
    return made


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def make_authority(directory: Path, name: str = "authority") -> Made:
    return make_certificate(directory, name, authority=True)


@dataclass
class Recorder:
    """A TLS server of somebody else: ``port``, how many connections it had, and what was said to it decrypted."""

    port: int
    connections: int = 0
    said: bytearray = field(default_factory=bytearray)


@asynccontextmanager
async def recorder(made: Made, port: int = 0) -> AsyncIterator[Recorder]:
    """Serve with a certificate, and only listen."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.file, made.key_file)
    heard = Recorder(0)

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.connections += 1
        try:
            while data := await reader.read(65536):
                heard.said += data
        except OSError:
            pass
        finally:
            writer.close()

    async with await asyncio.start_server(listen, "127.0.0.1", port, ssl=context) as server:
        heard.port = server.sockets[0].getsockname()[1]
        yield heard
