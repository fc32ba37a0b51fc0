"""Which commands would ask somebody first."""

from __future__ import annotations

import pytest

from suzent_jupyter.protocol.asking import would_ask


@pytest.mark.parametrize(
    "command",
    "camera.snap camera.list CAMERA.Snap microphone.record mic.listen screen.record screen.capture location.get "
    "system.run system.script system.exec shell.run terminal.open files.write files.write_text applescript.run "
    "clipboard.read powershell.run Shell.Exec".split(),
)
def test_they_would(command: str) -> None:
    assert would_ask(command)
    assert would_ask(f" {command} ")


@pytest.mark.parametrize(
    "command",
    "echo system.info system.battery speaker.speak notify.show files.read files.list sensor.read cameraman screens "
    "locations runner mystic.cam".split(),
)
def test_they_would_not(command: str) -> None:
    assert not would_ask(command)
