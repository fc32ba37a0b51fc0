"""The extra stays an extra: what loads when, what is said where it is missing, and whom the libraries call."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.model_server import ModelServer

TESTS = Path(__file__).parent.parent


def script(text: str) -> Any:
    """Run a script in a process of its own; return the JSON it prints last."""
    path = f"import sys; sys.path.insert(0, {str(TESTS)!r})\n"
    done = subprocess.run([sys.executable, "-c", path + text], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_nothing_loads_before_the_first_turn() -> None:
    loaded = script(
        """
import json
import suzent_jupyter.gateway.gateway, suzent_jupyter.gateway.answering.workbench, suzent_jupyter.server.contents
from suzent_jupyter.agent.model import make_model_agent
from suzent_jupyter.agent.tools import Workbench
from suzent_jupyter.protocol.limits import Limits
make_model_agent("openai:some", Workbench(), Limits())
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
    )
    assert not set(loaded) & {"pydantic_ai", "openai", "httpx2", "ag_ui", "genai_prices", "jupyter_server", "tornado"}


def test_without_the_extra_there_is_no_agent() -> None:
    error = script(
        """
import asyncio, json
sys.modules["pydantic_ai"] = None
from support.model_turns import told
print(json.dumps(asyncio.run(told("openai:some")).error.as_body()))
"""
    )
    assert error["code"] == "no_agent" and "pip install 'suzent-jupyter[agent]'" in error["hint"]


def test_a_provider_whose_package_is_missing_is_named() -> None:
    error = script(
        """
import asyncio, json
sys.modules["anthropic"] = None
from support.model_turns import told
print(json.dumps(asyncio.run(told("anthropic:some")).error.as_body()))
"""
    )
    assert error["code"] == "model_failed" and "anthropic" in error["error"]


def test_the_libraries_call_nobody_else(model_server: ModelServer) -> None:
    found = script(
        """
import asyncio, json, os
called = []
def note(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        called.append(str(arguments[1]))
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        called.append(str(arguments[0]))
sys.addaudithook(note)
from support.model_turns import calling, told
answer = asyncio.run(told(calling("no_such_tool", {})))
print(json.dumps({"called": called, "error": answer.error and answer.error.message, "text": answer.text}))
"""
    )
    assert found["error"] is None and "no_such_tool" in found["text"]
    assert found["called"] and all("127.0.0.1" in address for address in found["called"])
