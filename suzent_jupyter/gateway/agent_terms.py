"""A device's agent that is called like any other command: its caller does not say who asks, nor on what terms.

Those are the gateway's to say, as it does in the turns that it has answered itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..protocol.agents import Turn
from ..protocol.device import AGENT_COMMAND
from ..protocol.errors import SuzentError
from ..protocol.wire import Raw, decode, encode
from .principals import Principal

if TYPE_CHECKING:
    from .session import NodeSession

#: Of a turn, what its asker gives. All else says where it belongs, who asks and what they may.
_THE_ASKERS = frozenset(["message", "attachments"])
_THE_GATEWAYS = frozenset(Turn.model_fields) - _THE_ASKERS


def on_terms(principal: Principal, session: NodeSession, params: Raw) -> Raw:
    """Return the parameters of a call of ``agent.run`` as the device may have them.

    A user speaks for themselves; of a control grant's holder the terms are those of the grant.

    Raises
    ------
    SuzentError
        ``permission_needed`` for a device of another account: its agent could not be told that somebody else asks.
    """
    if session.device.account != principal.account:
        raise SuzentError(
            "permission_needed",
            f"'{AGENT_COMMAND}' of {session.display_name}, which is somebody else's, is not for callers.",
            hint="Send a prompt instead: %suzent chat.",
        )
    grant = principal.grant
    if grant is None or not (session.runs_chats or "agent" in (session.features or ())):
        return params
    given = decode(params)
    if not isinstance(given, dict):
        return params  # refused where all parameters are
    terms: dict[str, Any] = {name: value for name, value in given.items() if name not in _THE_GATEWAYS}
    terms["caller"] = {"kind": "peer", "name": "", "device_id": principal.credential_id}
    terms["unattended"] = True
    terms["may_use_asking_tools"] = grant.unattended_tools
    return Raw(encode(terms))
