"""Running a program of the operating system with text from strangers: never through a shell, never for ever."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence


async def run_program(
    command: Sequence[str], *, text: str = "", environment: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run ``command`` with ``text`` on its standard input; return exit status and what it complained about.

    Cancelling kills it.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **(environment or {})},
    )
    try:
        _, complaint = await process.communicate(text.encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, complaint.decode(errors="replace").strip()


def powershell(script: str) -> list[str]:
    """Return the command that runs a fixed script; its values come through the environment or standard input."""
    return ["powershell", "-NoProfile", "-NonInteractive", "-Command", script]
