"""Where is the gateway? An argument, the environment, a running server's file, or the Hub says."""

from __future__ import annotations

import json
import os
import threading
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from .._files import read_private
from ..protocol.address import is_loopback_host
from ..protocol.pairing_link import PairingLink
from ..protocol.tls_trouble import tls_trouble
from .errors import NoGateway, Unauthorized, Unreachable, Untrusted

if TYPE_CHECKING:
    from ..node.pin import Trust

OPEN_TIMEOUT = 5.0  # s, for TCP, TLS, upgrade and hello together
START_ONE = "Start one with `jupyter suzent gateway`, or name one: `%suzent use URL --token T`."
_ENVIRONMENT = "SUZENT_BASE_URL"
_FORGET = (
    "Start it, or name another: `%suzent use URL --token T`. To use the running one, forget this address: "
    f"`unset {_ENVIRONMENT}` in a terminal, `del os.environ['{_ENVIRONMENT}']` in Python."
)


class Secret:
    """A token that no repr, log or traceback shows."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def reveal(self) -> str:
        """Return the token itself."""
        return self._value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return "<token>"

    def __reduce__(self) -> Any:
        raise TypeError("a token is not pickled")


@dataclass(frozen=True, slots=True)
class Target:
    """A gateway's address.

    Attributes
    ----------
    url : str
        Without userinfo and trailing slash, such as ``http://127.0.0.1:25314``.
    token : Secret, optional
        What authorises there.
    source : str
        Where it was found, for people.
    pin : str, optional
        The key to expect there, where a pairing link or the caller named one; ``""`` asks authorities, None goes by
        what is remembered.
    """

    url: str
    token: Secret | None = field(default=None, repr=False)
    source: str = ""
    pin: str | None = None

    @property
    def socket_url(self) -> str:
        """The URL of ``/ws/client``."""
        return "ws" + self.url.removeprefix("http") + "/ws/client"

    @property
    def headers(self) -> dict[str, str]:
        """What authorises a request. Built anew each time, so that no long-lived object shows the token."""
        return {"Authorization": f"Bearer {self.token.reveal()}"} if self.token else {}

    @property
    def is_secure(self) -> bool:
        """Whether TLS is spoken there."""
        return self.url.startswith("https:")

    @property
    def is_loopback(self) -> bool:
        """Whether the gateway runs on this machine, where no proxy may come between."""
        return is_loopback_host(urlsplit(self.url).hostname or "")


def parse_url(url: str, token: Secret | None, source: str) -> Target:
    """Read a gateway URL or pairing link; its userinfo's password is the token unless one is given."""
    pin = None
    if PairingLink.is_link(url):
        try:
            link = PairingLink.parse(url)
        except ValueError as error:
            raise NoGateway(str(error), hint="") from None
        url, pin = link.base_url, link.pin
    parts = urlsplit(url.strip())
    try:
        host, _ = parts.hostname, parts.port  # the port is checked on access
    except ValueError:
        host = None
    if parts.scheme not in ("http", "https") or not host:
        raise NoGateway(
            f"{_shown(url)} is not the URL of a gateway.",
            hint="It looks like http://127.0.0.1:25314 or https://host/user/ada/suzent.",
        )
    if token is None and (parts.password or parts.username):
        token = Secret(unquote(parts.password or parts.username or ""))
    place = parts.netloc.rpartition("@")[2]
    return Target(urlunsplit((parts.scheme, place, parts.path.rstrip("/"), "", "")), token, source, pin)


def _shown(url: str) -> str:
    """Return a malformed URL without what could be a token."""
    head, at, tail = url.partition("@")
    if at:
        scheme = head.partition("://")[0] if "://" in head else ""
        url = f"{scheme}://{tail}" if scheme else tail
    return repr(url.partition("?")[0][:100])


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway that wrote a runtime file."""

    pid: int
    target: Target
    mount: str


def running() -> list[Running]:
    """Return the live gateways of this operating-system user, from their runtime files."""
    from jupyter_core.paths import jupyter_runtime_dir

    found = []
    for path in sorted(Path(jupyter_runtime_dir()).glob("suzent-*.json")):
        entry = _read_runtime_file(path)
        if entry is not None:
            found.append(entry)
    return found


def _distinct(gateways: list[Running]) -> list[Running]:
    """Return one server of each gateway: those of one user share a gateway, and so its kernels' token."""
    seen: dict[str, Running] = {}
    for gateway in gateways:
        token = gateway.target.token
        seen.setdefault(token.reveal() if token else f"process {gateway.pid}", gateway)
    return list(seen.values())


