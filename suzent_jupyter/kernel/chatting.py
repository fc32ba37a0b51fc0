"""The part of a gateway's Python object that has to do with prompts for nodes: routing, chats, conversations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from .errors import KernelError, UsageError
from .plain import one_line
from .rest import Rest, segment

if TYPE_CHECKING:
    import pandas as pd

    from .asking.asker import Asker
    from .chats import Chats
    from .conversation import Conversation
    from .origin import Origin
    from .route import Route
    from .turns.answer import Answer
    from .turns.chat import ChatTurn
    from .uploads import Uploads

Record = dict[str, Any]

#: Of this notebook, by gateway and account: the magics and what `connect()` gives are connections of their own.
_last_conversations: dict[tuple[str, int], str] = {}
_CONVERSATION_ID = re.compile(r"[A-Za-z0-9_.:-]{1,128}")


class Chatting:
    """Prompts of a :class:`~.gateway.Gateway` for its nodes."""

    _rest: Rest
    _origin: Origin

    if TYPE_CHECKING:

        @cached_property
        def _chats(self) -> Chats: ...

        def _watch_run(self, run_id: Callable[[], str]) -> Asker | None: ...

        @cached_property
        def _uploads(self) -> Uploads: ...

    # -- routing ----------------------------------------------------------------------------------------------

    def route(self, query: str, *, node: str | None = None, executors: bool = False) -> Route:
        """Ask which node ``query`` would go to, and why; nothing is sent to any of them.

        Parameters
        ----------
        query : str
            The prompt, or words for what is wanted.
        node : str, optional
            A node to choose yourself, by name or id; the scores are told all the same.
        executors : bool
            Consider only nodes that could carry out a chat, as :meth:`chat` does.

        Raises
        ------
        NodeNotFound
            There is no ``node`` of that name.
        """
        from .route import Route

        body = {"query": query, "executors": executors, **({"node": node} if node else {})}
        return Route(self._rest.post("/route", body))

    async def aroute(self, query: str, *, node: str | None = None, executors: bool = False) -> Route:
        """Ask without blocking the event loop; as :meth:`route`."""
        from .turns.running import on_thread

        return await on_thread(lambda: self.route(query, node=node, executors=executors))

    def scope(self, node: str, scope: str) -> Record:
        """Set who may see and use a node of yours: ``account`` (you) or ``enterprise`` (your organisation).

        Returns
        -------
        dict
            ``{success, node_id, scope, org}``, as they are in force then.

        Raises
        ------
        KernelError
            ``not_owner`` for a node that others share with you, ``no_org`` where there is nobody to share with.
        """
        answer: Record = self._rest.post(f"/nodes/{segment(node)}/scope", {"scope": scope})
        return answer

    # -- chats ------------------------------------------------------------------------------------------------

    def chat(
        self,
        prompt: str,
        node: str | None = None,
        conversation: str | None = None,
        on_event: Callable[[Record], None] | None = None,
        on_accepted: Callable[[Record], None] | None = None,
        show: bool = False,
        attachments: Sequence[Any] = (),
    ) -> Answer:
        """Have the node best suited answer a prompt, and wait. Interrupting the cell aborts the run on the node.

        Parameters
        ----------
        prompt : str
            What to ask.
        node : str, optional
            The node that is to answer, by name, id or unique id prefix; chosen by the gateway otherwise.
        conversation : str, optional
            The id of a conversation to go on with, or ``last``: this notebook's last one, else the newest that a node
            answered. A new one otherwise.
        on_event : callable, optional
            Called with each event (AG-UI, as a dict) on this thread. What it says is the node's word.
        on_accepted : callable, optional
            Called before the first event with the gateway's word on who answers and why.
        show : bool
            Show who answers, and the answer as it comes in, as the magic does.
        attachments : sequence, optional
            Files of this machine to send along: paths, :class:`~.uploads.File`, bytes, or files of results.

        Returns
        -------
        Answer
            With ``text``, ``events``, ``tools``, ``route`` and ``conversation``.

        Raises
        ------
        TurnFailed
            The run ended in an error; ``answer`` holds what had come.
        NodeNotFound
            There is no ``node`` of that name.
        ConnectionLost
            The gateway was lost for good, or restarted during the run.
        KernelError
            It did not begin: ``no_executor``, ``not_executable``, ``conversation_busy``, ``conversation_unknown``.
        """
        __tracebackhide__ = True
        if not show:
            return self._chat_turn(prompt, node, conversation, on_accepted, attachments).run(on_event).check()
        from .turns.chat import show_accepted
        from .turns.live import live_view

        turn = self._chat_turn(prompt, node, conversation, on_accepted or show_accepted, attachments)
        turn.answer.shown()
        return turn.run(on_event, live_view(turn.answer)).check()

    async def achat(
        self,
        prompt: str,
        node: str | None = None,
        conversation: str | None = None,
        on_event: Callable[[Record], None] | None = None,
        attachments: Sequence[Any] = (),
    ) -> Answer:
        """Chat without blocking the event loop; as :meth:`chat`.

        ``on_event`` is called on the loop. Cancelling the task aborts the run.
        """
        __tracebackhide__ = True
        from .turns.running import on_thread

        turn = await on_thread(partial(self._chat_turn, prompt, node, conversation, None, attachments, shown=False))
        return (await turn.arun(on_event)).check()

    def _chat_turn(
        self,
        prompt: str,
        node: str | None,
        conversation: str | None,
        on_accepted: Callable[[Record], None] | None,
        attachments: Sequence[Any],
        *,
        shown: bool = True,
    ) -> ChatTurn:
        __tracebackhide__ = True
        from .turns.chat import ChatTurn

        body: Record = {"message": prompt}
        if node is not None:
            body["target_node_id"] = node
        if conversation is not None:
            body["session_id"] = self._conversation_id(conversation)
        origin = self._origin.current()
        if origin:
            body["origin"] = origin

        def send_files(stopped: Callable[[], bool]) -> list[Record]:
            return self._uploads.attachments(attachments, shown=shown, stopped=stopped)

        along = not isinstance(attachments, list | tuple) or len(attachments) > 0

        def begun(conversation_id: str) -> None:
            # Whatever becomes of the run: this is the conversation that `last` means from now on.
            if conversation_id:
                _last_conversations[self._rest.whose] = conversation_id

        turn = ChatTurn(self._chats, self._rest, body, on_accepted, begun, send_files if along else None)
        turn.asker = self._watch_run(lambda: turn.answer.run_id)
        return turn

    def _conversation_id(self, conversation: str) -> str:
        __tracebackhide__ = True
        if conversation == "last":
            return self._last()
        if conversation and _CONVERSATION_ID.fullmatch(conversation) is None:
            raise UsageError(
                f"'{one_line(conversation, 40)}' is no id of a conversation: these are 1 to 128 letters, digits and "
                "_ . : - without blanks.",
                hint="`%suzent conversations` lists them; leave --conversation out to begin one.",
            )
        return conversation

    def _last(self) -> str:
        __tracebackhide__ = True
        if known := _last_conversations.get(self._rest.whose):
            return known
        for item in self._conversations():
            if item.get("target_node_id"):
                return str(item["conversation_id"])
        raise UsageError("There is no conversation with a node yet.", hint="Leave --conversation out to begin one.")

    # -- conversations ----------------------------------------------------------------------------------------

    @property
    def conversations(self) -> pd.DataFrame:
        """What was said to this gateway and its nodes, newest first; see :func:`.frames.conversations`."""
        from . import frames

        return frames.conversations(self._conversations(), self._node_names())

    def conversation(self, conversation_id: str) -> Conversation:
        """Return a conversation with its messages; ``last`` is the one :meth:`chat` would go on with."""
        from .conversation import Conversation

        wanted = self._last() if conversation_id == "last" else conversation_id
        return Conversation(self._rest.get(f"/conversations/{segment(wanted)}"), self._node_names())

    def _conversations(self) -> list[Record]:
        items: list[Record] = self._rest.get("/conversations")["conversations"]
        return items

    def _node_names(self) -> dict[str, str]:
        """Return the names of the nodes by id, as far as they are known right now."""
        names: dict[str, str] = {}
        for kind, key in (("devices", "device_id"), ("nodes", "node_id")):
            try:
                items = self._rest.records(kind)
            except KernelError:  # somebody who is not the owner may not list the devices
                continue
            names |= {str(item.get(key)): str(item.get("display_name") or item.get("name") or "") for item in items}
        return names
