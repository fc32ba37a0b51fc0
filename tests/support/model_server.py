"""A local OpenAI-compatible server, as a process: chat completions, scripted by the model's name.

It answers over SSE, and with plain JSON where the request does not ask for a stream.
``python model_server.py LOG`` listens on a free port of 127.0.0.1, prints it, and writes every request it gets to LOG
as a line of JSON. A model is named ``scenario`` or ``scenario;key=value;…``; see :data:`SCENARIOS`.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__)


class Exchange:
    """One request, and the way to answer it."""

    def __init__(self, writer: asyncio.StreamWriter, body: dict[str, Any], options: dict[str, str], nth: int) -> None:
        self.writer = writer
        self.body = body
        self.options = options
        self.nth = nth  # how often this model was asked before

    @property
    def tool_results(self) -> list[dict[str, Any]]:
        return [message for message in self.body["messages"] if message["role"] == "tool"]

    async def head(self, status: int, kind: str = "text/event-stream", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Told", f"Content-Type: {kind}", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
        await self.writer.drain()

    async def start(self) -> None:
        await self.head(200, Transfer_Encoding="chunked")

    async def raw(self, text: str) -> None:
        data = text.encode()
        self.writer.write(b"%x\r\n%s\r\n" % (len(data), data))
        await self.writer.drain()

    async def chunk(self, delta: dict[str, Any] | None = None, finish: str | None = None, usage: int = 0) -> None:
        chunk: dict[str, Any] = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": self.body["model"],
            "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}],
        }
        if usage:
            chunk["choices"] = []
            chunk["usage"] = {"prompt_tokens": usage, "completion_tokens": 1, "total_tokens": usage + 1}
        await self.raw(f"data: {json.dumps(chunk)}\n\n")

    async def end(self) -> None:
        self.writer.write(b"0\r\n\r\n")
        await self.writer.drain()

    async def text(self, *parts: str, usage: int = 10) -> None:
        if not self.body.get("stream"):
            await self.whole("".join(parts), usage)
            return
        await self.start()
        await self.chunk({"role": "assistant", "content": ""})
        for part in parts:
            await self.chunk({"content": part})
        await self.chunk(finish="stop")
        await self.chunk(usage=usage)
        await self.raw("data: [DONE]\n\n")
        await self.end()

    async def whole(self, text: str, usage: int = 10) -> None:
        """Answer at once, with a ``chat.completion``."""
        await self.json(
            {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "created": 1,
                "model": self.body["model"],
                "choices": [
                    {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"},
                ],
                "usage": {"prompt_tokens": usage, "completion_tokens": 1, "total_tokens": usage + 1},
            }
        )

    async def json(self, value: Any) -> None:
        body = json.dumps(value).encode()
        await self.head(200, "application/json", Content_Length=str(len(body)))
        self.writer.write(body)
        await self.writer.drain()

    async def call(self, name: str, arguments: str, usage: int = 10, text: str = "") -> None:
        await self.start()
        await self.chunk({"role": "assistant", "content": text or None})
        known = self.options.get("id", f"call_{self.nth}")
        call = {"index": 0, "id": known or None, "type": "function", "function": {"name": name, "arguments": ""}}
        await self.chunk({"tool_calls": [call]})
        for at in range(0, len(arguments), 1 + len(arguments) // 3):
            piece = arguments[at : at + 1 + len(arguments) // 3]
            await self.chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]})
        await self.chunk(finish="tool_calls")
        await self.chunk(usage=usage)
        await self.raw("data: [DONE]\n\n")
        await self.end()

    async def error(self, status: int, message: str, **headers: str) -> None:
        body = json.dumps({"error": {"message": message, "type": "error", "code": None}})
        await self.head(status, "application/json", Content_Length=str(len(body)), **headers)
        self.writer.write(body.encode())
        await self.writer.drain()


async def hello(x: Exchange) -> None:
    await x.text("Hel", "lo ", "you.", usage=int(x.options.get("usage", "10")))


async def echo(x: Exchange) -> None:
    """Say what was asked last, as it came over the wire."""
    await x.text(json.dumps(x.body["messages"][-1]["content"]))


async def tool(x: Exchange) -> None:
    """Call a tool once (``name``, ``args``), then say what came back."""
    if x.tool_results:
        await x.text("It said: ", str(x.tool_results[-1]["content"]))
    else:
        await x.call(x.options["name"], bytes.fromhex(x.options["args"]).decode(), text=x.options.get("say", ""))


async def loop(x: Exchange) -> None:
    """Call a tool, again and again."""
    await x.call(x.options["name"], bytes.fromhex(x.options["args"]).decode(), usage=int(x.options.get("usage", "1")))


async def huge(x: Exchange) -> None:
    if x.tool_results:
        await x.text("It said: ", str(x.tool_results[-1]["content"]))
    else:
        params = {"text": "x" * int(x.options["size"])}
        await x.call("invoke_node", json.dumps({"node": "MyPhone", "command": "echo", "params": params}))


async def reasoning(x: Exchange) -> None:
    await x.start()
    await x.chunk({"role": "assistant", "reasoning_content": "Let me "})
    await x.chunk({"reasoning_content": "think."})
    await x.chunk({"content": "Done."})
    await x.chunk(finish="stop")
    await x.raw("data: [DONE]\n\n")
    await x.end()


async def busy(x: Exchange) -> None:
    """Answer 429 ``times`` times, with Retry-After ``after``."""
    if x.nth < int(x.options.get("times", "1")):
        headers = {"Retry_After": x.options["after"]} if "after" in x.options else {}
        await x.error(int(x.options.get("status", "429")), "Slow down, sk-abcdefghij1234567890.", **headers)
    else:
        await x.text("At last.")


async def answer(x: Exchange) -> None:
    """Say ``text`` (hex), whatever was asked."""
    await x.text(bytes.fromhex(x.options["text"]).decode())


def _offered(x: Exchange) -> list[dict[str, Any]]:
    """Return the nodes that a question offers."""
    return list(json.loads(x.body["messages"][-1]["content"])["nodes"])


async def choose(x: Exchange) -> None:
    """Choose the node called ``name``; ``confidence`` and ``label`` as JSON replace what belongs there.

    ``after``: seconds it takes.
    """
    await asyncio.sleep(float(x.options.get("after", "0")))
    labels = [node["label"] for node in _offered(x) if node.get("name") == x.options["name"]]
    label = json.loads(bytes.fromhex(x.options["label"])) if "label" in x.options else labels[0]
    confidence = json.loads(x.options.get("confidence", "0.9"))
    await x.text(json.dumps({"nodeId": label, "confidence": confidence, "reason": f"{x.options['name']} suits it"}))


_ORDER = re.compile(r"(?:choose|select|take|pick) (?:me|us|(?:only )?([A-Z]\w+))|ignore your")


async def obey(x: Exchange) -> None:
    """Choose as any text says that stands outside of the JSON; with ``data`` also what stands inside."""
    nodes = _offered(x)
    outside = [message["content"] for message in x.body["messages"][:-1]]
    told = [match[1] for text in outside if (match := _ORDER.search(text))]
    if "data" in x.options:
        told += [node.get("name") for node in nodes if _ORDER.search(json.dumps(node))]
        told += [match[1] for match in _ORDER.finditer(x.body["messages"][-1]["content"])]
    found = [node for node in nodes if node.get("name") in told] or (nodes if told else [])
    if found:
        await x.text(json.dumps({"nodeId": found[0]["label"], "confidence": 1.0, "reason": "I was told to"}))
    else:
        await x.text(json.dumps({"nodeId": nodes[0]["label"], "confidence": 0.1, "reason": "nobody told me"}))


async def refuse(x: Exchange) -> None:
    await x.error(int(x.options["status"]), "No, key sk-abcdefghij1234567890 at http://ada:hunter22@host/ is bad.")


async def moved(x: Exchange) -> None:
    await x.error(307, "Over there.", Location=x.options["to"])


async def malformed(x: Exchange) -> None:
    await x.start()
    await x.chunk({"role": "assistant", "content": "Half an "})
    await x.raw("data: {not json\n\n")
    await x.end()


async def html(x: Exchange) -> None:
    await x.head(200, "text/html")
    x.writer.write(b"<html><body>Welcome!</body></html>")
    await x.writer.drain()


async def cut(x: Exchange) -> None:
    """Hang up in the middle of a chunk."""
    await x.start()
    await x.chunk({"role": "assistant", "content": "Half an "})
    await x.chunk({"content": "answer"})
    x.writer.write(b"ff\r\ndata: {")
    await x.writer.drain()


async def unfinished(x: Exchange) -> None:
    """End the body properly, but the answer without a finish reason."""
    await x.start()
    await x.chunk({"role": "assistant", "content": "Half an answer"})
    await x.end()


async def stream_error(x: Exchange) -> None:
    await x.start()
    await x.chunk({"role": "assistant", "content": "Half an "})
    await x.raw('data: {"error": {"message": "The engine died.", "type": "server_error", "code": 500}}\n\n')
    await x.end()


async def hang(x: Exchange) -> None:
    """Say one word (or none), then nothing until the caller hangs up."""
    if "silent" not in x.options:
        await x.start()
        await x.chunk({"role": "assistant", "content": "Wait "})
    await asyncio.sleep(60)


SCENARIOS: dict[str, Callable[[Exchange], Awaitable[None]]] = {
    scenario.__name__: scenario
    for scenario in (
        hello, echo, tool, loop, huge, reasoning, busy, refuse, moved, malformed, html, cut, unfinished, stream_error,
        hang, answer, choose, obey,
    )
}  # fmt: skip


async def serve(log: Path) -> None:
    asked: dict[str, int] = {}

    def note(**facts: Any) -> None:
        with log.open("a") as file:
            file.write(json.dumps(facts) + "\n")

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            request, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            content = await reader.readexactly(int(headers.get("content-length", "0")))
            note(request=request, headers=headers, body=content.decode())
            body = json.loads(content)
            if " /v1/chat/completions " not in request:
                await Exchange(writer, body, {}, 0).error(404, "There is nothing here.")
                return
            scenario, *options = body["model"].split(";")
            nth = asked[body["model"]] = asked.get(body["model"], -1) + 1
            exchange = Exchange(writer, body, dict(option.split("=", 1) for option in options), nth)
            gone = asyncio.create_task(reader.read())
            work = SCENARIOS.get(scenario, lambda x: x.error(404, "No such model."))
            answering = asyncio.ensure_future(work(exchange))
            await asyncio.wait({gone, answering}, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                note(hung_up=body["model"])
            for task in (gone, answering):
                task.cancel()
            await asyncio.gather(gone, answering, return_exceptions=True)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=64 * 1024 * 1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class ModelServer:
    """The server as a process of its own. Use as a context manager."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "model-requests.jsonl"
        self.process = subprocess.Popen([sys.executable, HERE, self.log], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.url = f"http://127.0.0.1:{int(self.process.stdout.readline())}/v1"

    def notes(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def requests(self) -> list[dict[str, Any]]:
        return [note for note in self.notes() if "request" in note]

    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(note["body"]) for note in self.requests()]

    def clear(self) -> None:
        self.log.unlink(missing_ok=True)

    def __enter__(self) -> ModelServer:
        return self

    def __exit__(self, *_: Any) -> None:
        self.process.kill()
        self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
