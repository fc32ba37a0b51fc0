"""Which host, and which run of it, the code under way works for."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .host import NodeHost


class Work(NamedTuple):
    """What a capability or an agent is called for; ``run_id`` is ``""`` outside a turn."""

    host: NodeHost
    run_id: str = ""


#: Inherited by every task and thread that a host starts.
current_work: ContextVar[Work | None] = ContextVar("current_work", default=None)


def this_node() -> NodeHost:
    """Return the host whose call or turn this is, such as to ask other nodes from inside an agent.

    Raises
    ------
    RuntimeError
        Outside of both.

    Examples
    --------
    >>> @agent
    ... async def answer(message: str) -> str:
    ...     return await this_node().ask("GPU box", message)
    """
    work = current_work.get()
    if work is None:
        raise RuntimeError("this_node() works inside a capability or an agent that a node is running.")
    return work.host
