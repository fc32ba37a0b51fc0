"""``%suzent`` in a real shell."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from support.gateways import ThreadedGateway
from support.waiting import wait_for

from suzent_jupyter.kernel import CapabilityFailed, KernelError, NodeNotFound, NoGateway, Result, UnknownCommand
from suzent_jupyter.kernel.errors import InvalidParams, UsageError
from suzent_jupyter.kernel.magics import keep_question_marks
from suzent_jupyter.kernel.verbs import all_verbs

from .conftest import Phone, Shell


def test_the_first_minutes(shell: Shell, gateway: ThreadedGateway, make_phone: Callable[..., Phone]) -> None:
    assert "jupyter suzent node host" in repr(shell.run("%suzent"))
    assert shell.run("%suzent list").empty
    phone = make_phone(gateway)
    code = phone.code()
    assert f"%suzent approve {code}" in repr(shell.run("%suzent"))
    assert list(shell.run("%suzent pending").index) == [code]
    assert "MyPhone" in repr(shell.run(f"%suzent approve  {code.lower()} "))
    phone.run(phone.device.joined())
    phone.serve()
    assert "%suzent describe MyPhone" in repr(shell.run("%suzent status"))
    assert "camera.snap" in repr(shell.run("%suzent describe MyPhone"))
    photo = shell.run("photo = %suzent invoke MyPhone camera.snap format=png\nphoto")
    assert isinstance(photo, Result)
    assert photo.image.size == (1, 1)
    assert {"image/png", "text/plain"} == set(shell.formatted(photo))
    assert list(shell.run("%suzent devices").index) == ["MyPhone"]
    assert shell.run("%suzent audit 2").shape[0] == 2
    assert "Paused" in repr(shell.run("%suzent pause MyPhone"))
    assert shell.fail("%suzent invoke MyPhone echo").code == "paused"
    shell.run("%suzent resume MyPhone")
    shell.run("%suzent invoke MyPhone echo")
    shell.run("%suzent revoke MyPhone")
    assert shell.run("%suzent devices").empty


def test_parameters(shell: Shell, phone: Phone) -> None:
    def echo(rest: str) -> Any:
        return shell.run(f"%suzent invoke MyPhone echo {rest}").data

    assert echo('a=5 b=true c=None d={"x": {"y": [1, 2]}} e="two words" f=1e3 g=plain') == {
        "a": 5, "b": True, "c": None, "d": {"x": {"y": [1, 2]}}, "e": "two words", "f": 1000.0, "g": "plain",
    }  # fmt: skip
    assert echo('--params {"a": {"b": 1}} c=2 --timeout 5') == {"a": {"b": 1}, "c": 2}
    assert echo("text=really?") == {"text": "really?"}
    shell.run("import pandas as pd, pathlib\nframe = pd.DataFrame({'a': [1]})\nraw = b'xyz'\nwhere = pathlib.Path('a')")
    assert echo("f=$frame w=$where") == {"f": [{"a": 1}], "w": "a"}
    assert echo("r=$raw")["r"].data == b"xyz"
    assert echo("r='$raw'") == {"r": "$raw"}
    body = shell.run('%%suzent invoke MyPhone echo\n{"a": {"b": "{c}"}, "q": "why?"}').data
    assert body == {"a": {"b": "{c}"}, "q": "why?"}
    assert shell.run("%%suzent invoke MyPhone echo z=1\na: 1\nb:\n  - x").data == {"a": 1, "b": ["x"], "z": 1}


@pytest.mark.parametrize(
    ("line", "kind", "says"),
    [
        ("%suzent aprove X", UsageError, "%suzent approve"),
        ("%suzent teleport x", UsageError, "not a verb"),
        ("%suzent describe", UsageError, "needs NODE"),
        ("%suzent describe nobody", NodeNotFound, "%suzent list"),
        ("%suzent describe Lab PC", UsageError, "Quote names with blanks"),
        ("%suzent invoke MyPhone nope", UnknownCommand, "camera.snap"),
        ("%suzent invoke MyPhone echo hello", UsageError, "key=value"),
        ("%suzent invoke MyPhone echo a='b", UsageError, "not closed"),
        ("%suzent invoke MyPhone echo x=$gone", UsageError, "no variable 'gone'"),
        ("%suzent invoke MyPhone echo --params [1]", UsageError, "JSON object"),
        ("%suzent invoke MyPhone echo --speed 3", UsageError, "no option"),
        ("%suzent invoke MyPhone echo --timeout", UsageError, "needs a value"),
        ("%suzent invoke MyPhone echo --timeout soon", UsageError, "number of seconds"),
        ("%suzent invoke MyPhone camera.snap width=wide", InvalidParams, "width"),
        ("%suzent invoke MyPhone fail", CapabilityFailed, "lens cap"),
        ("%suzent approve AAAAAA", KernelError, "%suzent pending"),
        ("%suzent config nonsense", UsageError, "nodes_enabled"),
        ("%suzent config invoke_timeout 5", UsageError, "can't be changed while the gateway runs"),
        ("%suzent config nodes_enabled perhaps", KernelError, "nodes_enabled"),
        ("%suzent audit many", UsageError, "rows"),
        ("%%suzent list\nbody", UsageError, "no cell body"),
    ],
)
def test_failures_are_one_line(
    shell: Shell, phone: Phone, capsys: pytest.CaptureFixture[str], line: str, kind: type, says: str
) -> None:
    error = shell.fail(line)
    assert isinstance(error, kind)
    shown = capsys.readouterr()
    lines = (shown.out + shown.err).strip().splitlines()
    assert len(lines) == 1, lines
    assert says in lines[0]
    assert "Traceback" not in lines[0]


def test_an_interrupt_is_one_line_too(shell: Shell, phone: Phone, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupt() -> None:
        wait_for(lambda: phone.got("invoke"))
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    result = shell.ip.run_cell("%suzent invoke MyPhone silence")
    assert isinstance(result.error_in_exec, KeyboardInterrupt)
    assert capsys.readouterr().out.strip() == "Interrupted; a call under way is cancelled on the device."
    wait_for(lambda: len(phone.got("cancel")) == 1)


def test_errors_of_python_calls_do_not_show_the_way_through_our_files(
    shell: Shell, phone: Phone, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run("import suzent_jupyter as sz\ngw = sz.connect()\nphone = gw['MyPhone']")
    capsys.readouterr()
    shell.fail("phone.camera.snap(width='wide')")
    shown = capsys.readouterr().out
    assert "InvalidParams" in shown
    assert shown.count("suzent_jupyter/kernel/") == 1  # the innermost frame, which IPython always shows
    shell.ip.user_ns["gw"].close()


def test_nodes_switched_off_are_said(shell: Shell) -> None:
    shell.run("%suzent config nodes_enabled false")
    assert "Next: %suzent config nodes_enabled true" in repr(shell.run("%suzent"))


def test_every_verb_has_help(shell: Shell) -> None:
    overview = repr(shell.run("%suzent help"))
    for name, verb in all_verbs().items():
        assert verb.line in overview
        assert verb.summary in repr(shell.run(f"%suzent help {name}"))
    assert "key=$name" in repr(shell.run("%suzent invoke?"))
    assert {"status", "list", "describe", "pending", "invite", "approve", "deny", "devices", "revoke", "pause",
            "resume", "host-token", "config", "invoke", "audit", "use", "help",
            "discover", "connect", "connections", "disconnect", "host", "control", "peers", "grants", "unauthorized",
            "mode", "reverse", "remove", "trigger", "route", "scope", "chat",
            "conversations", "memory", "permissions", "answer"} == set(all_verbs())  # fmt: skip


def test_settings(shell: Shell) -> None:
    assert shell.run("%suzent config")["nodes_enabled"] is True
    assert "\ninvoke_timeout " in repr(shell.run("%suzent config"))  # each limit on a line of its own
    assert shell.run("%suzent config invoke_timeout") == {"invoke_timeout": 30.0}
    assert shell.run("%suzent config display_name 'Kitchen 2'") == {"display_name": "Kitchen 2"}
    assert shell.run("%suzent config denied_commands shell.*") == {"denied_commands": ["shell.*"]}
    assert "Kitchen 2" in repr(shell.run("%suzent config display_name"))


def test_a_host_token_is_not_what_the_cell_shows(shell: Shell, gateway: ThreadedGateway) -> None:
    made = shell.run("%suzent host-token script")
    assert made.token not in str(shell.formatted(made))
    assert shell.run(f"%suzent use {gateway.url} --token {made.token}") == f"Using the gateway at {gateway.url}."
    assert shell.run("%suzent list").empty


def test_hostile_names_are_harmless_in_displays(
    shell: Shell, gateway: ThreadedGateway, make_phone: Callable[..., Phone]
) -> None:
    evil = "<img src=x onerror=alert(1)>\x1b[31m\u202e🙂"
    capabilities = [{"name": "echo", "description": evil, "params_schema": {evil: evil}}]
    waiting = make_phone(gateway, evil + "2", capabilities=capabilities)
    waiting.code()
    phone = make_phone(gateway, evil, capabilities=capabilities, description=evil).approve()
    for line in ("%suzent", "%suzent list", f"%suzent describe {phone.device.node_id}", "%suzent pending",
                 "%suzent devices", "%suzent audit"):  # fmt: skip
        shown = shell.formatted(shell.run(line))
        assert set(shown) <= {"text/plain", "text/html"}
        assert "<img" not in shown.get("text/html", "")
        for text in shown.values():
            assert not {"\x1b", "\u202e"} & set(text)


def test_a_question_mark_reaches_us(shell: Shell, phone: Phone, capsys: pytest.CaptureFixture[str]) -> None:
    assert "camera.snap" in repr(shell.run("%suzent describe MyPhone?"))
    assert shell.run("said = %suzent invoke MyPhone echo text='how are you?'\nsaid.data") == {"text": "how are you?"}
    assert shell.run("if True:\n    %suzent invoke MyPhone echo text=what?\n1") == 1
    capsys.readouterr()
    shell.run("%suzent?")
    assert "Use the devices" in capsys.readouterr().out
    untouched = ["%%bash\n", "%suzent x?\n"]
    assert keep_question_marks(untouched) == untouched
    assert keep_question_marks(["print?\n", "x = 1\n"]) == ["print?\n", "x = 1\n"]


def test_unloading_takes_everything_away(shell: Shell) -> None:
    completer, hooks = shell.ip.Completer, shell.ip.input_transformers_cleanup
    shell.run("%load_ext suzent_jupyter")
    shell.run("%reload_ext suzent_jupyter")
    assert sum(hook is keep_question_marks for hook in hooks) == 1
    assert len(completer.custom_matchers) == 1
    shell.run("%unload_ext suzent_jupyter")
    assert keep_question_marks not in hooks
    assert not completer.custom_matchers
    assert "suzent" not in shell.ip.magics_manager.magics["line"]
    shell.run("%load_ext suzent_jupyter")


def test_without_a_gateway_the_message_is_clear_and_fast(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = Shell()
    began = time.monotonic()
    for line in ("%suzent", "%suzent list", "%suzent invoke a b", "%suzent approve ABCDEF"):
        assert isinstance(shell.fail(line), NoGateway)
        assert "jupyter suzent gateway" in capsys.readouterr().out
    shell.run("%suzent help")
    assert shell.complete("%suzent li") == []  # nothing to complete from, and no error
    monkeypatch.setenv("SUZENT_BASE_URL", "http://suzent:szt_secret@127.0.0.1:9")
    shown = str(shell.fail("%suzent list"))
    assert "not running" in shown
    assert "szt_secret" not in shown
    assert time.monotonic() - began < 20
    shell.run("%unload_ext suzent_jupyter")


def test_frames_are_frames(shell: Shell, phone: Phone) -> None:
    assert isinstance(shell.run("nodes = %suzent list\nnodes.query('status == \"connected\"')"), pd.DataFrame)
