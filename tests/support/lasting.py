"""Agents that go on until they are told to end, in the forms that a function may have."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

from suzent_jupyter.node import progress
from suzent_jupyter.node.progress import CallCancelled


class Lasting:
    """One of them.

    Attributes
    ----------
    function : callable
        The agent's.
    begun : threading.Event
        Set once it has said something.
    ended : list of str
        The form, once it was told to end.
    """

    def __init__(self, form: str) -> None:
        self.begun = threading.Event()
        self.ended: list[str] = []
        begun, ended, pause = self.begun, self.ended, threading.Event()

        async def asynchronous() -> AsyncIterator[str]:
            try:
                yield "a"
                begun.set()
                await asyncio.sleep(30)
            finally:
                ended.append("async")

        def generator() -> Iterator[str]:
            try:
                while True:
                    yield "a"
                    begun.set()
                    pause.wait(0.01)
            finally:
                ended.append("generator")

        def reporting() -> str:
            try:
                while True:
                    begun.set()
                    progress(0.5, "still at it")
                    pause.wait(0.01)
            except CallCancelled:
                ended.append("progress")
            return ""

        forms: dict[str, Callable[..., Any]] = {"async": asynchronous, "generator": generator, "progress": reporting}
        self.function = forms[form]
