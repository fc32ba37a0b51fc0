"""What kernels, terminals and the command line need to find this gateway: environment variables and a runtime file."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
from pathlib import Path
from typing import Any

from jupyter_core.paths import jupyter_runtime_dir

from .._files import replace_file
from .._version import __version__
from ..gateway.clock import now_text


class KernelEnvironment:
    """Sets variables that every kernel started from now on inherits, and puts back what was there."""

    def __init__(self) -> None:
        self._before: dict[str, str | None] = {}

    def set(self, base_url: str, token: str) -> None:
        """Name the gateway, unless the operator named one already.

        Parameters
        ----------
        base_url : str
            With the token as userinfo: ``http://suzent:<token>@127.0.0.1:25314``.
        token : str
            The kernels' token.
        """
        if os.environ.get("SUZENT_BASE_URL"):
            return
        self._put("SUZENT_BASE_URL", base_url)
        self._put("SUZENT_TOKEN", token)
        for name in ("NO_PROXY", "no_proxy"):
            if name == "no_proxy" and name not in os.environ:
                continue
            hosts = [host for host in os.environ.get(name, "").split(",") if host.strip()]
            self._put(name, ",".join(dict.fromkeys([*hosts, "127.0.0.1", "localhost"])))

    def _put(self, name: str, value: str) -> None:
        self._before.setdefault(name, os.environ.get(name))
        os.environ[name] = value

    def restore(self) -> None:
        """Put back what was there."""
        for name, value in self._before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        self._before.clear()


class RuntimeFile:
    """``suzent-<pid>.json``, mode 0600, in Jupyter's runtime directory. Its methods block."""

    def __init__(self) -> None:
        self.path = Path(jupyter_runtime_dir()) / f"suzent-{os.getpid()}.json"

    def write(self, facts: dict[str, Any]) -> None:
        """Write the facts, whole or not at all."""
        own = {"pid": os.getpid(), "host": platform.node(), "version": __version__, "started_at": now_text()}
        write_privately(self.path, {**own, **facts})

    def remove(self) -> None:
        """Remove it."""
        self.path.unlink(missing_ok=True)


def write_privately(path: Path, facts: dict[str, Any]) -> None:
    """Write JSON that only we can read, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(path, json.dumps(facts, indent=1).encode(), durable=False)


def remove_dead_files() -> None:
    """Remove what gateways of this machine left when they were killed: no process has their number now. Blocks."""
    import psutil

    for path in Path(jupyter_runtime_dir()).glob("suzent*.json"):
        # Others look at the same files, and another gateway may tidy up as well.
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            number = re.fullmatch(r"suzent(?:-|_host_)([0-9]{1,10})(?:_[0-9a-f]{8})?\.json", path.name)
            if number is None or path.is_symlink():
                continue
            body = json.loads(path.read_bytes())
            # A home directory may be shared by machines, each with processes of its own.
            if body["host"] == platform.node() and not psutil.pid_exists(int(number[1])):
                path.unlink()
