from __future__ import annotations

import asyncio
import datetime
import json
import shutil
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from suzent_jupyter.node import ParameterError, builtin, progress
from suzent_jupyter.node.builtin import camera, commands, notify, speaker, system
from suzent_jupyter.node.results import encode_result


def test_system_info_is_real() -> None:
    facts = json.loads(encode_result("r", system.info(), 10**6))["result"]
    assert facts["memory"]["total"] > 2**20 and facts["cpu"]["threads"] >= 1 and 0 <= facts["disk"]["percent"] <= 100
    assert datetime.datetime.fromisoformat(facts["booted_at"]) < datetime.datetime.now(datetime.UTC)


def test_only_what_can_work_is_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speaker, "_program", lambda: None)
    monkeypatch.setattr(notify, "_program", lambda: None)
    monkeypatch.setattr(camera, "find", lambda: None)
    monkeypatch.setattr(builtin, "_FINDERS", (system.find, camera.find, speaker.find, notify.find))
    assert [each.name for each in asyncio.run(builtin.available())] == ["system.info"]


def test_a_probe_that_fails_or_hangs_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise OSError("driver")

    def hang() -> None:
        time.sleep(5)

    monkeypatch.setattr(builtin, "_PATIENCE", 0.1)
    monkeypatch.setattr(builtin, "_FINDERS", (fail, hang, system.find))
    started = time.monotonic()
    assert [each.name for each in asyncio.run(builtin.available())] == ["system.info"]
    assert time.monotonic() - started < 3


class FakeCamera:
    """What OpenCV offers, without a camera."""

    opens = True

    def __init__(self, number: int) -> None:
        self.number = number

    def isOpened(self) -> bool:
        return self.opens

    def grab(self) -> None: ...

    def read(self) -> tuple[bool, str]:
        return True, "image"

    def release(self) -> None: ...


def test_camera_answers_binary_and_says_when_it_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded = SimpleNamespace(tobytes=lambda: b"\xff\xd8\xff")
    fake = SimpleNamespace(VideoCapture=FakeCamera, imencode=lambda suffix, image: (True, encoded))
    monkeypatch.setitem(sys.modules, "cv2", fake)
    photo = camera.snap(format="jpeg")
    assert photo == {"media_type": "image/jpeg", "base64": "/9j/", "name": "photo.jpg"}
    monkeypatch.setattr(FakeCamera, "opens", False)
    with pytest.raises(RuntimeError, match="Camera 0 can't be opened"):
        camera.snap()


def stand_in(folder: Path, name: str, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put a program of this name first on the path; it writes its arguments and input beside itself."""
    program = folder / name
    program.write_text(
        f"#!{sys.executable}\nimport json, sys, pathlib\n"
        "pathlib.Path(__file__ + '.json').write_text(json.dumps([sys.argv[1:], sys.stdin.read()]))\n" + script
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder / f"{name}.json"


HOSTILE = "--voice=x; $(touch /tmp/owned) `id` <b>hi</b>\u2028 ü"

linux = pytest.mark.skipif(sys.platform != "linux", reason="programs of Linux desktops")


@linux
def test_speaking_hands_text_over_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = stand_in(tmp_path, "espeak-ng", "", monkeypatch)
    found = speaker.find()
    assert found is not None
    _, named = found.signature.bind({"text": HOSTILE, "voice": "en+f3", "rate": "200"}, progress)
    assert asyncio.run(found.function(**named)) == {"spoken": HOSTILE}
    arguments, text = json.loads(log.read_text())
    assert text == HOSTILE and arguments == ["--stdin", "-b", "1", "-s", "200", "-v", "en+f3"]


@linux
@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("print('ALSA lib: x\\nerror: No such file or directory', file=sys.stderr)", "no audio device"),
        (
            "print('Error: The specified espeak-ng voice does not exist.', file=sys.stderr); sys.exit(1)",
            "voice does not exist",
        ),
        ("sys.exit(3)", "no reason given"),
    ],
)
def test_speaking_fails_clearly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, told: str) -> None:
    stand_in(tmp_path, "espeak-ng", script, monkeypatch)
    with pytest.raises(RuntimeError, match=told):
        asyncio.run(speaker.speak("hello"))


@pytest.mark.parametrize("params", [{}, {"text": ""}, {"text": "x" * 5001}, {"text": "x", "rate": 5}])
def test_speaking_checks_its_parameters(params: dict[str, Any]) -> None:
    signature = speaker.Capability.of(speaker.speak).signature
    with pytest.raises(ParameterError):
        signature.bind(params, progress)
    with pytest.raises(ValueError, match="not the name of a voice"):
        asyncio.run(speaker.speak("x", voice="../../etc/passwd"))


@pytest.mark.skipif(not shutil.which("espeak-ng"), reason="needs espeak-ng")
def test_speaking_for_real_ends_one_way_or_the_other() -> None:
    async def main() -> None:
        async with asyncio.timeout(20):
            try:
                assert await speaker.speak("hi", rate=450) == {"spoken": "hi"}
            except RuntimeError as error:
                assert "audio device" in str(error)

    asyncio.run(main())


@linux
def test_cancelling_kills_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = stand_in(tmp_path, "espeak-ng", "import time, os; time.sleep(60)", monkeypatch)

    async def main() -> None:
        speaking = asyncio.create_task(speaker.speak("hello"))
        while not log.exists():
            await asyncio.sleep(0.01)
        speaking.cancel()
        started = time.monotonic()
        with pytest.raises(asyncio.CancelledError):
            await speaking
        assert time.monotonic() - started < 5

    asyncio.run(main())


@linux
def test_notifications_are_text_and_need_a_desktop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = stand_in(tmp_path, "notify-send", "", monkeypatch)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    assert notify.find() is None
    with pytest.raises(RuntimeError, match="no desktop"):
        asyncio.run(notify.notify("x"))
    monkeypatch.setenv("DISPLAY", ":0")
    assert notify.find() is not None
    assert asyncio.run(notify.notify(HOSTILE, title="--urgency=critical")) == {"shown": True}
    arguments, _ = json.loads(log.read_text())
    assert arguments[:3] == ["--app-name=Suzent", "--", "--urgency=critical"]
    assert "<b>" not in arguments[3] and "&lt;b&gt;" in arguments[3]


def test_no_stranger_text_becomes_part_of_a_script() -> None:
    for program in ("osascript", "powershell"):
        command = notify._command(program, "TITLE", "MESSAGE")
        script = [part for part in command if "display" in part or "Toast" in part]
        assert script and not any("TITLE" in part.replace("SUZENT_TITLE", "") or part == "MESSAGE" for part in script)
    assert all(HOSTILE not in part for part in speaker._command("powershell", "", 175))


def test_a_program_reads_its_input_to_the_end() -> None:
    code = "import sys; sys.exit(3 if len(sys.stdin.read()) == 1000000 else 4)"
    assert asyncio.run(commands.run_program([sys.executable, "-c", code], text="x" * 1_000_000))[0] == 3
