"""The device side: make this machine, or any Python function, a node of a gateway.

It needs no Jupyter server. ``NodeHost`` joins a gateway and ``@capability`` says what the device can do::

    from suzent_jupyter.node import NodeHost, capability, progress

    @capability("stage.move", description="Move the stage")
    def move(position: float, speed: float = 1.0) -> dict:
        for step in range(100):
            progress(step / 100)
            ...
        return {"position": position}

    NodeHost("ws://192.168.1.10:25314", name="Microscope").run_in_thread().join()
"""

from .agent import agent
from .backoff import Backoff
from .capability import Capability, capability
from .current import this_node
from .host import NodeHost
from .progress import CallCancelled, Progress, progress
from .results import ResultError, binary
from .signature import ParameterError
from .vault import TokenVault, VaultError

__all__ = [
    "Backoff",
    "CallCancelled",
    "Capability",
    "NodeHost",
    "ParameterError",
    "Progress",
    "ResultError",
    "TokenVault",
    "VaultError",
    "agent",
    "binary",
    "capability",
    "progress",
    "this_node",
]
