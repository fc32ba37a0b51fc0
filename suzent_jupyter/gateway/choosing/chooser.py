"""Which node a prompt goes to, among those its caller may see. The scoring itself is :mod:`suzent_jupyter.routing`."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ...protocol.errors import SuzentError
from ...protocol.routing import Decision
from ...routing.steps import Pace
from ..principals import Principal

if TYPE_CHECKING:
    from ...routing.router import Router
    from ..gateway import Gateway
    from ..session import NodeSession
    from .views import View

log = logging.getLogger("suzent_jupyter")

_VIEWS = 64  # kinds of callers that asked lately
_MODULES = ("suzent_jupyter.routing.router", "suzent_jupyter.gateway.choosing.views")


class Chooser:
    """Chooses for one gateway. Nothing of it is loaded or kept before the first prompt."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._pace = Pace()
        self._loading: asyncio.Task[Router] | None = None
        self._views: OrderedDict[tuple[Any, ...], View] = OrderedDict()
        #: Those in use too that are no longer among the latest.
        self._alive: WeakSet[View] = WeakSet()

    def changed(self, session: NodeSession) -> None:
        """Take note that a node came, changed or went, or that others may see it now."""
        now = self._gateway.registry.by_id(session.node_id)
        for view in self._alive:
            view.note(session.node_id, now)

    def commands_changed(self) -> None:
        """Take note that other commands are denied now."""
        for view in self._alive:
            view.note_all()

    def prepare(self) -> None:
        """Load what a choice needs, a second's work with a model, before anybody waits for it."""
        loading = self._loading
        if loading is None or (loading.done() and not loading.cancelled() and loading.exception() is not None):
            self._loading = asyncio.create_task(self._load())

    async def close(self) -> None:
        """Stop loading."""
        if self._loading is not None:
            self._loading.cancel()
            await asyncio.wait([self._loading])

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
        limit : int, optional
            Candidates in the decision.
        exclude : frozenset of str
            Node ids that are not considered, such as that of the node which asks.

        Raises
        ------
        SuzentError
            ``nodes_disabled``; ``node_not_found``, ``node_ambiguous``, ``paused``, ``not_executable`` or
            ``node_disconnected`` for the node that was named.
        """
        self._gateway.settings.check_nodes_enabled()
        self.prepare()
        assert self._loading is not None
        router = await asyncio.shield(self._loading)
        view = self._view(principal)
        named = None if node is None else self._named(view, principal, node, executors, exclude)
        refresh = partial(view.candidates, executors=executors)
        candidates = await refresh()
        try:
            return await router.route(query, candidates, node=named, limit=limit, exclude=exclude, refresh=refresh)
        except KeyError:
            raise SuzentError("node_disconnected", "The node that was named went away meanwhile.") from None

    def _named(self, view: View, principal: Principal, node: str, executors: bool, exclude: frozenset[str]) -> str:
        session = self._gateway.registry.find(principal, node)
        name = session.display_name
        if session.device.status == "paused":
            raise SuzentError("paused", f"{name} is paused.")
        if session.node_id in exclude:
            raise SuzentError("not_executable", f"{name} is where this comes from.")
        if not (view.executes(session) if executors else view.takes(session)):
            what = "agent that you may ask" if executors else "command that you may call"
            raise SuzentError("not_executable", f"{name} has no {what}.")
        return session.node_id

    def _view(self, principal: Principal) -> View:
        from .views import View

        org = principal.org if principal.grant is None else ""
        key = (principal.account, org, principal.grant)
        view = self._views.get(key)
        if view is None:
            view = self._views[key] = View(self._gateway, principal, self._pace)
            self._alive.add(view)
        self._views.move_to_end(key)
        while len(self._views) > _VIEWS:
            self._views.popitem(last=False)
        return view

    async def _load(self) -> Router:
        for module in _MODULES:
            await asyncio.to_thread(import_module, module)
        from ...routing.router import Router

        gateway = self._gateway
        if not gateway.router_model:
            return Router(gateway.limits, pace=self._pace)
        try:
            model = await asyncio.to_thread(import_module, "suzent_jupyter.gateway.choosing.model")
            choosing = await asyncio.to_thread(import_module, "suzent_jupyter.agent.choosing")
        except ImportError as error:
            log.error("The model that chooses nodes can't be loaded: %s", error)
            return Router(gateway.limits, pace=self._pace)
        await choosing.warm(gateway.router_model, gateway.limits)
        return Router(gateway.limits, model.ask_of(gateway.router_model, gateway.limits), self._pace)
