"""Gateway processes that start at once: a process that has imported everything forks them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from .gateways import Addresses, jupyter_dirs
from .waiting import wait_for

_SCRIPT = """
import os, sys
import sqlalchemy, sqlalchemy.dialects.sqlite, psutil
import suzent_jupyter.server.listener.server, suzent_jupyter.gateway.schema
from suzent_jupyter.server.standalone import StandaloneGateway
{before}
for line in sys.stdin:
    pid = os.fork()
    if not pid:
        StandaloneGateway.launch_instance(argv=line.split())
        os._exit(0)
    print(pid, flush=True)
    os.waitpid(pid, 0)
"""


class ForkedGateway(Addresses):
    """One of its children. :meth:`kill` is SIGKILL."""

    def __init__(self, pid: int, runtime: Path, log: Path) -> None:
        self.pid = pid
        path = runtime / f"suzent-{pid}.json"
        wait_for(path.exists, 30, f"{path}\n{log.read_text()}")
        facts = json.loads(path.read_text())
        self.url, self.token = facts["url"], facts["token"]

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


class Zygote:
    """Starts one gateway after the other on the same directory; ``before`` are lines of Python it runs first."""

    def __init__(self, root: Path, before: str = "") -> None:
        directories = jupyter_dirs(root)
        self.data_dir = root / "data" / "suzent"
        self._runtime = Path(directories["JUPYTER_RUNTIME_DIR"])
        self._log = root / "gateways.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _SCRIPT.replace("{before}", before)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **directories, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                text=True,
            )

    def start(self) -> ForkedGateway:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("--port=0\n")
        self._process.stdin.flush()
        self._last = ForkedGateway(int(self._process.stdout.readline()), self._runtime, self._log)
        return self._last

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:  # a test ended with a gateway still running
            self._last.kill()
            self._process.wait(20)
