"""Who is asked: it depends on who calls whom, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ...protocol.permissions import Relation
from ..principals import Authority, Principal

_APP = "node:"
_NODES = (_APP, "device:")


@dataclass(frozen=True, slots=True)
class Place:
    """The node something would run on, and whose it is."""

    node_id: str
    account: str


@dataclass(frozen=True, slots=True)
class Audience:
    """Who is asked, and so who may answer.

    Attributes
    ----------
    relation : str
        How who calls and who executes are related.
    account : str
        Whose surfaces these are; the record of the prompt is this account's.
    web : bool
        Whether the account's web surfaces are asked: its people, wherever they have a page or a notebook open.
    nodes : tuple of str
        The nodes that are.
    """

    relation: Relation
    account: str
    web: bool = False
    nodes: tuple[str, ...] = ()

    def may_answer(self, principal: Principal) -> bool:
        """Tell whether a caller is one of those that are asked."""
        if is_node(principal):
            return principal.credential_id in self.nodes
        return self.web and is_person(principal) and principal.account == self.account


def is_node(principal: Principal) -> bool:
    """Tell whether a caller is a node's own socket."""
    return principal.actor.startswith(_NODES)


def is_person(principal: Principal) -> bool:
    """Tell whether a caller speaks for a person: full authority, and neither a node nor the holder of a grant."""
    return principal.authority >= Authority.FULL and principal.grant is None and not is_node(principal)


def distribute(principal: Principal, executor: Place | None, can_ask: Callable[[str], bool]) -> Audience:
    """Return who is asked.

    Parameters
    ----------
    principal : Principal
        Whose rights it would run with.
    executor : Place, optional
        Where it would run; None for this gateway itself.
    can_ask : callable
        Node id → whether that node is connected and can ask the person before it.
    """

    def able(*nodes: str) -> tuple[str, ...]:
        return tuple(node for node in dict.fromkeys(nodes) if can_ask(node))

    if principal.grant is not None:
        return Audience("grant", principal.account)
    if executor is None:
        return Audience("web", principal.account, web=True)
    if executor.account != principal.account:
        return Audience("cross_account", executor.account, nodes=able(executor.node_id))
    if principal.credential_id == executor.node_id:
        return Audience("local", executor.account, nodes=able(executor.node_id))
    if principal.actor.startswith(_APP):
        return Audience("app", executor.account, nodes=able(executor.node_id, principal.credential_id))
    return Audience("web", executor.account, web=True, nodes=able(executor.node_id))
