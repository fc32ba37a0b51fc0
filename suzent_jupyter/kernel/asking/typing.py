"""Where somebody can type while a cell waits. Nothing here blocks: whoever waits looks now and then."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass
from typing import Any, Protocol

from ..plain import shell


@dataclass(frozen=True, slots=True)
class Typed:
    """A line somebody typed.

    Attributes
    ----------
    text : str
        The line.
    is_sure : bool
        Whether it surely answers what was asked last, and no earlier question.
    """

    text: str
    is_sure: bool = False


class Typing(Protocol):
    """One place to type; at most one question at once.

    Attributes
    ----------
    is_inline : bool
        Whether the question stands in the output, on a line that is not ended.
    """

    @property
    def is_inline(self) -> bool: ...

    def ask(self, question: str) -> None:
        """Ask for a line."""

    def read(self) -> Typed | None:
        """Return the line, None as long as there is none; ``EOFError`` where there never will be one."""


def find_typing() -> Typing | None:
    """Return where somebody can type right now; None where nobody can, or where this thread may not ask."""
    ip = shell()
    if ip is None or threading.current_thread() is not threading.main_thread():
        return None
    kernel = getattr(ip, "kernel", None)
    if kernel is not None:
        return FrontEnd.of(kernel)
    try:
        # Not whatever stands in for them: a line can be read only where there is a terminal.
        if not (os.isatty(0) and os.isatty(1) and sys.stdin.isatty() and sys.stdout.isatty()):
            return None
    except (AttributeError, ValueError, OSError):
        return None
    return WindowsTerminal() if os.name == "nt" else Terminal()


class FrontEnd:
    """The front end that ran this cell: it shows a box to type into.

    ``input()`` does the same but can't be taken back, and somebody else may answer first.
    """

    is_inline = False

    def __init__(self, kernel: Any, parent: Any, ident: Any) -> None:
        self._kernel = kernel
        self._parent = parent
        self._ident = ident
        self._asked = ""

    @classmethod
    def of(cls, kernel: Any) -> FrontEnd | None:
        """Return the front end of a kernel's current cell; None if it takes no input (a notebook run as a program)."""
        if not getattr(kernel, "_allow_stdin", False):
            return None
        try:
            parent = kernel.get_parent("shell")
            if hasattr(kernel, "_shell_parent_ident"):
                ident = kernel._get_shell_context_var(kernel._shell_parent_ident)
            else:
                ident = kernel._parent_ident["shell"]
        except (AttributeError, KeyError, LookupError):
            return None
        return cls(kernel, parent, ident)

    def ask(self, question: str) -> None:
        """Have the front end show a box."""
        sys.stdout.flush()
        session, socket = self._kernel.session, self._kernel.stdin_socket
        while session.recv(socket)[1] is not None:
            pass  # a reply to what was asked before
        content = {"prompt": question, "password": False}
        sent = session.send(socket, "input_request", content, self._parent, ident=self._ident)
        self._asked = sent["header"]["msg_id"]

    def read(self) -> Typed | None:
        """Return what was typed into the box."""
        try:
            _, reply = self._kernel.session.recv(self._kernel.stdin_socket)
        except ValueError:
            return None  # not signed as it must be
        if reply is None or reply.get("msg_type") != "input_reply":
            return None
        answers = (reply.get("parent_header") or {}).get("msg_id")
        if answers and answers != self._asked:
            return None  # typed into the box of an earlier question
        text = str((reply.get("content") or {}).get("value", ""))
        if text == "\x04":
            raise EOFError
        return Typed(text, is_sure=answers == self._asked)


class Terminal:
    """A terminal of Linux or macOS, which gives whole lines."""

    is_inline = True

    def __init__(self) -> None:
        self._read = b""

    def ask(self, question: str) -> None:
        """Print the question; what was typed before it is not meant for it."""
        import termios

        termios.tcflush(0, termios.TCIFLUSH)
        self._read = b""
        sys.stdout.write(question)
        sys.stdout.flush()

    def read(self) -> Typed | None:
        """Return a line, once there is a whole one."""
        import select

        if not select.select([0], [], [], 0)[0]:
            return None
        data = os.read(0, 4096)
        if not data:
            raise EOFError
        self._read += data
        line, ended, _ = self._read.partition(b"\n")
        if not ended:
            return None
        self._read = b""
        return Typed(line.decode(errors="replace"))


class WindowsTerminal:
    """A console of Windows, which gives keys."""

    is_inline = True

    def __init__(self) -> None:
        self._typed = ""

    def ask(self, question: str) -> None:
        """Print the question; what was typed before it is not meant for it."""
        while self._key():
            pass
        self._typed = ""
        sys.stdout.write(question)
        sys.stdout.flush()

    def read(self) -> Typed | None:
        """Return a line, once Enter was hit."""
        while key := self._key():
            if key in "\r\n":
                sys.stdout.write("\n")
                return Typed(self._typed)
            if key == "\x03":
                raise KeyboardInterrupt
            if key == "\b":
                self._typed, key = self._typed[:-1], "\b \b"
            else:
                self._typed += key
            sys.stdout.write(key)
            sys.stdout.flush()
        return None

    @staticmethod
    def _key() -> str:
        import msvcrt

        module: Any = msvcrt
        return str(module.getwch()) if module.kbhit() else ""
