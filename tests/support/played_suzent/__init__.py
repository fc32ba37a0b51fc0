"""A process that plays a Suzent 0.9 server: what a gateway of ours meets when it peers with one.

Written from the shapes such a server sends and takes; it shares no code with one, and none with ours.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any


class PlayedSuzent:
    """The process; use as ``with PlayedSuzent() as suzent``, or stop it with :meth:`stop`.

    Parameters
    ----------
    name : str
        Its host name.
    port : int
        Where it listens; a free port otherwise.
    state : Path, optional
        Keeps grants and peers in this file, so that it can be started again.
    arguments : str
        ``--remote`` treats every caller as one of another machine, as Suzent does off loopback.
    """

    def __init__(self, name: str = "suzent-box", *arguments: str, port: int = 0, state: Path | None = None) -> None:
        command = [sys.executable, str(Path(__file__).parent), "--name", name, "--port", str(port), *arguments]
        if state is not None:
            command += ["--state", str(state)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin, self._process.stdout
        self._numbers = itertools.count()
        self._waiting: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()
        hello = json.loads(self._out.readline())
        self.port: int = hello["port"]
        self.identity: str = hello["identity"]
        self.url = f"http://127.0.0.1:{self.port}"
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> PlayedSuzent:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, what: str, /, **values: Any) -> Future[Any]:
        """Have it do something; the future holds what came of it."""
        future: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            self._waiting[number] = future
            self._in.write(json.dumps({"id": number, "do": what, **values}) + "\n")
            self._in.flush()
        return future

    def do(self, what: str, /, **values: Any) -> Any:
        """Have it do something and wait for it."""
        return self.start(what, **values).result(30)

    def requests(self, path: str = "") -> list[dict[str, Any]]:
        """Return what was sent to it so far: ``{method, path, query, headers, body, problems, unread}``."""
        seen = self.do("requests")
        return [each for each in seen if each["path"].startswith(path)]

    def stop(self, kill: bool = False) -> None:
        """End it: at once, or after its input has ended."""
        if kill:
            self._process.kill()
        self._in.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
        self._reader.join(10)
        self._out.close()

    def _read(self) -> None:
        for line in self._out:
            answer = json.loads(line)
            future = self._waiting.pop(answer["id"])
            if "error" in answer:
                future.set_exception(RuntimeError(answer["error"]))
            else:
                future.set_result(answer["value"])
        for future in self._waiting.values():
            future.cancel()
