"""Runs a module as one of the demo's processes: ends when the demo is gone, also if nobody could say goodbye.

The demo holds the other end of our standard input and never writes to it. Whatever ends the demo closes that end.
"""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import threading
import time

_PATIENCE = 8.0  # s for what ends in order, before it is killed


def end_with(descriptor: int) -> None:
    """End this process, and what it started, when ``descriptor`` reaches its end."""
    while os.read(descriptor, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def main() -> None:
    """Run the module named by the first argument with the others."""
    held = os.dup(0)  # not inherited by what the module starts, which gets an empty input instead
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=end_with, args=(held,), name="demo-watch", daemon=True).start()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
