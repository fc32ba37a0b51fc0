"""A prompt from a socket becomes a run on the node that is chosen for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.errors import SuzentError
from ...protocol.routing import Decision
from ..principals import Principal
from . import inline_files
from .dispatching import Asker, deepest, prompt_on, under_way
from .run import Prompt, Run

if TYPE_CHECKING:
    from ..gateway import Gateway

_CHOICES = 3  # nodes may vanish, or turn out not to answer this caller, while one is chosen
#: What one node refuses and another may well take.
_ELSEWHERE = frozenset(["node_not_found", "node_disconnected", "not_executable", "paused", "permission_needed"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """What a ``chat.send`` asks.

    Attributes
    ----------
    node : str, optional
        Id or name of the node its caller wants.
    files : list of dict
        Attachments as they came.
    """

    conversation_id: str
    text: str
    node: str | None = None
    files: list[dict[str, Any]] = field(default_factory=list)


async def begin(
    gateway: Gateway, principal: Principal, chat: Chat, is_gone: Callable[[], bool]
) -> tuple[Run, Decision]:
    """Choose a node and start a run there; return it and why that node.

    Parameters
    ----------
    is_gone : callable
        Whether nobody waits for it any more; nothing is started then.

    Raises
    ------
    SuzentError
        ``no_executor``; for a node that was named what refuses it: ``node_not_found``, ``node_ambiguous``,
        ``not_executable``, ``paused``, ``permission_needed``, ``dispatch_cycle``; ``dispatch_too_deep``;
        ``attachment_refused``, ``artifact_unknown``, ``artifact_corrupt``; and those of :meth:`.runs.Runs.start`.
    """
    asker = _asker(gateway, principal)
    prompt = await _choose(gateway, principal, asker, chat)
    decision = prompt.decision
    assert decision is not None
    if chat.files:
        staging = await inline_files.stage(gateway, principal.account, chat.files)
        prompt.attachments, prompt.clear = staging.attachments, staging.clear
    error = SuzentError("cancelled", "Whoever asked is gone.") if is_gone() else _lost(gateway, principal, prompt)
    if error is not None:
        await prompt.clear()
        raise error
    return await gateway.runs.start(principal, chat.conversation_id, prompt), decision


def _lost(gateway: Gateway, principal: Principal, prompt: Prompt) -> SuzentError | None:
    """Return why a node that was chosen may not be asked any more: what was attached took its time."""
    session = gateway.registry.by_id(prompt.node_id)
    if session is None or gateway.registry.may_see(principal, session):
        return None  # one that is gone the run itself finds out about
    return SuzentError("node_disconnected", f"{session.display_name} is no longer shared.")


def _asker(gateway: Gateway, principal: Principal) -> Asker:
    """Return in which chain this prompt stands: a node that answers a turn asks as part of the deepest one."""
    answers = under_way(gateway, principal)
    if not answers:
        return Asker(principal)
    return Asker(principal, deepest(answers).prompt.chain, None, any(run.prompt.remote for run in answers))


async def _choose(gateway: Gateway, principal: Principal, asker: Asker, chat: Chat) -> Prompt:
    exclude = set(asker.chain) if chat.node is None else set()
    for _ in range(_CHOICES):
        decision = await gateway.chooser.choose(
            principal, chat.text, executors=True, node=chat.node, exclude=frozenset(exclude)
        )
        if decision.choice is None:
            break
        try:
            session = gateway.registry.find(principal, decision.choice.node_id)
            return prompt_on(gateway, asker, session, chat.text, decision=decision)
        except SuzentError as error:
            if chat.node is not None or error.code not in _ELSEWHERE:
                raise
            exclude.add(decision.choice.node_id)
    raise SuzentError("no_executor", "No connected node that you may use has an agent that can answer.")
