"""Work that blocks, in a thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def off_loop(function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
    """Run a function where it does not hold up the event loop."""
    return asyncio.get_running_loop().run_in_executor(None, function, *arguments)
