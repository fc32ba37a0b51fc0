"""The gateway's side of chats as a test plays it, on the sockets of a :class:`PlayedGateway`."""

from __future__ import annotations

from typing import Any

from suzent_jupyter.protocol.errors import SuzentError

from .played_gateway import ClientSocket, PlayedGateway

Record = dict[str, Any]

WHY = {"tier": "bm25", "confidence": None, "reason": "It shares 'photo'.\x1b[31m"}
ROUTING = {
    "query": "x",
    "choice": {"node_id": "n-1", "display_name": "Lab PC", **WHY},
    "candidates": [{"node_id": "n-1", "display_name": "Lab PC", "bm25": 1.5, "matched_terms": ["photo"]}],
    "tiers": [{"tier": "bm25", "outcome": "chosen"}],
}


class Node:
    """Plays the gateway's side of chats: it accepts, and says the words of ``words``, then how it ended.

    ``cut_after``: the socket is closed once after so many events, which a later ``chat.watch`` asks for again.
    """

    def __init__(self, played: PlayedGateway, *words: str, end: Record | None = None) -> None:
        self.played = played
        self.events: list[Record] = [
            {"type": "RUN_STARTED", "threadId": "the node's own", "runId": "likewise"},
            *({"type": "TEXT_MESSAGE_CONTENT", "messageId": "m", "delta": word} for word in words),
        ]
        if end != {}:
            self.events.append(end or {"type": "RUN_FINISHED"})
        self.cut_after: int | None = None
        self.overlap = 0
        self.on_watch: SuzentError | None = None
        played.chat = self.play

    def play(self, socket: ClientSocket, frame: Record) -> None:
        match frame["type"]:
            case "chat.send":
                accepted = {"run_id": "r-1", "session_id": frame.get("session_id", "s-1"), "node_name": "Lab PC"}
                socket.say(
                    {
                        "type": "chat.accepted",
                        "id": frame["id"],
                        "node_id": "n-1",
                        **accepted,
                        **WHY,
                        "routing": ROUTING,
                    }
                )
                self.send(socket, 0)
            case "chat.watch" if self.on_watch is not None:
                body = self.on_watch.as_body()
                socket.say({"type": "error", "id": frame["id"], "message": body.pop("error"), **body})
            case "chat.watch":
                self.send(socket, max(0, frame["seq"] - self.overlap))
            case "chat.abort":
                error = {"type": "RUN_ERROR", "message": "It was stopped.", "code": "cancelled"}
                self.event(socket, len(self.events), error)

    def send(self, socket: ClientSocket, first: int) -> None:
        for seq in range(first, len(self.events)):
            if seq == self.cut_after:
                self.cut_after = None
                socket.close()
                return
            self.event(socket, seq, self.events[seq])
        self.played.waiting = True

    def event(self, socket: ClientSocket, seq: int, event: Record) -> None:
        socket.say({"type": "chat.event", "run_id": "r-1", "seq": seq, "event": event})


def sent(played: PlayedGateway, kind: str) -> list[Record]:
    return [frame for frame in played.chat_frames if frame["type"] == kind]
