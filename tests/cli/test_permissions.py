"""Permission prompts from a terminal, as people and scripts run it."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from typing import Any

from support.gateways import ThreadedGateway
from support.waiting import wait_for

from suzent_jupyter.kernel import Gateway, KernelError

from ..kernel.conftest import Phone, make_phone

__all__ = ["make_phone"]

Run = Callable[..., subprocess.CompletedProcess[str]]
EVIL = "back\x1b[31m\u202e door"


def test_prompts_are_shown_and_answered(run: Run, gateway: ThreadedGateway, make_phone: Callable[..., Phone]) -> None:
    door = make_phone(gateway, "Door", capabilities=[{"name": "guarded", "requires_permission": True}])
    door.answers["guarded"] = lambda params: params
    door.approve()
    assert run("permissions").stdout == "Nothing waits for your permission.\n"
    assert "Nothing was asked" in run("permissions", "--history").stdout

    came: list[Any] = []
    with Gateway(gateway.url, gateway.token) as caller:

        def call(n: int) -> threading.Thread:
            def work() -> None:
                try:
                    came.append(caller.invoke("Door", "guarded", {"n": n, "key": EVIL}).data["n"])
                except KernelError as error:
                    came.append(error.code)

            thread = threading.Thread(target=work)
            thread.start()
            return thread

        thread = call(1)
        (prompt,) = wait_for(caller.waiting_permissions)
        code = prompt["id"][:6]
        shown = run("permissions").stdout
        assert f"[{code}] Permission needed until" in shown and "wants to run guarded on Door." in shown
        assert "\\u202e door" in shown and f"jupyter suzent answer {code} allow" in shown
        assert json.loads(run("permissions", "--json").stdout)["permissions"] == [prompt]
        assert "Say allow or deny" in run("answer", code, "perhaps", status=2).stderr
        refused = run("answer", "abcdef" if code != "abcdef" else "fedcba", "allow", status=1).stderr
        assert "jupyter suzent permissions" in refused and "%" not in refused
        assert run("answer", code, "deny").stdout == "guarded on Door: not allowed.\n"
        thread.join(20)
        assert came == ["permission_denied"]
        late = run("answer", prompt["id"], "allow", status=1).stderr
        assert "answered already" in late and "jupyter suzent permissions --history" in late

        thread = call(2)
        (prompt,) = wait_for(caller.waiting_permissions)
        answer = json.loads(run("answer", prompt["id"], "allow", "--session", "--json").stdout)
        assert (answer["decision"], answer["remember"]) == ("allow", "session")
        thread.join(20)
        call(3).join(20)
        assert came[1:] == [2, 3]

    table = run("permissions", "--history").stdout
    assert "DECISION" in table and table.count("guarded") == 3 and "remembered" in table
    history = json.loads(run("permissions", "--history", "--json").stdout)["permissions"]
    assert [each["reason"] for each in history] == ["remembered", "answered", "answered"]
