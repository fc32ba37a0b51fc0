"""The listener's TLS port: the same routes as the plain one, under a certificate that is kept up to date."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Protocol

from ..listener.server import Listener
from .certificate import CertificateError, OwnCertificate
from .operator_certificate import OperatorCertificate

if TYPE_CHECKING:
    from ..service import GatewayService, ServiceConfig

log = logging.getLogger("suzent_jupyter")


class Certificate(Protocol):
    """Where certificate and key come from."""

    file: Path
    key_file: Path

    def ensure(self) -> bool:
        """Bring the files up to date; return whether they changed."""

    def pin(self) -> str:
        """Return the pin clients may rely on, or ``""``."""


def wants_tls(config: ServiceConfig) -> bool:
    """Tell whether there is to be a TLS port."""
    return config.listener_enabled and bool(config.tls == "auto" or config.certfile or config.keyfile)


def exposure(plain_port: int | None, tls_port: int | None) -> str | None:
    """Return what the operator of a gateway bound for other devices should know about its ports, if anything."""
    if plain_port is not None:
        return (
            f"Port {plain_port} is open to other machines over plain ws://, without encryption: whoever shares the "
            "network can read along and take tokens. "
            + ("" if tls_port is not None else "SuzentApp.tls = 'auto' adds TLS; ")
            + "SuzentApp.listener_plaintext = False closes this port to them."
        )
    if tls_port is None:
        return "No other device can join: listener_plaintext is off, and there is no TLS port."
    return None


class TlsPort:
    """Binds, serves, renews and stops.

    Parameters
    ----------
    service : GatewayService
        What it serves.
    config : ServiceConfig
        Port, certificate, directory.
    host : str
        What to bind, as of the listener.
    """

    def __init__(self, service: GatewayService, config: ServiceConfig, host: str) -> None:
        self._listener = Listener(service, host, config.tls_port)
        self._wanted = config.tls_port
        self._loaded = False
        self._certificate: Certificate = (
            OperatorCertificate(config.certfile, config.keyfile)
            if config.certfile or config.keyfile
            else OwnCertificate(config.data_dir)
        )
        self._renewal: asyncio.Task[None] | None = None
        self._open = False
        self._check_seconds = config.limits.certificate_check
        #: Why there is no TLS, ``""`` while there is.
        self.problem = ""

    @property
    def port(self) -> int | None:
        """The port, None while it is not served."""
        return self._listener.port if self._open else None

    @property
    def ipv6(self) -> bool:
        """Whether other machines reach it over IPv6 too."""
        return self._open and self._listener.ipv6

    @property
    def pin(self) -> str:
        """The pin for pairing links; ``""`` where an authority vouches for the certificate."""
        return self._certificate.pin() if self._open else ""

    async def start(self, plain: Listener | None) -> None:
        """Serve. What goes wrong is one line in the log, and everything else works without TLS.

        Parameters
        ----------
        plain : Listener, optional
            The one without TLS, which serves already.
        """
        try:
            await self._refresh()
        except CertificateError as error:
            self._give_up(f"TLS is off: {error} Everything else works.")
            return
        except Exception:
            self.problem = "TLS is off, by a bug; the server log has the traceback. Everything else works."
            log.exception(self.problem)
            return
        try:
            self._listener.bind()
        except OSError as error:
            self._give_up(
                f"TLS is off: the gateway can't listen on port {self._wanted}: {error.strerror or error}. Stop the "
                "other program or set SuzentApp.tls_port. Everything else works."
            )
            return
        self._listener.serve(plain)
        self._open = True
        self._renewal = asyncio.create_task(self._stay_fresh())
        log.info("Devices join over TLS at wss://127.0.0.1:%d/ws/node", self._listener.port)

    def _give_up(self, problem: str) -> None:
        self.problem = problem
        log.error("%s", problem)

    async def add_names(self, *names: str) -> None:
        """Have these names in the certificate too, such as the MagicDNS name; not in one the operator looks after.

        Raises
        ------
        CertificateError
            When no certificate can be made; the one in use stays.
        """
        if isinstance(self._certificate, OwnCertificate):
            self._certificate.names = (*self._certificate.names, *names)
            if self._open:
                await self._refresh()

    async def _refresh(self) -> None:
        """Bring the certificate up to date, off the event loop; new handshakes get it."""
        context = await asyncio.to_thread(self._context)
        if context is not None:
            self._listener.use_tls(context)
            self._loaded = True

    def _context(self) -> ssl.SSLContext | None:
        """Return a new context if the certificate changed or there is none yet.

        A context in use is never changed: handshakes on the event loop may be reading it.
        """
        if not self._certificate.ensure() and self._loaded:
            return None
        return server_context(self._certificate)

    async def _stay_fresh(self) -> None:
        told = ""
        while True:
            await asyncio.sleep(self._check_seconds)
            try:
                await self._refresh()
                told = ""
            except CertificateError as error:
                if told != str(error):
                    log.warning("The TLS certificate could not be renewed, the one in use stays: %s", error)
                told = str(error)
            except Exception:
                log.exception("The TLS certificate could not be renewed, the one in use stays")

    def stop_listening(self) -> None:
        """Take no new connections."""
        if self._renewal is not None:
            self._renewal.cancel()
        if self._open:
            self._listener.stop_listening()

    async def close(self) -> None:
        """Close the connections that are left."""
        await self._listener.close()
        self._open = False


def server_context(certificate: Certificate) -> ssl.SSLContext:
    """Return TLS 1.2 and newer under a certificate.

    Raises
    ------
    CertificateError
        When certificate and key can't be used together.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])

    def no_password() -> NoReturn:
        # OpenSSL would ask on the terminal and wait.
        raise CertificateError(f"{certificate.key_file} is encrypted; give a key without a passphrase.")

    try:
        context.load_cert_chain(certificate.file, certificate.key_file, no_password)
    except OSError as error:  # ssl.SSLError is one
        if not isinstance(error, ssl.SSLError):
            raise CertificateError(f"{certificate.file} can't be used: {error.strerror or error}.") from None
        if error.reason == "KEY_VALUES_MISMATCH":
            raise CertificateError(f"{certificate.key_file} is not the key of {certificate.file}.") from None
        why = (error.reason or "no PEM inside").replace("_", " ").lower()
        raise CertificateError(f"{certificate.file} with {certificate.key_file} can't be used: {why}.") from None
    return context
