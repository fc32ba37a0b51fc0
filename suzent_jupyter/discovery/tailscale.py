"""Machines of the tailnet, and this one's own names there, from ``tailscale status --json``.

The shape is that of Tailscale's ``ipnstate.Status``. What it says of other machines is written by them, so it is
checked like everything from the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..protocol.text import clean_text
from .addresses import is_tailscale, parse_ip

SECONDS = 3.0
PEERS = 256
_BYTES = 8 * 1024 * 1024
_MAC = Path("/Applications/Tailscale.app/Contents/MacOS/Tailscale")
_DNS_NAME = re.compile(r"[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9])?){0,10}")

_STATES = {
    "NeedsLogin": "Tailscale is logged out; `tailscale up` logs in.",
    "NeedsMachineAuth": "Tailscale waits until an admin of the tailnet approves this machine.",
    "Stopped": "Tailscale is switched off; `tailscale up` switches it on.",
    "Starting": "Tailscale is starting; try again in a moment.",
    "NoState": "Tailscale is starting; try again in a moment.",
}


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of the tailnet.

    Attributes
    ----------
    name : str
        As its owner calls it.
    ips : tuple of str
        Its tailnet addresses, IPv4 first.
    dns_name : str
        MagicDNS name without the final dot, or empty.
    seen_at : frozenset of str
        Addresses outside the tailnet at which it is reached directly now.
    """

    name: str
    ips: tuple[str, ...] = ()
    dns_name: str = ""
    seen_at: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TailscaleStatus:
    """What Tailscale says.

    Attributes
    ----------
    own : Machine
        This machine; without addresses unless Tailscale runs.
    peers : list of Machine
        The others that are online.
    magic_dns : bool
        Whether names of the tailnet resolve.
    problem : str
        One line that says why there is nothing; empty if all is well.
    """

    own: Machine = field(default_factory=lambda: Machine(""))
    peers: list[Machine] = field(default_factory=list)
    magic_dns: bool = False
    problem: str = ""


async def tailscale_status(seconds: float = SECONDS) -> TailscaleStatus:
    """Ask the ``tailscale`` command. Never raises; ``problem`` says what is wrong.

    Parameters
    ----------
    seconds : float
        After which the command is killed.
    """
    command = await asyncio.to_thread(find_tailscale)
    if command is None:
        return TailscaleStatus(problem="Tailscale is not installed on this machine.")
    try:
        output, complaint = await _run(command, seconds)
    except TimeoutError:
        return TailscaleStatus(problem=f"Tailscale did not answer within {seconds:g} s.")
    except _TooMuchError:
        return TailscaleStatus(problem=f"Tailscale answered more than {_BYTES // 1024 // 1024} MiB; it was not read.")
    except (OSError, NotImplementedError, ValueError) as error:
        return TailscaleStatus(problem=clean_text(f"Tailscale can't be run: {error}.", 200))
    return await asyncio.to_thread(parse_status, output, complaint)


def find_tailscale() -> str | None:
    """Return where the ``tailscale`` command is, None if it is not installed."""
    return shutil.which("tailscale") or (str(_MAC) if _MAC.exists() else None)


class _TooMuchError(Exception):
    pass


async def _run(command: str, seconds: float) -> tuple[bytes, bytes]:
    process = await asyncio.create_subprocess_exec(
        command,
        "status",
        "--json",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=os.name == "posix",
    )
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(seconds):
            output, complaint = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            await process.wait()
            return output, complaint
    finally:
        # Its children too: one of them would hold the pipes open.
        with contextlib.suppress(OSError):
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL)
            elif process.returncode is None:
                process.kill()
        # Also what it still had to say: a pipe that is not read to its end would never be closed.
        process._transport.close()  # type: ignore[attr-defined]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await process.wait()


async def _read(stream: asyncio.StreamReader) -> bytes:
    chunks, size = [], 0
    while chunk := await stream.read(65536):
        size += len(chunk)
        if size > _BYTES:
            raise _TooMuchError
        chunks.append(chunk)
    return b"".join(chunks)


def parse_status(output: bytes, complaint: bytes = b"") -> TailscaleStatus:
    """Return what an output of ``tailscale status --json`` says, whatever it is."""
    try:
        status = json.loads(output)
    except (ValueError, RecursionError):
        status = None
    if not isinstance(status, dict):
        words = complaint.decode("utf-8", "replace")
        if "running" in words or "connect" in words:
            return TailscaleStatus(problem="Tailscale is installed but its service does not run; start it.")
        said = clean_text(words or output[:400].decode("utf-8", "replace"), 100)
        return TailscaleStatus(problem=f"Tailscale gave no status{f' but: {said}' if said else ''}.")
    state = status.get("BackendState")
    if state != "Running":
        known = _STATES.get(state) if isinstance(state, str) else None
        return TailscaleStatus(problem=known or f"Tailscale is in state '{clean_text(state, 40) or 'unknown'}'.")
    tailnet = status.get("CurrentTailnet")
    peers = status.get("Peer")
    online = [
        machine
        for peer in (peers.values() if isinstance(peers, dict) else ())
        if isinstance(peer, dict) and peer.get("Online") is True and (machine := _machine(peer)) is not None
    ]
    return TailscaleStatus(
        own=_machine(status.get("Self")) or Machine(""),
        peers=online[:PEERS],
        magic_dns=not (isinstance(tailnet, dict) and tailnet.get("MagicDNSEnabled") is False),
    )


def _machine(peer: Any) -> Machine | None:
    if not isinstance(peer, dict):
        return None
    listed = peer.get("TailscaleIPs")
    ips = [ip for text in (listed[:8] if isinstance(listed, list) else ()) if (ip := parse_ip(text)) is not None]
    ips = sorted((ip for ip in dict.fromkeys(ips) if is_tailscale(ip)), key=lambda ip: ip.version)
    dns = peer.get("DNSName")
    dns_name = dns.rstrip(".").casefold() if isinstance(dns, str) and len(dns) <= 254 else ""
    if not _DNS_NAME.fullmatch(dns_name):
        dns_name = ""
    if not ips and not dns_name:
        return None
    name = clean_text(peer.get("HostName"), 64)
    if not name or name.casefold() == "localhost":  # phones call themselves so
        name = dns_name.partition(".")[0] or str(ips[0])
    listed = peer.get("Addrs")
    ends = [peer.get("CurAddr"), *(listed[:16] if isinstance(listed, list) else ())]
    seen = {str(ip) for end in ends if isinstance(end, str) and (ip := parse_ip(end.rpartition(":")[0].strip("[]")))}
    return Machine(name, tuple(map(str, ips)), dns_name, frozenset(seen))
