"""Ask, then launch: the way of every call that somebody must allow first.

What is asked about is prepared and frozen before; what comes after the answer sends those bytes, or nothing.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from ...protocol.errors import SuzentError
from ...protocol.permissions import PermissionInfo
from ..turns import LARGE_BYTES
from .prompt import Question
from .rule import must_ask
from .summary import Frozen, freeze

if TYPE_CHECKING:
    from ..answering.run import Run
    from ..calls import Outcome
    from ..dispatch import Prepared
    from ..gateway import Gateway
    from ..principals import Principal


def start_call(
    gateway: Gateway,
    prepared: Prepared,
    *,
    run: Run | None = None,
    agent: bool = False,
    origin: object | None = None,
    call_id: str = "",
    principal: Principal | None = None,
) -> asyncio.Future[Outcome]:
    """Start a call that was prepared; where somebody must allow it, once that has happened.

    Parameters
    ----------
    run : Run, optional
        The turn it is part of; while it waits it ends with that.
    agent : bool
        Whether an agent wants it, and no person.
    origin : object, optional
        The socket it came by, if it is part of no turn.
    call_id : str
        How that socket names it.
    principal : Principal, optional
        Who wants it, where the call itself has more rights than that.

    Returns
    -------
    asyncio.Future of Outcome
        As :meth:`.dispatch.Dispatcher.launch`; cancelling it closes the prompt. It may also end with what
        :meth:`.permissions.Permissions.require` raises.

    Raises
    ------
    SuzentError
        ``node_busy``, where nobody need be asked.
    """
    capability = prepared.capability
    if capability is None:  # the very call is under way, or over
        return gateway.dispatcher.launch(prepared)
    foreign = prepared.session.device.account != prepared.principal.account
    if not must_ask(capability, unwatched=agent or foreign):
        return gateway.dispatcher.launch(prepared)
    asked = _ask_then_launch(gateway, prepared, principal or prepared.principal, run, origin, call_id)
    return gateway.dispatcher.hold(prepared, asyncio.ensure_future(asked))


async def _ask_then_launch(
    gateway: Gateway, prepared: Prepared, principal: Principal, run: Run | None, origin: object | None, call_id: str
) -> Outcome:
    try:
        frozen = await _frozen(prepared)
        await gateway.permissions.require(
            Question(
                principal,
                prepared.session,
                frozen.summary,
                run,
                origin=origin,
                call_id=call_id,
                size=len(frozen.params),
                on_asked=partial(_tell_caller, prepared),
            )
        )
        if not gateway.still_speaks(principal):
            raise SuzentError("unauthorized", "The caller's token was revoked or paused meanwhile.")
        if run is not None and run.closing:
            raise SuzentError("cancelled", "The turn that asked is over.")
        call = gateway.dispatcher.launch_allowed(prepared, frozen.params)
    except asyncio.CancelledError:
        gateway.dispatcher.note_refused(prepared, "cancelled")
        raise
    except SuzentError as error:
        gateway.dispatcher.note_refused(prepared, error.code)
        raise
    return await call  # cancelling this task cancels the call on the device


def _tell_caller(prepared: Prepared, prompt: PermissionInfo) -> None:
    """Say why it takes long; who is asked is not the caller's to know."""
    if prepared.on_progress is not None:
        waits = {"waits_for": "permission", "expires_at": prompt.expires_at}
        prepared.on_progress(
            {"seq": 0, "fraction": None, "message": "Waiting for somebody's permission.", "data": waits}
        )


async def _frozen(prepared: Prepared) -> Frozen:
    assert prepared.capability is not None
    arguments: Any = (prepared.capability.name, prepared.capability.description, prepared.params)
    if len(prepared.params) < LARGE_BYTES:
        return freeze(*arguments)
    return await asyncio.to_thread(freeze, *arguments)
