"""Who is asking. Every credential resolves to one :class:`Principal`; all is looked up inside what that may see."""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Authority(enum.IntEnum):
    """What a credential may reach, least first."""

    NONE = 0
    NODE = 1
    AGENT = 2
    FULL = 3


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
    """

    authority: Authority
    account: str = ""
    org: str = ""
    credential_id: str = ""
    actor: str = "nobody"


NOBODY = Principal(Authority.NONE)
