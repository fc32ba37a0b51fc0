"""The keys of gateways this machine was paired with: learned from a pairing link, checked ever after."""

from __future__ import annotations

import logging
import ssl
import sys
import threading
from urllib.parse import urlsplit

from ..protocol.address import SCHEME_PORTS, in_url
from ..protocol.pin import is_pin, pinned_context
from .vault import TokenVault, VaultError

log = logging.getLogger(__name__)


def is_secure(url: str) -> bool:
    """Tell whether a URL asks for TLS."""
    return urlsplit(url).scheme in ("wss", "https")


def origin(url: str) -> str:
    """Return ``https://host:port`` of a ``wss://`` or ``https://`` URL: one server has one key, whatever the path."""
    parts = urlsplit(url)
    host = (parts.hostname or "").casefold()
    return f"https://{in_url(host)}:{parts.port or SCHEME_PORTS.get(parts.scheme, 0)}"


class Trust:
    """What makes a client believe that it talks to the gateway at ``url``. Thread-safe; its methods block.

    A pin that was named is remembered in the vault, under ``pin:<origin>``, once the gateway has proved that it holds
    the key; where none is named, the remembered one is checked. What is neither pinned nor vouched for by an authority
    is refused, never tried without a check.

    Parameters
    ----------
    url : str
        ``ws://``, ``wss://``, ``http://`` or ``https://``.
    pin : str, optional
        The key to expect; ``""`` forgets a remembered one and asks authorities, None goes by what is remembered.
    vault : TokenVault, optional
        Where pins are kept; the usual one otherwise.

    Raises
    ------
    ValueError
        When ``pin`` is none, or ``url`` is without TLS, which it could not protect.
    """

    def __init__(self, url: str, pin: str | None = None, vault: TokenVault | None = None) -> None:
        if pin and not is_pin(pin):
            raise ValueError("A pin is 43 letters, digits, - and _; copy the whole pairing link.")
        if pin and not is_secure(url):
            raise ValueError("A pin goes with TLS: give a wss:// or https:// address.")
        self._url = url
        self._pin = pin
        self._vault = vault
        self._lock = threading.Lock()
        self._context: ssl.SSLContext | None = None
        #: Whether :meth:`proved` has something to remember.
        self.is_news = pin is not None and is_secure(url)

    def context(self) -> ssl.SSLContext | None:
        """Return TLS for connections there; None for an address without TLS."""
        if not is_secure(self._url):
            return None
        with self._lock:
            if self._context is None:
                self._context = tls_context(self.known() if self._pin is None else self._pin)
            return self._context

    def proved(self) -> None:
        """Remember what was named, now that a connection has shown it to be right."""
        with self._lock:
            news, self.is_news = self.is_news, False
        if not news:
            return
        vault, key = self._vault or TokenVault(), f"pin:{origin(self._url)}"
        try:
            if self._pin:
                vault.set(key, self._pin)
            elif vault.get(key) is not None:
                vault.delete(key)
        except VaultError as error:
            log.warning("The key of the gateway at %s can't be remembered: %s", origin(self._url), error)

    def known(self) -> str:
        """Return the key that is remembered for this address; ``""`` for none. Blocks."""
        try:
            found = (self._vault or TokenVault()).get(f"pin:{origin(self._url)}")
        except VaultError as error:
            log.warning("Whether the gateway at %s has a pinned key can't be told: %s", origin(self._url), error)
            return ""
        return found if found is not None and is_pin(found) else ""


def tls_context(pin: str = "") -> ssl.SSLContext:
    """Return TLS for a client: the pinned key or nothing; without a pin, what authorities vouch for.

    Blocks: it reads the authorities' certificates. ``SSL_CERT_FILE`` and ``SSL_CERT_DIR`` name others, as everywhere.

    Raises
    ------
    ValueError
        When ``pin`` is none.
    """
    if pin:
        return pinned_context(pin)
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    paths = ssl.get_default_verify_paths()
    if paths.cafile is None and paths.capath is None and sys.platform != "win32":
        import certifi  # a Python without authorities of its own, as on macOS

        context.load_verify_locations(certifi.where())
    return context
