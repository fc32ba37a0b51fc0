"""A Jupyter server as the gateway of your devices.

``import suzent_jupyter as sz`` costs next to nothing; names load what they need on first use.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ._lazy import lazy_names
from ._version import __version__

if TYPE_CHECKING:
    from .kernel import File, Gateway, connect
    from .node import NodeHost, capability, progress
    from .protocol import SuzentError
    from .protocol.agents import Turn

__all__ = [
    "File",
    "Gateway",
    "NodeHost",
    "SuzentError",
    "Turn",
    "__version__",
    "agent",
    "capability",
    "connect",
    "progress",
]

__getattr__ = lazy_names(
    __name__,
    {
        "connect": "kernel",
        "File": "kernel",
        "Gateway": "kernel",
        "NodeHost": "node",
        "SuzentError": "protocol",
        "Turn": "protocol.agents",
        "capability": "node",
        "progress": "node",
    },
)


class _Package(ModuleType):
    """This package: its ``agent`` is the decorator also where the subpackage of that name was imported."""

    @property
    def agent(self) -> Any:
        from .kernel.agent import agent

        return agent

    @agent.setter
    def agent(self, subpackage: ModuleType) -> None:
        """Leave it at that: Python offers each subpackage to its parent."""


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return __all__


def _jupyter_server_extension_points() -> list[dict[str, Any]]:
    from .server.app import SuzentApp

    return [{"module": "suzent_jupyter", "app": SuzentApp}]


def load_ipython_extension(shell: Any) -> None:
    """Make the ``%suzent`` magics available: ``%load_ext suzent_jupyter``."""
    from .kernel.magics import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Take them away again: ``%unload_ext suzent_jupyter``."""
    from .kernel.magics import unload

    unload(shell)