def _read_runtime_file(path: Path) -> Running | None:
    try:
        body = json.loads(read_private(path))
        pid, token = int(body["pid"]), body.get("token")
        mount = body.get("mount_url") or ""
        url = body.get("url") or mount
        if not _alive(pid, body.get("started_at")):
            return None
        secret = Secret(token) if token else None
        return Running(pid, parse_url(url, secret, f"{path.name}"), mount.rstrip("/"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, NoGateway):
        return None


def _alive(pid: int, started_at: Any) -> bool:
    import psutil

    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        created = process.create_time()
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return False  # ours would be accessible
    try:
        written = datetime.fromisoformat(str(started_at)).timestamp()
    except ValueError:
        return True
    return created <= written + 60  # a younger process has inherited the number


def locate(url: str | None = None, token: str | None = None, pin: str | None = None) -> Target:
    """Find the gateway; ``pin`` is the key to expect of it.

    In this order: ``url``; ``SUZENT_BASE_URL``; the runtime file of the server that started this kernel
    (``JPY_PARENT_PID``); the only live runtime file; the Hub's service prefix.

    Raises
    ------
    NoGateway
        None was found, or several.
    """
    found = _find(url, token)
    if pin is None:
        return found
    if found.pin and found.pin != pin:
        raise NoGateway("The pairing link and the pin name different keys.", hint="Leave one of them out.")
    return replace(found, pin=pin)


def _find(url: str | None, token: str | None) -> Target:
    given = Secret(token) if token else None
    if url:
        target = parse_url(url, given, "argument")
        return target if target.token else replace(target, token=_known_token(target.url))
    base = _preset()
    found = _from_environment(base) if base else _from_running() or _from_hub()
    if found is None:
        raise NoGateway("No gateway is running.", hint=START_ONE)
    return replace(found, token=given) if given else found


def _preset() -> str:
    return os.environ.get(_ENVIRONMENT, "").strip()


def _from_environment(base: str) -> Target:
    target = parse_url(base, None, _ENVIRONMENT)
    fallback = os.environ.get("SUZENT_TOKEN", "").strip()
    if target.token is None and fallback:
        return replace(target, token=Secret(fallback))
    return target


def _from_running() -> Target | None:
    gateways = running()
    parent = os.environ.get("JPY_PARENT_PID", "")
    for gateway in gateways:
        if str(gateway.pid) == parent:
            return gateway.target
    gateways = _distinct(gateways)
    if len(gateways) > 1:
        listed = ", ".join(f"{gateway.target.url} (process {gateway.pid})" for gateway in gateways)
        raise NoGateway(
            f"Several gateways are running: {listed}.",
            hint="Choose one: `%suzent use URL`, `connect(URL)`, or SUZENT_BASE_URL.",
            details={"urls": [gateway.target.url for gateway in gateways]},
        )
    return gateways[0].target if gateways else None


def _from_hub() -> Target | None:
    prefix = os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "")
    token = os.environ.get("JUPYTERHUB_API_TOKEN", "")
    service = urlsplit(os.environ.get("JUPYTERHUB_SERVICE_URL", ""))
    if not (prefix and token and service.scheme in ("http", "https") and service.hostname):
        return None
    host = (
        "127.0.0.1"
        if service.hostname in ("0.0.0.0", "::", "*")  # noqa: S104 - it listens there; we call
        else service.netloc.rpartition("@")[2].rpartition(":")[0]
    )
    place = f"{host}:{service.port}" if service.port else host
    url = urlunsplit((service.scheme, place, prefix.rstrip("/") + "/suzent", "", ""))
    return Target(url, Secret(token), "JUPYTERHUB_SERVICE_PREFIX")


def _known_token(url: str) -> Secret | None:
    """Return the token for ``url`` where this user has one at hand; it is never sent anywhere else."""
    base = _preset()
    if base:
        try:
            target = _from_environment(base)
        except NoGateway:
            target = None
        if target and target.url == url:
            return target.token
    return next((entry.target.token for entry in running() if url in (entry.target.url, entry.mount)), None)


