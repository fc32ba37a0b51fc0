"""Which commands would ask somebody first."""

from __future__ import annotations

import pytest

from suzent_jupyter.protocol.asking import would_ask


@pytest.mark.parametrize(
    "command",
    "camera.snap camera.list CAMERA.Snap microphone.record mic.listen screen.record screen.capture location.get "
    "system.run system.script system.exec shell.run terminal.open files.write files.write_text applescript.run "
    "clipboard.read powershell.run Shell.Exec front.camera.snap take_photo cameraSnap my-webcam lab/screenshot "
    "phone2.gps.read run_shell runBash system.code.run recordAudio audio.stream.record notes.file.delete saveFile "
    "agent.run ｃamera.snap".split(),
)
def test_they_would(command: str) -> None:
    assert would_ask(command)
    assert would_ask(f" {command} ")


@pytest.mark.parametrize(
    "command",
    "echo system.info system.battery speaker.speak notify.show files.read files.list sensor.read cameraman screens "
    "locations runner mystic.cam stage.move heater.on spectrum.record job.run file.read disk.free".split(),
)
def test_they_would_not(command: str) -> None:
    assert not would_ask(command)
