"""Where log lines go: to the log of the application that runs the gateway, in its form and at its level."""

from __future__ import annotations

import logging

PACKAGE = "suzent_jupyter"


def join_log(log: logging.Logger, *names: str) -> None:
    """Send what this package and the loggers ``names`` say to an application's log, as Jupyter does with Tornado's."""
    for name in (PACKAGE, *names):
        logger = logging.getLogger(name)
        logger.parent = log
        logger.setLevel(log.getEffectiveLevel())


def leave_log(log: logging.Logger) -> None:
    """Undo it for this package, unless another application's log has been joined meanwhile."""
    logger = logging.getLogger(PACKAGE)
    if logger.parent is log:
        logger.parent = logging.getLogger()
        logger.setLevel(logging.NOTSET)
