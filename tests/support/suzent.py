"""A server that speaks what Suzent's gateway speaks and nothing else, on the event loop of the test."""

from __future__ import annotations

import asyncio
import itertools
import json
from typing import Any

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed


class SuzentServer:
    """Use as ``async with SuzentServer() as server``; a device is let in by :meth:`approve` and then by its token.

    Attributes
    ----------
    hello : list of dict
        Every connect frame.
    codes : list of str
        Every pairing code that was shown.
    """

    def __init__(self, port: int = 0) -> None:
        self._port = port
        self.hello: list[dict[str, Any]] = []
        self.codes: list[str] = []
        self.tokens: dict[str, str] = {}
        self.sockets: dict[str, ServerConnection] = {}
        self._decisions: dict[str, asyncio.Future[bool]] = {}
        self._answers: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._numbers = itertools.count()
        self._server: Server

    async def __aenter__(self) -> SuzentServer:
        self._server = await serve(self._visit, "127.0.0.1", self._port, compression=None, close_timeout=1)
        self._port = next(iter(self._server.sockets)).getsockname()[1]
        return self

    async def __aexit__(self, *_: Any) -> None:
        self._server.close()
        await self._server.wait_closed()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._port}/ws/node"

    def decide(self, code: str, approved: bool = True) -> None:
        self._decisions[code].set_result(approved)

    async def invoke(self, node_id: str, command: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        request_id = f"r{next(self._numbers)}"
        answer = self._answers[request_id] = asyncio.get_running_loop().create_future()
        frame = {"type": "invoke", "request_id": request_id, "command": command, "params": params or {}}
        await self.sockets[node_id].send(json.dumps(frame))
        return await asyncio.wait_for(answer, 10)

    async def _visit(self, socket: ServerConnection) -> None:
        node_id = ""
        try:
            hello = json.loads(await socket.recv())
            self.hello.append(hello)
            token = hello.get("device_token", "")
            node_id, fresh = self.tokens.get(token, ""), ""
            if not node_id:
                code = f"CODE{next(self._numbers)}"
                self._decisions[code] = asyncio.get_running_loop().create_future()
                self.codes.append(code)
                await socket.send(json.dumps({"type": "pending", "pairing_code": code, "message": "Wait."}))
                if not await self._decisions[code]:
                    await socket.send(json.dumps({"type": "error", "message": "Denied by operator"}))
                    await socket.close(1008)
                    return
                node_id, fresh = f"node-{code}", f"token-{code}"
                self.tokens[fresh] = node_id
            self.sockets[node_id] = socket
            await socket.send(json.dumps({"type": "connected", "node_id": node_id, "device_token": fresh}))
            async for text in socket:
                frame = json.loads(text)
                if frame.get("type") == "result":
                    self._answers.pop(frame["request_id"]).set_result(frame)
        except ConnectionClosed:
            pass
        finally:
            if self.sockets.get(node_id) is socket:
                del self.sockets[node_id]
