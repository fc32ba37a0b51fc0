"""A tool's answer to the model: a result, or an error as a result. Neither ends the turn."""

from __future__ import annotations

import functools
import logging
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec

from ...protocol.errors import SuzentError
from ..data import show_error

log = logging.getLogger("suzent_jupyter")

P = ParamSpec("P")


def answering(tool: Callable[P, Awaitable[Any]]) -> Callable[P, Awaitable[Any]]:
    """Make a tool answer its errors. Cancelling passes through."""

    @functools.wraps(tool)
    async def run(*arguments: P.args, **named: P.kwargs) -> Any:
        try:
            return await tool(*arguments, **named)
        except SuzentError as error:
            return show_error(error)
        except Exception:
            log.exception("The agent's tool '%s' failed", tool.__name__)
            return show_error(SuzentError("internal", "The tool failed; the gateway's log says why.", hint=""))

    return run
