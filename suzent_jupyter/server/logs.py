"""Where log lines go: to the log of the application that runs the gateway, in its form and at its level."""

from __future__ import annotations

import logging
from typing import Any

PACKAGE = "suzent_jupyter"


def join_log(application: Any, *names: str) -> None:
    """Send what this package and the loggers ``names`` say to an application's log, as Jupyter does with Tornado's.

    Parameters
    ----------
    application : traitlets.config.Application
        Whose ``log`` and ``log_level`` they share from now on.
    """
    for name in (PACKAGE, *names):
        logger = logging.getLogger(name)
        logger.parent = application.log
        logger.setLevel(application.log_level)


def leave_log(application: Any) -> None:
    """Undo it for this package, unless another application's log has been joined meanwhile."""
    logger = logging.getLogger(PACKAGE)
    if logger.parent is application.log:
        logger.parent = logging.getLogger()
        logger.setLevel(logging.NOTSET)
