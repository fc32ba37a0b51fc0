"""The part of a gateway's Python object that has to do with other gateways: control, prompts, their devices."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from ..protocol.errors import ERRORS
from . import wire
from .errors import KernelError, NodeNotFound, PeerUnknown, UsageError
from .finding import one_of
from .plain import one_line
from .rest import READ_TIMEOUT, Rest, segment
from .results import Result
from .values import prepare

if TYPE_CHECKING:
    import pandas as pd

    from .control import ControlRequest
    from .mirror import Mirror
    from .turns.answer import Answer
    from .turns.turn import Turn

Record = dict[str, Any]

_SLACK = 15.0  # s that a peer's answer may take beyond the call's own deadline


class Peering:
    """Peers and grants of a :class:`~.gateway.Gateway`."""

    _rest: Rest

    # -- lists ------------------------------------------------------------------------------------------------

    @property
    def peers(self) -> pd.DataFrame:
        """Gateways this one controls or is controlled by; see :func:`.frames.peers`."""
        return self.list_peers()

    def list_peers(self, refresh: bool = False) -> pd.DataFrame:
        """Return the peers as a frame; ``refresh`` asks each of them how it is right now.

        ``frame.attrs["requests"]`` holds our own requests for control that still wait.
        """
        from . import frames

        answer = self._rest.get("/nodes/peers", **({"refresh": 1} if refresh else {}))
        frame = frames.peers(answer.get("peers") or [])
        waiting = [item for item in answer.get("requests") or () if isinstance(item, dict)]
        shown = ("base_url", "status", "code", "expires_at")
        frame.attrs["requests"] = [{key: one_line(item.get(key), 400) for key in shown} for item in waiting]
        return frame

    @property
    def grants(self) -> pd.DataFrame:
        """Requests for control of this gateway that wait; see :func:`.frames.grants`."""
        from . import frames

        return frames.grants(self._rest.get("/nodes/grants")["grants"])

    @property
    def unauthorized(self) -> pd.DataFrame:
        """Refused attempts to drive this gateway's agent, newest first; see :func:`.frames.unauthorized`."""
        from . import frames

        return frames.unauthorized(self._rest.get("/nodes/unauthorized")["attempts"])

    def peer(self, name: str) -> Record:
        """Return the record of a peer by name, id, unique id prefix or address.

        Raises
        ------
        PeerUnknown, NodeAmbiguous
            None, or several.
        """
        found = _known(self._peers(), name)
        if found is None:
            raise PeerUnknown(f"There is no peer '{one_line(name, 64)}'.", hint=ERRORS["peer_unknown"].hint)
        return found

    def _peers(self) -> list[Record]:
        return self._rest.get("/nodes/peers").get("peers") or []

    def get(self, path: str, **query: Any) -> Any:
        """Return the JSON of one of the gateway's routes, such as ``/nodes/peers``."""
        return self._rest.get(path, **query)

    # -- control ----------------------------------------------------------------------------------------------

    def control(self, address: str, name: str | None = None) -> ControlRequest:
        """Ask another gateway, or a peer once more, for control of it.

        Parameters
        ----------
        address : str
            Its address or pairing link; or the name or id of a peer, such as one that revoked its grant.
        name : str, optional
            What to call it here.
        """
        from .control import ControlRequest, looks_like_address

        body: Record = {"base_url": address.strip()}
        if not looks_like_address(address):
            known = _known(self._peers(), address)
            if known is not None and known.get("base_url"):
                body["base_url"], name = known["base_url"], name or one_line(known.get("name"), 64)
        if name is not None:
            body["name"] = name
        answer = {"base_url": body["base_url"], **self._rest.post("/nodes/control", body)}
        return ControlRequest(self, answer, name)

    def set_mode(self, peer: str, mode: str) -> str:
        """Set whether we drive a peer: ``trigger``, ``paused`` or ``off``; returns the mode it has then."""
        answer = self._rest.post(f"{self._path(peer)}/mode", {"mode": mode})
        return one_line(answer.get("mode") or mode, 40)

    def set_reverse(self, peer: str, enabled: bool) -> bool:
        """Let a peer that we drive drive us too, or not any more; returns whether it may then."""
        answer = self._rest.post(f"{self._path(peer)}/reverse", {"enabled": enabled})
        return bool(answer.get("enabled", enabled))

    def remove_peer(self, peer: str) -> Record:
        """Sever both directions: we can't drive the peer any more, and it can't drive us."""
        answer: Record = self._rest.post(f"{self._path(peer)}/remove")
        return answer

    def _path(self, peer: str) -> str:
        return f"/nodes/peers/{segment(str(self.peer(peer)['peer_id']))}"

    # -- prompts ----------------------------------------------------------------------------------------------

    def trigger(
        self,
        peer: str,
        prompt: str,
        chat: str | None = None,
        files: Sequence[Any] = (),
        on_event: Callable[[Record], None] | None = None,
        show: bool = False,
    ) -> Answer:
        """Give a peer's agent a prompt and wait for its answer. Interrupting the cell stops the turn over there.

        Parameters
        ----------
        peer : str
            Name, id, or unique id prefix.
        prompt : str
            What to ask.
        chat : str, optional
            The name of a conversation to continue, or of a new one.
        files : sequence of path, optional
            Files of the gateway's machine to send along, 8 at most.
        on_event : callable, optional
            Called with each event (AG-UI, as a dict) on this thread. What it says is the peer's word.
        show : bool
            Show the answer as it comes in, as the magic does.

        Returns
        -------
        Answer
            With ``text``, ``events``, ``tools``, ``files``.

        Raises
        ------
        TurnFailed
            The turn ended in an error; ``answer`` holds what had come.
        ConnectionLost
            Our own gateway was lost for good; the turn goes on without us.
        KernelError
            It did not begin: ``peer_unknown``, ``peer_off``, ``peer_revoked``, ``peer_unreachable``.
        """
        __tracebackhide__ = True
        turn = self._turn(peer, prompt, chat, files)
        if not show:
            return turn.run(on_event).check()
        from .turns.live import live_view

        turn.answer.shown()
        return turn.run(on_event, live_view(turn.answer)).check()

    async def atrigger(
        self,
        peer: str,
        prompt: str,
        chat: str | None = None,
        files: Sequence[Any] = (),
        on_event: Callable[[Record], None] | None = None,
    ) -> Answer:
        """Give a peer's agent a prompt without blocking the event loop; as :meth:`trigger`.

        ``on_event`` is called on the loop. Cancelling the task stops the turn.
        """
        __tracebackhide__ = True
        from .turns.running import on_thread

        turn = await on_thread(partial(self._turn, peer, prompt, chat, files))
        return (await turn.arun(on_event)).check()

    def _turn(self, peer: str, prompt: str, chat: str | None, files: Sequence[Any]) -> Turn:
        from .turns.turn import Turn

        # A list that is at hand saves a question before the prompt; what it lacks is asked for.
        mirror: Mirror | None = self.__dict__.get("_mirror")
        known = _known(mirror.items("peers") if mirror is not None and mirror.is_live else [], peer)
        return Turn(self._rest, known or self.peer(peer), prompt, chat, files)

    # -- a peer's devices -------------------------------------------------------------------------------------

    def invoke_peer(
        self, peer: str, command: str, params: Record | None = None, *, node: str | None = None,
        timeout: float | None = None,
    ) -> Result:  # fmt: skip
        """Call a command of a device that joined a peer; ``node`` chooses among several."""
        return self._invoke_peer(self.peer(peer), node, command, params, timeout)

    def _invoke_elsewhere(
        self, missing: NodeNotFound, name: str, command: str, params: Record | None, timeout: float | None, key: Any
    ) -> Result:
        """Call a peer's device, since none of ours is called ``name``: ``PEER`` or ``PEER/NODE``."""
        try:
            peers = self._peers()
        except KernelError:
            raise missing from None
        peer, node = _known(peers, name), None
        if peer is None and "/" in name:
            first, _, rest = name.partition("/")
            peer, node = _known(peers, first), rest.strip() or None
        if peer is None:
            raise NodeNotFound(
                f"{missing.message.rstrip('.')}, nor is there a peer of that name.",
                hint="`%suzent list` shows the nodes, `%suzent peers` the peers.",
                status=missing.status,
                details=missing.details,
            ) from None
        if key is not None:
            raise UsageError("A call of a peer's device takes no key.", hint="Leave --key out.") from None
        return self._invoke_peer(peer, node, command, params, timeout)

    def _invoke_peer(
        self, peer: Record, node: str | None, command: str, params: Record | None, timeout: float | None
    ) -> Result:
        from .turns.remote_file import find_files

        started = time.perf_counter()
        peer_id = str(peer["peer_id"])
        body: Record = {"command": command, "params": prepare(params)}
        if timeout is not None:
            body["timeout"] = timeout
        if node is not None:
            body["node"] = node
        wait = READ_TIMEOUT if timeout is None else timeout
        answer = self._rest.post(f"/nodes/peers/{segment(peer_id)}/invoke", body, timeout=wait + _SLACK)
        frame = wire.Incoming(
            success=answer.get("success") is True,
            result=wire.Raw(wire.encode(answer.get("result"))),
            error=answer.get("error"),
        )
        name = one_line(peer.get("name"), 64) + (f"/{one_line(node, 64)}" if node else "")
        return Result(
            frame, name, command, time.perf_counter() - started,
            lambda value: find_files(value, peer_id, self._rest.download),
        )  # fmt: skip


def _known(peers: list[Record], name: str) -> Record | None:
    return one_of(peers, name, key="peer_id", label="name", what="peer")
