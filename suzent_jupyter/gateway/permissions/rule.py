"""What is asked about, before it is known whom."""

from __future__ import annotations

from ...protocol.asking import would_ask
from ...protocol.capabilities import CapabilitySchema


def must_ask(capability: CapabilitySchema, *, unwatched: bool) -> bool:
    """Tell whether somebody is asked before a capability runs.

    Parameters
    ----------
    unwatched : bool
        Whether it is no person's own call of their own node: an agent wants it, or somebody of another account. Then
        the command's name decides where the capability itself does not say.
    """
    if capability.requires_permission is not None:
        return capability.requires_permission
    return unwatched and would_ask(capability.name)
