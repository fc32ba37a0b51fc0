"""Two hosts on one cable: network namespaces ``a`` and ``b``, joined by a veth pair.

    with two_hosts() as hosts:
        server = hosts.run("a", ["python", "-m", "http.server"])

Needs root and ``ip``; :func:`unavailable` says why where they can't be made.
"""

from __future__ import annotations

import functools
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

PREFIX = "szt"


@dataclass(frozen=True)
class Host:
    """One of the two.

    Attributes
    ----------
    namespace : str
        Its name for ``ip netns exec``.
    interface : str
        Its end of the cable.
    ipv4, ipv6 : str
        Its addresses there; besides them it has loopback only, and no default route.
    """

    namespace: str
    interface: str
    ipv4: str
    ipv6: str


@dataclass
class TwoHosts:
    """The two hosts, and the processes that were started in them."""

    a: Host
    b: Host
    processes: list[subprocess.Popen[Any]] = field(default_factory=list)

    def run(self, host: str, command: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
        """Start a command in host ``a`` or ``b``; options as of Popen. It is killed at the end at the latest."""
        where: Host = getattr(self, host)
        process = subprocess.Popen(["ip", "netns", "exec", where.namespace, *command], **options)
        self.processes.append(process)
        return process

    def python(self, host: str, script: str, *arguments: str, seconds: float = 60, **options: Any) -> str:
        """Run a Python script in a host to its end and return what it printed; fail if it failed."""
        process = self.run(
            host, [sys.executable, "-c", script, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            **options,
        )  # fmt: skip
        try:
            output, errors = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            output, errors = process.communicate()
            raise AssertionError(f"not done after {seconds} s:\n{output}\n{errors}") from None
        assert process.returncode == 0, f"{output}\n{errors}"
        return str(output)

    def stop(self, process: subprocess.Popen[Any], seconds: float = 20) -> int:
        """End a process by SIGTERM and return its status."""
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        return process.wait(seconds)


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


@contextmanager
def two_hosts() -> Iterator[TwoHosts]:
    """Make the hosts, and take them away again with everything that runs in them."""
    tag = f"{os.getpid() % 10**6:x}{secrets.token_hex(2)}"
    a = Host(f"{PREFIX}{tag}a", f"{PREFIX}{tag}a", "192.168.77.1", "fd77::1")
    b = Host(f"{PREFIX}{tag}b", f"{PREFIX}{tag}b", "192.168.77.2", "fd77::2")
    hosts = TwoHosts(a, b)
    try:
        for host in (a, b):
            _ip("netns", "add", host.namespace)
        # Made inside the namespaces: the machine's own never sees them.
        _ip("-n", a.namespace, "link", "add", a.interface, "type", "veth",
            "peer", "name", b.interface, "netns", b.namespace)  # fmt: skip
        for host in (a, b):
            inside = ("-n", host.namespace)
            _ip(*inside, "link", "set", "lo", "up")
            _ip(*inside, "addr", "add", f"{host.ipv4}/24", "dev", host.interface)
            _ip(*inside, "addr", "add", f"{host.ipv6}/64", "dev", host.interface, "nodad")
            _ip(*inside, "link", "set", host.interface, "up")
            _ip(*inside, "route", "add", "224.0.0.0/4", "dev", host.interface)
        yield hosts
    finally:
        for process in hosts.processes:
            if process.poll() is None:
                process.kill()
            process.wait(10)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        for host in (a, b):
            subprocess.run(["ip", "netns", "del", host.namespace], capture_output=True)


@functools.cache
def unavailable() -> str:
    """Return why two hosts can't be made on this machine, or an empty string; for ``pytest.mark.skipif``."""
    if not sys.platform.startswith("linux"):
        return "network namespaces are a thing of Linux"
    if shutil.which("ip") is None:
        return "there is no `ip` command (iproute2)"
    try:
        with two_hosts() as hosts:
            hosts.python("a", "pass")
    except (OSError, AssertionError) as error:
        return f"network namespaces are not allowed here: {error}"
    return ""
