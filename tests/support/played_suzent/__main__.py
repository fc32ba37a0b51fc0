"""The process: serves, and takes commands as lines of JSON: ``{"id", "do", …}`` in, ``{"id", "value"}`` out."""

from __future__ import annotations

import argparse
import json
import sys
import threading
import traceback
from http.server import ThreadingHTTPServer
from pathlib import Path

from driving import Driver
from routes import Handler
from world import World


class Server(ThreadingHTTPServer):
    """Ends with the process, whatever its connections do."""

    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that hangs up is no error."""


def main() -> None:
    """Run until standard input ends."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", default="suzent-box")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--state", type=Path)
    parser.add_argument("--remote", action="store_true")
    options = parser.parse_args()
    world = World(options.name, options.remote, options.state)
    server = Server(("127.0.0.1", options.port), type("Bound", (Handler,), {"world": world}))
    world.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    driver = Driver(world)
    out = threading.Lock()

    def say(value: object) -> None:
        with out:
            sys.stdout.write(json.dumps(value) + "\n")
            sys.stdout.flush()

    def work(line: str) -> None:
        values = json.loads(line)
        number, what = values.pop("id"), values.pop("do")
        try:
            say({"id": number, "value": driver.run(what, values)})
        except Exception:
            say({"id": number, "error": traceback.format_exc()})

    say({"port": world.port, "identity": world.identity})
    for line in sys.stdin:
        threading.Thread(target=work, args=(line,), daemon=True).start()


if __name__ == "__main__":
    main()
