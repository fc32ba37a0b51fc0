"""Who is asking. Every credential resolves to one :class:`Principal`; all is looked up inside what that may see."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fnmatch import fnmatchcase

from ..protocol.device import AGENT_COMMAND


class Authority(enum.IntEnum):
    """What a credential may reach, least first."""

    NONE = 0
    NODE = 1
    AGENT = 2
    FULL = 3


@dataclass(frozen=True, slots=True)
class Grant:
    """What a control grant covers.

    Attributes
    ----------
    agent, devices : bool
        Whether its holder may drive the agent, and whether it may use the devices.
    commands : tuple of str
        Patterns such as ``camera.*``; empty for all. They hold for the agent's tools too.
    unattended_tools : bool
        Whether turns may use tools that would otherwise ask.
    """

    agent: bool = True
    devices: bool = True
    commands: tuple[str, ...] = ()
    unattended_tools: bool = False

    def allows(self, command: str) -> bool:
        """Tell whether a device's command is covered; what runs a device's agent is for those who may drive agents."""
        if not self.devices or (command == AGENT_COMMAND and not self.agent):
            return False
        return not self.commands or any(fnmatchcase(command, pattern) for pattern in self.commands)


@dataclass(frozen=True, slots=True)
class Principal:
    """A caller.

    Attributes
    ----------
    authority : Authority
        The least authority of a route must not be above it.
    account : str
        Full means full within this account.
    org : str
        The organisation whose shared nodes are visible too; ``""`` for none.
    credential_id : str
        The device id of the token used, or ``""``.
    actor : str
        How the audit trail names it: ``user``, ``kernel``, ``loopback``, ``token:<id>``.
    grant : Grant, optional
        What the control grant covers, for tokens of scope ``agent``; None for everybody else.
    """

    authority: Authority
    account: str = ""
    org: str = ""
    credential_id: str = ""
    actor: str = "nobody"
    grant: Grant | None = None


NOBODY = Principal(Authority.NONE)
