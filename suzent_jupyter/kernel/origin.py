"""Where a call comes from: kernel, notebook and cell, for the audit trail."""

from __future__ import annotations

import os
import re
import sys
from pathlib import PurePath
from typing import Any

from .plain import shell

_KERNEL = re.compile(r"kernel-([0-9A-Za-z-]{1,64})\.json")


class Origin:
    """The facts of this process, gathered once; only the cell's number changes."""

    def __init__(self) -> None:
        self._shell: Any = None
        self._fixed: dict[str, Any] | None = None
        self._count: int | None = None
        self._current: dict[str, Any] | None = None

    def current(self) -> dict[str, Any] | None:
        """Return ``{"kernel_id"?, "notebook"?, "execution_count"?}``; None outside IPython."""
        if self._shell is None:
            self._shell = shell()
            if self._shell is None:
                return None
        # The number the cell shows; `shell.execution_count` is already the next one in newer versions of IPython.
        count = self._shell.displayhook.prompt_count
        if count != self._count or self._current is None:
            if self._fixed is None:
                self._fixed = _fixed()
            self._count = count
            self._current = {**self._fixed, "execution_count": count}
        return self._current


def _fixed() -> dict[str, Any]:
    facts: dict[str, Any] = {}
    if "ipykernel" in sys.modules:
        try:
            from ipykernel.connect import get_connection_file

            match = _KERNEL.fullmatch(PurePath(get_connection_file()).name)
            if match:
                facts["kernel_id"] = match.group(1)
        except Exception:  # noqa: S110
            pass  # a terminal IPython with ipykernel loaded: there is no kernel to name
    notebook = os.environ.get("JPY_SESSION_NAME", "")
    if notebook:
        facts["notebook"] = notebook[-500:]
    return facts
