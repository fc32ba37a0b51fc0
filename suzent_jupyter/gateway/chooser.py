"""Which node a prompt goes to, among those its caller may see. The scoring itself is :mod:`suzent_jupyter.routing`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..protocol.routing import Decision
from .principals import Principal

if TYPE_CHECKING:
    from .gateway import Gateway


class Chooser:
    """Chooses for one gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    async def choose(
        self,
        principal: Principal,
        query: str,
        *,
        executors: bool = False,
        node: str | None = None,
        limit: int | None = None,
        exclude: frozenset[str] = frozenset(),
    ) -> Decision:
        """Choose a node for a prompt.

        Parameters
        ----------
        executors : bool
            Consider only nodes that could carry out a chat.
        node : str, optional
            Id or name of the node the caller wants: tier ``manual``.
        exclude : frozenset of str
            Node ids that are not considered, such as that of the node which asks.

        Raises
        ------
        SuzentError
            ``node_not_found``, ``node_ambiguous`` or ``not_executable`` for the node that was named.
        """
        raise NotImplementedError