class Locator:
    """The gateway in use, and the second look when it has moved or has a new token."""

    def __init__(self, url: str | None = None, token: str | None = None, pin: str | None = None) -> None:
        self._url = url
        self._pin = pin
        self._trust: tuple[Target, Trust | None] | None = None
        self._token = Secret(token) if token else None
        self._lock = threading.Lock()
        self._target: Target | None = None

    @property
    def target(self) -> Target:
        """Where the gateway is; looked for on first use."""
        with self._lock:
            if self._target is None:
                self._target = locate(self._url, self._token.reveal() if self._token else None, self._pin)
            return self._target

    def trust(self, target: Target) -> Trust | None:
        """Return what the gateway at ``target`` must prove; None where TLS is not spoken.

        Raises
        ------
        NoGateway
            A pin was named that is none, or that goes with no TLS.
        """
        if not target.is_secure and not target.pin:
            return None
        from ..node.pin import Trust

        with self._lock:
            if self._trust is None or self._trust[0] != target:
                try:
                    self._trust = target, Trust(target.url, target.pin)
                except ValueError as error:
                    raise NoGateway(str(error), hint="") from None
            return self._trust[1]

    def again(self, failed: Target) -> Target | None:
        """Look again after ``failed`` was dead or refused us; None if there is nothing else to try.

        Another gateway is never taken for the one that was named: only a new token for the same URL, or the server
        that started this kernel, if it is the one that the environment names.
        """
        with self._lock:
            if self._target is not None and self._target != failed:
                return self._target  # another thread has looked already
            found = self._look(failed)
            if found is None or found == failed:
                return None
            self._target = found
            return found

    def _look(self, failed: Target) -> Target | None:
        if self._token is not None:
            return None
        parent = os.environ.get("JPY_PARENT_PID", "")
        gateways = running()
        for gateway in gateways:
            if failed.url in (gateway.target.url, gateway.mount):
                return replace(failed, token=gateway.target.token)
        if self._url:
            return None
        named = failed.source == _ENVIRONMENT and bool(_preset())  # and not forgotten since
        for gateway in gateways:
            # Its own token in our environment: the address is that server's, which listens elsewhere by now.
            known = failed.token is not None and failed.token == gateway.target.token
            if str(gateway.pid) == parent and (known or not named):
                return gateway.target
        if named:
            return None
        gateways = _distinct(gateways)
        return gateways[0].target if len(gateways) == 1 else None


def refused(target: Target, status: int) -> Unauthorized:
    """Return the error for a gateway that does not accept our token; ``status`` is HTTP's or a close code."""
    found = f" (from {target.source})" if target.source else ""
    what = f"does not accept the token{found}" if target.token else "asks for a token, and none was found"
    return Unauthorized(
        f"The gateway at {target.url} {what}.",
        hint="Restart the kernel if its server was restarted, or give one: `%suzent use URL --token T`.",
        status=status if status < 1000 else 401,
    )


def unreachable(target: Target, error: BaseException) -> Unreachable:
    """Return the error for a gateway that does not answer; ``error`` only lends its kind, never its text."""
    if trouble := tls_trouble(error, target.url):
        kind = Untrusted if trouble.distrust else Unreachable
        return kind(trouble.message, hint=trouble.hint, retryable=not trouble.final)
    inner: BaseException | None = error
    while inner is not None and not isinstance(inner, OSError):
        inner = inner.__cause__ or inner.__context__  # clients wrap what the socket said, sometimes twice
    error = inner or error
    if isinstance(error, TimeoutError):
        why = f"did not answer within {OPEN_TIMEOUT:g} s"
    elif isinstance(error, ConnectionRefusedError):
        why = "is not running (connection refused)"
    else:
        why = f"does not answer ({type(error).__name__})"
    if target.source == _ENVIRONMENT:
        text = f"The gateway at {target.url}, named by {_ENVIRONMENT}, {why}."
        return Unreachable(text, hint=_FORGET, retryable=True)
    return Unreachable(f"The gateway at {target.url} {why}.", hint=START_ONE, retryable=True)
