"""Which agent answers a prompt: a notebook's function while its kernel lives, else a model, else a device's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...protocol.errors import SuzentError
from ..principals import Principal

if TYPE_CHECKING:
    from ...protocol.agents import Agent


class Agents:
    """The agents of one gateway."""

    def __init__(self) -> None:
        self._registered: list[tuple[str, Agent]] = []
        #: Makes the agent of a model for one caller; None where no model is set.
        self.of_model: Callable[[Principal], Agent] | None = None
        #: Makes the agent of a device that has one; None where no device has.
        self.of_device: Callable[[Principal], Agent | None] = lambda principal: None
        #: Called when an agent may be there where none was.
        self.appeared: list[Callable[[], None]] = []

    def register(self, account: str, agent: Agent) -> None:
        """Have an agent answer the account's prompts until :meth:`unregister`; the newest comes first."""
        self._registered.append((account, agent))
        self.tell()

    def tell(self) -> None:
        """Have those look who wait for an agent; for one that came another way, such as with a device."""
        for hear in self.appeared:
            hear()

    def available(self, principal: Principal) -> bool:
        """Tell whether :meth:`choose` would find one."""
        registered = any(account == principal.account for account, _ in self._registered)
        return registered or self.of_model is not None or self.of_device(principal) is not None

    def unregister(self, agent: Agent) -> None:
        """Forget it."""
        self._registered = [each for each in self._registered if each[1] is not agent]

    def choose(self, principal: Principal) -> Agent:
        """Return the agent for a caller's prompt.

        Raises
        ------
        SuzentError
            ``no_agent`` when there is none.
        """
        for account, agent in reversed(self._registered):
            if account == principal.account:
                return agent
        if self.of_model is not None:
            return self.of_model(principal)
        agent_of_device = self.of_device(principal)
        if agent_of_device is None:
            raise SuzentError("no_agent", "This gateway has no agent that could answer.")
        return agent_of_device
