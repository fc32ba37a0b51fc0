"""``%suzent`` and ``%%suzent``: the same verbs from a line and from a cell."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import Any

from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand

from ..protocol.errors import SuzentError
from .completion import make_matcher
from .gateway import Gateway, connect
from .mirror import Mirror
from .plain import one_line
from .values import Word
from .verbs import Context, run

# A line of ours that ends in a question mark, which IPython would read as a question for help.
_QUESTION = re.compile(r"(?P<before>[ \t]*(?:[A-Za-z_][\w.,\[\]\"' ()*]*?=[ \t]*)?)%suzent[ \t]+(?P<rest>\S.*\?)[ \t]*")


@magics_class
class SuzentMagics(Magics):  # type: ignore[misc]
    """The magics of one shell, and the gateway they use."""

    def __init__(self, shell: Any) -> None:
        super().__init__(shell)
        self._gateway: Gateway | None = None
        self.matcher: Callable[[Any], dict[str, Any]] = make_matcher(self.mirror, shell.user_ns)

    @no_var_expand  # type: ignore[untyped-decorator]
    @line_cell_magic  # type: ignore[untyped-decorator]
    def suzent(self, line: str, cell: str | None = None) -> Any:
        """Use the devices that joined your gateway: ``%suzent help`` lists the verbs."""
        try:
            return run(line, cell, self._context)
        except SuzentError as error:
            raise quiet(error) from None
        except KeyboardInterrupt as interrupt:
            if not hasattr(interrupt, "_render_traceback_"):
                interrupt._render_traceback_ = lambda: [  # type: ignore[attr-defined]
                    "Interrupted; a call under way is cancelled on the device."
                ]
            raise

    def gateway(self) -> Gateway:
        """Return the gateway in use; found on first use."""
        if self._gateway is None:
            self._gateway = connect()
        self._gateway._mirror.start()
        return self._gateway

    def use(self, url: str | None, token: str | None, pin: str | None = None) -> Gateway:
        """Use another gateway from now on, if it answers."""
        new = connect(url, token, pin=pin)
        new.records("pending")
        agents = sys.modules.get(f"{__package__}.agent")
        if agents is not None and self._gateway is not None:
            agents.agent.move(self._gateway, new)
        if self._gateway is not None:
            self._gateway.close()
        self._gateway = new
        return new

    def mirror(self) -> Mirror | None:
        """Return what completion reads, None while there is no gateway."""
        try:
            mirror = self.gateway()._mirror
        except SuzentError:
            return None
        mirror.look()
        return mirror

    def close(self) -> None:
        """Close the connection."""
        if self._gateway is not None:
            self._gateway.close()
            self._gateway = None

    def _context(self, words: list[Word], rest: str, body: str | None) -> Context:
        return Context(words, rest, body, self.shell.user_ns, self.gateway, self.use)


def quiet(error: SuzentError) -> SuzentError:
    """Make IPython show an error as one line instead of a traceback through our files.

    It stays an ordinary exception of its own class: a notebook that is run as a program still stops there.
    """
    line = one_line(error.sentences, 1000)
    error._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]
    return error


def keep_question_marks(lines: list[str]) -> list[str]:
    """Turn ``%suzent … ?`` into the call it means, before IPython takes the question mark for its own."""
    if lines and lines[0].startswith("%%"):
        return lines
    return [_kept(line) for line in lines]


def _kept(line: str) -> str:
    text = line.rstrip("\n")
    found = _QUESTION.fullmatch(text)
    if found is None:
        return line
    return f"{found['before']}get_ipython().run_line_magic('suzent', {found['rest']!r})" + line[len(text) :]


def load(shell: Any) -> None:
    """Register magics, completion and the transformer on a shell; a second time replaces the first."""
    unload(shell)
    magics = SuzentMagics(shell)
    shell.register_magics(magics)
    shell.Completer.custom_matchers.append(magics.matcher)
    shell.input_transformers_cleanup.append(keep_question_marks)
    shell.suzent_magics = magics


def unload(shell: Any) -> None:
    """Take everything away that :func:`load` added."""
    magics = getattr(shell, "suzent_magics", None)
    if magics is None:
        return
    magics.close()
    for kind in ("line", "cell"):
        shell.magics_manager.magics[kind].pop("suzent", None)
    for hooks, hook in (
        (shell.Completer.custom_matchers, magics.matcher),
        (shell.input_transformers_cleanup, keep_question_marks),
    ):
        if hook in hooks:
            hooks.remove(hook)
    del shell.suzent_magics
