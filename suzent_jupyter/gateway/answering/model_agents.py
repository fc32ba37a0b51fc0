"""The agent of the model this gateway is set to use; what it is made of loads with the first turn."""

from __future__ import annotations

import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING

from ...protocol.errors import SuzentError
from ..principals import Principal

if TYPE_CHECKING:
    from ...protocol.agents import Agent
    from ..gateway import Gateway

log = logging.getLogger("suzent_jupyter")

_MODEL = "suzent_jupyter.agent.model"
_WORKBENCH = "suzent_jupyter.gateway.answering.workbench"


def load() -> None:
    """Load it all; call this off the event loop, since it takes a second."""
    try:
        import_module(_MODEL)
        import_module(_WORKBENCH)
    except ImportError as error:
        log.error("The agent of a model can't be loaded: %s", error)


def of_model(gateway: Gateway) -> Callable[[Principal], Agent]:
    """Return what makes the model's agent for a caller, with the tools that caller may use."""

    def make(principal: Principal) -> Agent:
        try:
            model, workbench = import_module(_MODEL), import_module(_WORKBENCH)
        except ImportError:
            raise SuzentError("no_agent", "This gateway lacks the packages of the extra [agent].") from None
        # The server's files are its owner's.
        files = gateway.files if principal.account == gateway.account else None
        bench = workbench.workbench(gateway, principal, files)
        agent: Agent = model.make_model_agent(gateway.agent_model, bench, gateway.limits)
        return agent

    return make
