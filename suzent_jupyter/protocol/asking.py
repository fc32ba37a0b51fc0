"""Which commands would ask somebody first: what they do is private, or can't be undone.

The one list for everybody who decides whether a turn, or a caller, may use them while nobody is there to be asked.
"""

from __future__ import annotations

import re
import unicodedata
from fnmatch import fnmatchcase
from functools import lru_cache

#: Patterns of commands, in lower case.
ASKING = (
    # somebody may be seen, heard or found
    "camera.*", "webcam.*", "photo.*", "photos.*", "video.*", "microphone.*", "mic.*", "audio.record*", "audio.listen*",
    "speech.listen*", "screen.*", "screenshot*", "location.*", "gps.*", "clipboard.*", "contacts.*", "calendar.*",
    "messages.*", "sms.*", "mail.*", "email.*", "phone.*", "browser.*",
    # code runs, or the machine is steered
    "system.run*", "system.script*", "system.exec*", "system.shell*", "system.shutdown*", "system.reboot*",
    "run", "run.*", "exec", "exec.*", "shell", "shell.*", "terminal.*", "command.*", "process.*", "powershell.*",
    "applescript*", "python.*", "script.*", "keyboard.*", "mouse.*", "input.*", "apps.*", "home.*", "lock.*",
    # files change
    "files.write*", "file.write*", "fs.write*", "files.delete*", "file.delete*", "fs.delete*", "files.move*",
    "file.move*", "fs.move*", "files.remove*", "file.remove*", "fs.remove*", "files.upload*", "write_file*",
)  # fmt: skip


#: Words that say the same wherever they stand in a name: ``front.camera.snap``, ``take_photo``, ``runShell``.
_WORDS = frozenset(
    (
        "camera", "webcam", "photo", "photos", "selfie", "microphone", "mic", "screen", "screenshot", "screencast",
        "gps", "location", "geolocation", "clipboard", "contacts", "sms", "keyboard", "keystroke", "keystrokes",
        "shell", "bash", "zsh", "powershell", "pwsh", "cmd", "terminal", "exec", "execute", "eval", "subprocess",
        "sudo", "applescript", "osascript",
    )
)  # fmt: skip
#: Pairs of words that say it together.
_PAIRS = (
    (
        frozenset(("file", "files", "fs", "folder", "folders", "directory", "disk")),
        frozenset(
            (
                "write", "append", "create", "save", "put", "edit", "overwrite", "copy", "move", "rename", "delete",
                "remove", "erase", "trash", "upload",
            )
        ),
    ),
    (
        frozenset(("audio", "sound", "voice", "speech", "video")),
        frozenset(("record", "recording", "listen", "capture", "stream")),
    ),
    (frozenset(("system", "code", "script", "command", "python", "process")), frozenset(("run", "kill", "spawn"))),
    (frozenset(("agent",)), frozenset(("run",))),  # whose own tools nobody asks about here
)  # fmt: skip
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NO_WORD = re.compile(r"[\W_]+")


@lru_cache(maxsize=4096)
def would_ask(command: str) -> bool:
    """Tell whether a device's command is one that somebody would be asked about, however its name is written."""
    text = unicodedata.normalize("NFKC", command).strip()
    name = text.casefold()
    if any(fnmatchcase(name, pattern) for pattern in ASKING):
        return True
    words = frozenset(_NO_WORD.split(_CAMEL.sub(" ", text).casefold()))
    return bool(words & _WORDS) or any(words & one and words & other for one, other in _PAIRS)
