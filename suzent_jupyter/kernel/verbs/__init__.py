"""The verbs of ``%suzent``: each module of this package lists its own in ``VERBS``."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..plain import one_line
from ..values import Word, split

if TYPE_CHECKING:
    from ..gateway import Gateway
    from ..mirror import Mirror


@dataclass
class Context:
    """What a verb works with.

    Attributes
    ----------
    words : list of Word
        What follows the verb on its line.
    rest : str
        The same as it was typed.
    body : str or None
        The cell below a ``%%suzent`` line.
    namespace : dict
        The notebook's variables, for ``key=$name``.
    """

    words: list[Word]
    rest: str
    body: str | None
    namespace: dict[str, Any]
    find_gateway: Callable[[], Gateway]
    use: Callable[[str | None, str | None, str | None], Gateway]

    @property
    def gateway(self) -> Gateway:
        """The gateway in use; found on first use."""
        return self.find_gateway()


@dataclass(frozen=True)
class Verb:
    """One verb: everything help, dispatch and completion need to know.

    Attributes
    ----------
    usage : str
        What follows the verb, such as ``NODE COMMAND key=value …``.
    run : callable
        Takes a :class:`Context`; what it returns is displayed.
    complete : callable, optional
        Takes the mirror and the words before the cursor; returns candidates for the next one, unquoted.
    cell : bool
        Whether ``%%suzent`` may carry a body for it.
    details : str
        More lines for ``%suzent help VERB``.
    prose : bool
        Whether its line ends in plain text, in which an apostrophe opens no quote.
    """

    name: str
    usage: str
    summary: str
    run: Callable[[Context], Any]
    complete: Callable[[Mirror, list[str]], list[str]] | None = None
    cell: bool = False
    details: str = ""
    prose: bool = False

    @property
    def line(self) -> str:
        """How it is typed."""
        return f"%suzent {self.name} {self.usage}".rstrip()


@cache
def all_verbs() -> dict[str, Verb]:
    """Return name → verb, in the order of the modules' names and of their lists."""
    found: dict[str, Verb] = {}
    for module in iter_modules(__path__):
        for verb in getattr(import_module(f"{__name__}.{module.name}"), "VERBS", ()):
            found[verb.name] = verb
    return found


def find_verb(name: str) -> Verb:
    """Return a verb.

    Raises
    ------
    UsageError
        There is none of that name; the closest is named.
    """
    verbs = all_verbs()
    verb = verbs.get(name.casefold())
    if verb is None:
        close = difflib.get_close_matches(name.casefold(), verbs, 1, 0.5)
        hint = f"Did you mean `%suzent {close[0]}`?" if close else "`%suzent help` lists them."
        raise UsageError(f"'{one_line(name, 40)}' is not a verb of %suzent.", hint=hint)
    return verb


@dataclass
class Arguments:
    """A verb's words, sorted into what they are."""

    positional: dict[str, str]
    options: dict[str, str]
    pairs: list[Word]

    def __getitem__(self, name: str) -> str:
        return self.positional[name]

    def get(self, name: str) -> str | None:
        """Return a positional argument or option (``--timeout``), None if it was not given."""
        return self.positional.get(name, self.options.get(name))


def read_arguments(
    context: Context,
    verb: str,
    required: tuple[str, ...] = (),
    optional: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
    pairs: bool = False,
    flags: tuple[str, ...] = (),
) -> Arguments:
    """Sort words into positional arguments, ``--options`` with a value, ``--flags`` without, and ``key=value`` pairs.

    Raises
    ------
    UsageError
        One is missing, or there is one too many; the right form is shown.
    """
    result = Arguments({}, {}, [])
    names = [*required, *optional]
    words = iter(context.words)
    usage = f"The form is `{find_verb(verb).line}`."
    for word in words:
        option, equals, value = word.text.partition("=")
        if option in options and not word.quoted:
            following = value if equals else getattr(next(words, None), "text", None)
            if following is None:
                raise UsageError(f"{option} needs a value.", hint=usage)
            result.options[option] = following
        elif word.text in flags and not word.quoted:
            result.options[word.text] = "true"
        elif word.text.startswith("--") and not word.quoted:
            raise UsageError(f"{verb} has no option {one_line(option, 40)}.", hint=usage)
        elif len(result.positional) < len(names):
            result.positional[names[len(result.positional)]] = word.text
        elif pairs:
            result.pairs.append(word)
        else:
            raise UsageError(
                f"'{one_line(word.text, 40)}' is one word too many.", hint=f"{usage} Quote names with blanks."
            )
    for name in required:
        if name not in result.positional:
            raise UsageError(f"{verb} needs {name}.", hint=usage)
    return result


def run(line: str, body: str | None, make_context: Callable[[list[Word], str, str | None], Context]) -> Any:
    """Run one line (and cell) of ``%suzent`` and return what it gives."""
    name, _, rest = line.strip().partition(" ")
    rest = rest.strip()
    if name.endswith("?") and len(name) > 1:
        name, rest = "help", name.rstrip("?")
    verb = find_verb(name or "status")
    if body is not None and not verb.cell:
        raise UsageError(f"{verb.name} takes no cell body.", hint=f"Type `{verb.line}` with a single %.")
    return verb.run(make_context(split(rest, partial=verb.prose), rest, body))
