"""The floor of a stream: a bare Tornado handler that writes ready-made events, one flush each. No checks, no logic.

Run as a process; prints its port. The body of a request is the number of events.
"""

from __future__ import annotations

import asyncio
import json

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from .talker import PIECE


class Talk(RequestHandler):
    async def post(self) -> None:
        event = {"type": "TEXT_MESSAGE_CONTENT", "messageId": "a" * 32, "delta": PIECE}
        piece = b"id: " + b"a" * 32 + b":1000\ndata: " + json.dumps(event).encode() + b"\n\n"
        self.set_header("Content-Type", "text/event-stream")
        for _ in range(int(self.request.body)):
            self.write(piece)
            await self.flush()
        self.finish()


async def main() -> None:
    sockets = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(Application([("/talk", Talk)], log_function=lambda handler: None))
    server.add_sockets(sockets)
    print(sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
