"""What guests need to know of the gateway: a 0600 file in Jupyter's runtime directory, found by the lock's note."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir

from ..._files import read_private
from ..runtime import write_privately


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Where the gateway is, and what proves to it that a guest is one.

    Attributes
    ----------
    pid : int
        Its process.
    url : str, optional
        The listener's, None without one.
    port : int, optional
        The listener's.
    token : str
        The kernels', the same for all servers of one gateway.
    door_port : int
        Where guests knock, on loopback.
    secret : str
        What they show there.
    account, org : str
        Who owns it.
    """

    pid: int
    url: str | None
    port: int | None
    token: str = field(repr=False)
    door_port: int
    secret: str = field(repr=False)
    account: str
    org: str


class HostFile:
    """The gateway's own. Its methods block."""

    def __init__(self) -> None:
        # Not suzent-*.json: those are for kernels and terminals.
        self.path = Path(jupyter_runtime_dir()).absolute() / f"suzent_host_{os.getpid()}_{os.urandom(4).hex()}.json"

    def write(self, facts: HostFacts) -> None:
        """Write the facts, whole or not at all."""
        write_privately(self.path, {**asdict(facts), "host": platform.node()})

    def remove(self) -> None:
        """Remove it."""
        self.path.unlink(missing_ok=True)


def read_host_file(path: str) -> HostFacts | None:
    """Return what a gateway wrote; None if it isn't there, isn't ours, or others could have written or read it."""
    try:
        body: Any = json.loads(read_private(Path(path)))
        names = HostFacts.__dataclass_fields__
        return HostFacts(**{name: body[name] for name in names})
    except (OSError, ValueError, KeyError, TypeError):
        return None
