"""The floor of a run: a bare Tornado WebSocket that hands on each frame of ``/in`` to ``/out``. No checks, no logic.

Run as a process; prints its port.
"""

from __future__ import annotations

import asyncio

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application
from tornado.websocket import WebSocketHandler

readers: list[WebSocketHandler] = []


class Out(WebSocketHandler):
    def open(self) -> None:  # type: ignore[override]
        self.set_nodelay(True)
        readers.append(self)

    def on_message(self, message: str | bytes) -> None:  # type: ignore[override]
        pass


class In(WebSocketHandler):
    def open(self) -> None:  # type: ignore[override]
        self.set_nodelay(True)

    def on_message(self, message: str | bytes) -> None:  # type: ignore[override]
        readers[-1].write_message(message)


async def main() -> None:
    sockets = bind_sockets(0, "127.0.0.1")
    server = HTTPServer(Application([("/in", In), ("/out", Out)], log_function=lambda handler: None))
    server.add_sockets(sockets)
    print(sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
