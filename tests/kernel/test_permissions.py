"""What waits for permission, as a frame and by its verbs: a real gateway, real nodes, a shell in this process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest
from support.gateways import ThreadedGateway
from support.waiting import wait_for

from suzent_jupyter.kernel import Gateway, KernelError, NotAllowed
from suzent_jupyter.kernel.errors import UsageError
from suzent_jupyter.kernel.permissions_frame import PermissionsFrame, permissions_frame

from .conftest import Phone, Shell
from .test_asking import ABLE, invoked

EVIL = "</pre><script>alert(1)</script>\x1b[31m\u202e"


@pytest.fixture
def door(gateway: ThreadedGateway, make_phone: Callable[..., Phone]) -> Phone:
    phone = make_phone(gateway, "Door", capabilities=ABLE)
    phone.answers["guarded"] = lambda params: {"opened": params}
    return phone.approve()


@pytest.fixture
def call(gateway: ThreadedGateway) -> Iterator[Callable[..., list[Any]]]:
    """Call the door on threads; the list gets what comes of each."""
    threads: list[threading.Thread] = []
    came: list[Any] = []
    with contextlib.ExitStack() as stack:

        def start(*calls: dict[str, Any]) -> list[Any]:
            caller = stack.enter_context(Gateway(gateway.url, gateway.token))

            def work(params: dict[str, Any]) -> None:
                try:
                    came.append(caller.invoke("Door", "guarded", params).data)
                except KernelError as error:
                    came.append(error.code)

            for params in calls:
                threads.append(threading.Thread(target=work, args=(params,)))
                threads[-1].start()
            wait_for(lambda: len(caller.waiting_permissions()) >= len(calls))
            return came

        yield start
        with Gateway(gateway.url, gateway.token) as operator:
            for prompt in operator.waiting_permissions():
                operator.answer(prompt["id"], "deny")
        for thread in threads:
            thread.join(20)


def test_nothing_waits(shell: Shell) -> None:
    waiting = shell.run("%suzent permissions")
    history = shell.run("%suzent permissions --history")
    assert isinstance(waiting, PermissionsFrame) and len(waiting) == 0
    assert waiting.dtypes.to_dict() == history.dtypes.to_dict()
    assert shell.formatted(waiting)["text/plain"].startswith("Nothing waits for your permission.")
    assert "Nothing was asked" in shell.formatted(history)["text/html"]


def test_what_waits_is_shown_whole_and_answered(
    shell: Shell, gw: Gateway, door: Phone, call: Callable[..., list[Any]]
) -> None:
    came = call({"key": EVIL, "long": "x" * 1500})
    (prompt,) = gw.waiting_permissions()
    wait_for(lambda: "Waiting for your permission: guarded." in repr(shell.run("%suzent")))
    assert "Next: %suzent permissions" in repr(shell.run("%suzent"))
    frame = shell.run("%suzent permissions")
    assert frame.index.tolist() == [prompt["id"]] and frame["node"].tolist() == ["Door"]
    assert str(frame["asked_at"].dtype) == str(frame["expires_at"].dtype) == "datetime64[us, UTC]"
    assert frame["relation"].dtype == "category" and frame["params_bytes"].dtype == "int64"
    assert frame["expires_at"].iloc[0] - frame["asked_at"].iloc[0] > pd.Timedelta(seconds=290)
    assert pd.isna(frame["decision"].iloc[0]) and pd.isna(frame["remember"].iloc[0])
    shown = shell.formatted(frame)
    assert "wants to run guarded on Door" in shown["text/plain"] and "x" * 1500 in shown["text/plain"]
    assert f"%suzent answer {prompt['id'][:6]} allow" in shown["text/plain"] and "Open the door." in shown["text/html"]
    assert not {"\x1b", "\u202e"} & set(shown["text/plain"] + shown["text/html"])
    assert "<script" not in shown["text/html"] and "&lt;script&gt;" in shown["text/html"]
    assert "\\u202e" in shown["text/plain"], "what can't be seen is shown by its number"
    assert type(frame[["node"]]) is pd.DataFrame

    assert [word for _, word in shell.complete("%suzent answer ")] == [prompt["id"]]
    assert [word for _, word in shell.complete(f"%suzent answer {prompt['id']} ")] == ["allow", "deny"]
    assert shell.complete(f"%suzent answer {prompt['id']} a") == [("a", "allow")]
    assert [word for _, word in shell.complete(f"%suzent answer {prompt['id']} allow ")] == ["--session"]
    assert shell.complete("%suzent permissions --h") == [("--h", "--history")]

    said = shell.run(f"%suzent answer {prompt['id'][:6].upper()} allow --session")
    assert str(said) == "guarded on Door: allowed, for the rest of its conversation."
    wait_for(lambda: came)
    assert came[0]["opened"]["key"] == EVIL and len(invoked(door)) == 1
    history = shell.run("%suzent permissions --history")
    assert history[["decision", "reason", "remember"]].iloc[0].tolist() == ["allow", "answered", "session"]
    assert "allow (answered by a notebook or a terminal of yours)" in shell.formatted(history)["text/plain"]
    assert prompt["id"] not in [word for _, word in shell.complete("%suzent answer ")]


def test_an_answer_that_does_not_count_is_one_line(
    shell: Shell, gw: Gateway, door: Phone, call: Callable[..., list[Any]]
) -> None:
    came = call({"n": 1}, {"n": 2})
    first, second = (prompt["id"] for prompt in gw.waiting_permissions())
    assert asyncio.run(gw.aanswer(first, "deny"))["decision"] == "deny"
    late = shell.fail(f"%suzent answer {first} allow")
    assert late.code == "permission_resolved" and "--history" in late.line and "deny" in late.line
    unknown = shell.fail("%suzent answer 123456 allow")
    assert unknown.code == "permission_unknown" and "%suzent permissions" in unknown.line
    for line, words in (
        (f"{second} perhaps", "Say allow or deny"),
        (second, "allow|deny"),
        (f"{second} allow now", "one word too many"),
        ('"" allow', "id of the prompt is missing"),
    ):
        wrong = shell.fail(f"%suzent answer {line}")
        assert isinstance(wrong, UsageError) and words in wrong.line
    with pytest.raises(UsageError, match="once or session"):
        gw.answer(second, "allow", remember="for ever")
    assert [prompt["id"] for prompt in gw.waiting_permissions()] == [second], "nothing of this answered it"
    gw.answer(second, "allow")
    wait_for(lambda: len(came) == 2)
    assert sorted(map(str, came)) == ["permission_denied", "{'opened': {'n': 2}}"]
    assert [line for line in shell.fail(f"%suzent answer {second} deny")._render_traceback_() if "\n" in line] == []


def test_a_beginning_that_several_have(gw: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting = [{"id": "abc1"}, {"id": "abc2"}, {"id": "abd"}]
    monkeypatch.setattr(Gateway, "waiting_permissions", lambda _: waiting)
    with pytest.raises(UsageError, match="abc1, abc2"):
        gw.answer("AB", "deny")
    with pytest.raises(UsageError, match="2 prompts begin"):
        gw.answer("abc", "deny")
    shown = repr(permissions_frame([{"id": "abcdefg1", "tool": "x"}, {"id": "abcdefg2", "tool": "y"}]))
    assert "answer abcdefg1 allow" in shown and "this gateway" in shown


def test_many(gw: Gateway, shell: Shell) -> None:
    items = [{"id": f"{n:024x}", "tool": "x", "summary": "none", "node_name": EVIL} for n in range(60)]
    shown = shell.formatted(permissions_frame(items))
    assert "… and 10 more." in shown["text/plain"] and "… and 10 more." in shown["text/html"]
    assert "<script" not in shown["text/html"] and "\x1b" not in shown["text/plain"]


def test_a_refusal_is_a_permission_error(gw: Gateway, door: Phone, call: Callable[..., list[Any]]) -> None:
    caught: list[Exception] = []

    def work() -> None:
        try:
            gw.invoke("Door", "guarded")
        except PermissionError as error:
            caught.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    (prompt,) = wait_for(gw.waiting_permissions)
    gw.answer(prompt["id"], "deny")
    thread.join(20)
    assert isinstance(caught[0], NotAllowed) and "run it again" in caught[0].line
