"""Capabilities of ordinary computers, each offered only where it can work."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

from ..capability import Capability
from . import camera, notify, speaker, system

log = logging.getLogger(__name__)

_PATIENCE = 10.0  # seconds; opening a camera takes a few
_FINDERS: tuple[Callable[[], Capability | None], ...] = (system.find, camera.find, speaker.find, notify.find)


async def available() -> list[Capability]:
    """Return the built-in capabilities that work on this machine; takes up to 10 s where a driver hangs."""
    found = await asyncio.gather(*(asyncio.to_thread(_probe, find) for find in _FINDERS))
    return [each for each in found if each is not None]


def _probe(find: Callable[[], Capability | None]) -> Capability | None:
    answer: list[Capability | None] = [None]

    def work() -> None:
        try:
            answer[0] = find()
        except Exception:
            log.info("%s is not offered", find.__module__, exc_info=True)

    thread = threading.Thread(target=work, daemon=True, name="suzent-probe")
    thread.start()
    thread.join(_PATIENCE)
    return answer[0]
