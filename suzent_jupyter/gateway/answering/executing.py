"""A prompt from a socket becomes a run on the node that is chosen for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ...protocol.device import AGENT_COMMAND
from ...protocol.errors import SuzentError
from ...protocol.routing import Decision
from ..principals import Principal
from . import inline_files
from .dispatching import Asker, check_chain
from .run import Prompt, Run

if TYPE_CHECKING:
    from ..gateway import Gateway
    from ..session import NodeSession

_CHOICES = 3  # nodes may vanish, or turn out not to answer this caller, while one is chosen
#: What one node refuses and another may well take.
_ELSEWHERE = frozenset(["node_not_found", "node_disconnected", "not_executable", "paused", "permission_needed"])


@dataclass(slots=True, kw_only=True)
class Chat:
    """What a ``chat.send`` asks.

    Attributes
    ----------
    node : str, optional
        Id or name of the node its caller wants.
    files : list of dict
        Attachments as they came.
    decision : Decision, optional
        Which node was chosen, once one is.
    """

    conversation_id: str
    text: str
    node: str | None = None
    files: list[dict[str, Any]] = field(default_factory=list)
    decision: Decision | None = None


async def begin(gateway: Gateway, principal: Principal, chat: Chat, is_gone: Callable[[], bool]) -> Run:
    """Choose a node and start a run there.

    Parameters
    ----------
    is_gone : callable
        Whether nobody waits for it any more; nothing is started then.

    Raises
    ------
    SuzentError
        ``no_executor``; for a node that was named what refuses it: ``node_not_found``, ``node_ambiguous``,
        ``not_executable``, ``paused``, ``permission_needed``, ``dispatch_cycle``; ``dispatch_too_deep``;
        ``attachment_refused``; and those of :meth:`.runs.Runs.start`.
    """
    if not gateway.settings.nodes_enabled:
        raise SuzentError("nodes_disabled", "This gateway's nodes are switched off.")
    asker = _asker(gateway, principal)
    prompt = await _choose(gateway, principal, asker, chat)
    if chat.files:
        files, chat.files = chat.files, []
        staging = await inline_files.stage(gateway.data_dir, files, gateway.limits)
        prompt.attachments, prompt.clear = staging.attachments, staging.clear
    error = SuzentError("cancelled", "Whoever asked is gone.") if is_gone() else _lost(gateway, principal, prompt)
    if error is not None:
        await prompt.clear()
        raise error
    return await gateway.runs.start(principal, chat.conversation_id, prompt)


def _lost(gateway: Gateway, principal: Principal, prompt: Prompt) -> SuzentError | None:
    """Return why a node that was chosen may not be asked any more: what was attached took its time."""
    session = gateway.registry.by_id(prompt.node_id)
    if session is None or gateway.registry.may_see(principal, session):
        return None  # one that is gone the run itself finds out about
    return SuzentError("node_disconnected", f"{session.display_name} is no longer shared.")


def _asker(gateway: Gateway, principal: Principal) -> Asker:
    """Return in which chain this prompt stands: a node that answers a turn asks as part of the deepest one."""
    under_way = gateway.runs.executed_by(principal.credential_id) if principal.credential_id else []
    if not under_way:
        return Asker(principal)
    deepest = max(under_way, key=lambda run: (len(run.prompt.chain), run.prompt.remote))
    return Asker(principal, deepest.prompt.chain, None, any(run.prompt.remote for run in under_way))


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
            prompt = _prompt_for(gateway, principal, asker, session)
        except SuzentError as error:
            if chat.node is not None or error.code not in _ELSEWHERE:
                raise
            exclude.add(decision.choice.node_id)
            continue
        chat.decision = prompt.decision = decision
        prompt.text = chat.text
        return prompt
    raise SuzentError("no_executor", "No connected node that you may use has an agent that can answer.")


def _prompt_for(gateway: Gateway, principal: Principal, asker: Asker, session: NodeSession) -> Prompt:
    from .. import executors

    check_chain(gateway, asker.chain, session)
    remote = asker.remote or session.device.account != principal.account
    agent = executors.agent_of(gateway, principal, session)
    if not session.runs_chats:
        # A device's own agent does not know of turns that may not ask.
        Asker(principal, asker.chain, None, remote).check_command(AGENT_COMMAND)
    return Prompt(
        text="",
        agent=agent,
        node_id=session.node_id,
        node_name=session.display_name,
        chain=(*asker.chain, session.node_id),
        remote=remote,
    )
