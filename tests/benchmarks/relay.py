"""The floor: a bare Tornado HTTP handler that forwards one JSON frame to a WebSocket and back. No checks, no logic.

Run as a process; prints its port.
"""

from __future__ import annotations

import asyncio
import json

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler
from tornado.websocket import WebSocketHandler

waiting: dict[str, asyncio.Future[str]] = {}
device: list[WebSocketHandler] = []


class Socket(WebSocketHandler):
    max_message_size = 2**26  # type: ignore[assignment]

    def open(self) -> None:  # type: ignore[override]
        self.set_nodelay(True)
        device.append(self)

    def on_message(self, message: str) -> None:  # type: ignore[override]
        start = message.index('"request_id":"') + 14
        waiting.pop(message[start : message.index('"', start)]).set_result(message)


class Invoke(RequestHandler):
    async def post(self) -> None:
        body = json.loads(self.request.body)
        request_id = str(id(self))
        waiting[request_id] = asyncio.get_running_loop().create_future()
        frame = {
            "type": "invoke",
            "request_id": request_id,
            "command": body["command"],
            "params": body["params"],
            "timeout": 30,
        }
        device[0].write_message(json.dumps(frame, separators=(",", ":")))
        answer = json.loads(await waiting[request_id])
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"success": answer["success"], "result": answer["result"], "error": None}))


async def main() -> None:
    sockets = bind_sockets(0, "127.0.0.1")
    application = Application([("/ws", Socket), ("/invoke", Invoke)], log_function=lambda handler: None)
    server = HTTPServer(application, max_body_size=2**26, max_buffer_size=2**27)
    server.add_sockets(sockets)
    print(sockets[0].getsockname()[1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
