"""What a node of ``/ws/gateway`` may ask of others."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any

from ...protocol.errors import SuzentError
from ...protocol.memory import Level
from ...protocol.permissions import PermissionSummary
from ...protocol.wire import encode
from ..connection import Connection
from ..current import current_work
from ..results import to_wire
from .connection import MultinodeConnection
from .requests import OnProgress

_PARAMS_BYTES = 16_384  # of parameters, what is shown; their hash is of all


class Asking:
    """The part of a host that calls; the rest of it is called."""

    protocol: str
    name: str
    _loop: asyncio.AbstractEventLoop | None
    _connection: Connection | None

    async def ainvoke(
        self,
        node: str,
        command: str,
        params: dict[str, Any] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109 - the gateway keeps it
        on_progress: OnProgress | None = None,
    ) -> Any:
        """Call a command of another node and return its result; needs ``protocol="multinode"``.

        Inside an agent's turn the call belongs to that turn: it has the rights of whoever asked, no more, and ends with
        it. May be awaited on any event loop.

        Parameters
        ----------
        node : str
            Its id or name.
        command : str
            Such as ``camera.snap``.
        params : dict, optional
            As a result may be.
        timeout : float, optional
            Seconds; 30 otherwise.
        on_progress : callable, optional
            Called with fraction, message and data, each of which may be None, on the host's event loop.

        Raises
        ------
        SuzentError
            ``node_disconnected`` while there is no connection, and whatever the gateway or the node answers, such as
            ``node_not_found`` or ``permission_needed``.
        ResultError
            When ``params`` has no JSON form.
        RuntimeError
            With ``protocol="device"``, whose nodes are called and don't call.
        """
        what = {"command": command, "params": to_wire(params or {})}
        return await self._ask(lambda connection, run: connection.invoke(node, what, timeout, run, on_progress))

    async def ask(self, node: str, prompt: str, *, timeout: float | None = None) -> Any:  # noqa: ASYNC109
        """Let another node's agent answer a prompt, and return what it says; raises as :meth:`ainvoke`.

        ``dispatch_too_deep`` and ``dispatch_cycle`` say that agents already ask each other too far, or in a circle.
        """
        what = {"agent": prompt}
        return await self._ask(lambda connection, run: connection.invoke(node, what, timeout, run, None))

    async def permit(
        self, tool: str, params: dict[str, Any] | None = None, *, description: str = "", files: Sequence[Path] = ()
    ) -> None:
        """Return once somebody allowed what an agent of this node is about to do with a tool of its own.

        Who is asked depends on who asks: the person at this device (``on_permission``), and where its own account asks
        the notebook or browser that did. Do then exactly what was shown.

        Parameters
        ----------
        tool : str
            Such as ``write_file``.
        params : dict, optional
            With what; shown whole as JSON up to some thousand characters.
        description : str
            What it does, in one sentence.
        files : sequence of Path
            Files it sends along; their names and sizes are shown.

        Raises
        ------
        SuzentError
            ``permission_denied``, ``permission_expired`` (no answer), ``permission_needed`` (nobody can be asked),
            ``node_disconnected``.
        """
        encoded = encode(to_wire(params or {}))
        summary = PermissionSummary(
            command=tool,
            description=description,
            params=encoded[:_PARAMS_BYTES].decode(errors="ignore"),
            params_bytes=len(encoded),
            files=await asyncio.to_thread(lambda: [_facts(path) for path in files]),
            sha256=hashlib.sha256(encoded).hexdigest(),
        )
        await self._ask(lambda connection, run: connection.permit(tool, summary, run))

    async def nodes(self) -> list[dict[str, Any]]:
        """Return the connected nodes this one may see, as ``GET /nodes`` shows them; raises as :meth:`ainvoke`."""
        found: list[dict[str, Any]] = await self._ask(lambda connection, _: connection.nodes())
        return found

    async def amemory_query(
        self, query: str = "", *, level: Level | None = None, limit: int | None = None
    ) -> list[dict[str, Any]]:
        """Look for what was kept, best first; without words, what was kept last. Raises as :meth:`ainvoke`.

        Inside an agent's turn it is what that turn reaches: its conversation's, the organisation's, and the account's
        own unless somebody of another account asks. Outside of one it is the account's and the organisation's.

        Parameters
        ----------
        query : str
            Words to look for.
        level : str, optional
            ``account``, ``enterprise`` or ``session`` alone.
        limit : int, optional
            Entries at most; 20 otherwise.

        Returns
        -------
        list of dict
            The fields of :class:`~suzent_jupyter.protocol.memory.MemoryEntry`. What they hold is data.
        """
        frame: dict[str, Any] = {"type": "memory.query", "query": query, "limit": limit, "level": level}
        answer = await self._ask(lambda connection, run: connection.remember(frame, run))
        return _entries(answer)

    async def amemory_save(self, content: str, *, level: Level | None = None, tags: Sequence[str] = ()) -> str:
        """Keep a text for later and return its id, once it is on disk; raises as :meth:`ainvoke`.

        Parameters
        ----------
        content : str
            What to keep, understandable by itself.
        level : str, optional
            ``session`` (the turn's conversation; so inside a turn otherwise), ``account`` (so outside of one) or
            ``enterprise``. ``permission_needed`` says that the turn does not reach it.
        tags : sequence of str
            Words it shall be found by as well.
        """
        frame: dict[str, Any] = {"type": "memory.save", "content": content, "tags": list(tags)}

        def ask(connection: MultinodeConnection, run: str) -> Coroutine[Any, Any, Any]:
            return connection.remember({**frame, "level": level or ("session" if run else "account")}, run)

        entries = _entries(await self._ask(ask))
        return str(entries[0].get("memory_id")) if entries else ""

    async def _ask(self, asking: Callable[[MultinodeConnection, str], Coroutine[Any, Any, Any]]) -> Any:
        """Ask something over the current connection, on the host's own loop, on behalf of the current run."""
        if self.protocol != "multinode":
            raise RuntimeError('Nodes of /ws/node are called and don\'t call: use NodeHost(protocol="multinode").')
        work, loop, connection = current_work.get(), self._loop, self._connection
        if loop is None or not isinstance(connection, MultinodeConnection):
            raise SuzentError("node_disconnected", f"Node '{self.name}' is not connected.")
        asked = asking(connection, work.run_id if work is not None and work.host is self else "")
        if loop is asyncio.get_running_loop():
            return await asked
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(asked, loop))


def _facts(path: Path) -> dict[str, Any]:
    return {"name": path.name, "size": path.stat().st_size}


def _entries(answer: dict[str, Any]) -> list[dict[str, Any]]:
    found = answer.get("memories")
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
