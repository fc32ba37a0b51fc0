"""``speaker.speak``: text read out by the speech program of this machine."""

from __future__ import annotations

import re
import shutil
import sys
from typing import Annotated, Any

from pydantic import Field

from ..capability import Capability
from .commands import powershell, run_program

_VOICE = re.compile(r"[\w .+()-]{1,64}")
_SAPI = (
    "[Console]::InputEncoding = [Text.Encoding]::UTF8; Add-Type -AssemblyName System.Speech; "
    "$s = New-Object System.Speech.Synthesis.SpeechSynthesizer; "
    "if ($env:SUZENT_VOICE) { $s.SelectVoice($env:SUZENT_VOICE) }; $s.Rate = [int]$env:SUZENT_RATE; "
    "$s.Speak([Console]::In.ReadToEnd())"
)


async def speak(
    text: Annotated[str, Field(min_length=1, max_length=5000)],
    voice: str = "",
    rate: Annotated[int, Field(ge=80, le=450)] = 175,
) -> dict[str, Any]:
    """Read a text out on the loudspeaker of this machine.

    Parameters
    ----------
    text : str
        What to say.
    voice : str
        Name of a voice or language of the speech program; its own choice where empty.
    rate : int
        Words a minute.
    """
    if voice and not _VOICE.fullmatch(voice):
        raise ValueError(f"{voice!r} is not the name of a voice.")
    program = _program()
    if program is None:
        raise RuntimeError("There is no speech program on this machine; install espeak-ng.")
    environment = {"SUZENT_VOICE": voice, "SUZENT_RATE": str(max(-10, min(10, round((rate - 175) / 25))))}
    status, complaint = await run_program(_command(program, voice, rate), text=text, environment=environment)
    # espeak-ng ends with 0 where there is no sound card; what it prints tells.
    failed = next((line for line in complaint.splitlines() if line.casefold().startswith("error:")), "")
    if failed and "voice" not in failed:
        raise RuntimeError("The speech program found no audio device on this machine.")
    if status or failed:
        reason = failed or (complaint.splitlines() or ["no reason given"])[-1]
        raise RuntimeError(f"The speech program failed: {reason}")
    return {"spoken": text}


def _command(program: str, voice: str, rate: int) -> list[str]:
    if program == "powershell":
        return powershell(_SAPI)
    if program == "say":
        return ["say", "-r", str(rate), *(["-v", voice] if voice else []), "-f", "-"]
    return [program, "--stdin", "-b", "1", "-s", str(rate), *(["-v", voice] if voice else [])]


def _program() -> str | None:
    candidates = {"win32": ("powershell",), "darwin": ("say", "espeak-ng")}.get(sys.platform, ("espeak-ng", "espeak"))
    return next((name for name in candidates if shutil.which(name)), None)


def find() -> Capability | None:
    """Return the capability where there is a speech program."""
    return Capability.of(speak, "speaker.speak") if _program() else None
