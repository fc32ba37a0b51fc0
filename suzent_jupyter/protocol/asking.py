"""Which commands would ask somebody first: what they do is private, or can't be undone.

The one list for everybody who decides whether a turn, or a caller, may use them while nobody is there to be asked.
"""

from __future__ import annotations

from fnmatch import fnmatchcase

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


def would_ask(command: str) -> bool:
    """Tell whether a device's command is one that somebody would be asked about, whatever its capitals."""
    name = command.strip().casefold()
    return any(fnmatchcase(name, pattern) for pattern in ASKING)
