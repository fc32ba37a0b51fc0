"""What is said of a bug: all of it to the log, and to the caller that it was one."""

from __future__ import annotations

import logging

from ..protocol.errors import SuzentError

log = logging.getLogger("suzent_jupyter")


def internal(what: str, error: BaseException) -> SuzentError:
    """Log a bug with its traceback, and return what the caller is told.

    Parameters
    ----------
    what : str
        What failed, such as ``A call``.
    error : BaseException
        As it was caught.
    """
    log.error("%s failed inside the gateway", what, exc_info=error)
    return told()


def told() -> SuzentError:
    """Return what the caller is told, where the log has it already."""
    return SuzentError("internal", "The gateway failed on this request.")
