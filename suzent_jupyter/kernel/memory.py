"""What is kept for later: one's own, one's organisation's, and that of single conversations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..protocol.memory import LEVELS
from .errors import KernelError, UsageError
from .plain import one_line
from .rest import Rest

if TYPE_CHECKING:
    import os

    import pandas as pd

Record = dict[str, Any]

_PAGE = 1000


class Memory:
    """The memory of one gateway, as far as its caller reaches.

    ``level`` is ``account`` (yours alone), ``enterprise`` (your organisation's) or ``session`` (one conversation's,
    which ``conversation`` names).
    """

    def __init__(self, rest: Rest) -> None:
        self._rest = rest

    @property
    def frame(self) -> pd.DataFrame:
        """All of your own and your organisation's, newest first; see :func:`.frames.memories`."""
        return self.everything()

    def everything(self, level: str | None = None, conversation: str | None = None) -> pd.DataFrame:
        """Return all of a level, or of a conversation too, newest first; as :attr:`frame`."""
        from . import frames

        return frames.memories(self.records(level, conversation))

    def query(
        self, query: str, *, level: str | None = None, conversation: str | None = None, limit: int | None = None
    ) -> pd.DataFrame:
        """Look for something; best matches first. See :func:`.frames.memories`.

        Parameters
        ----------
        query : str
            Words to look for, in any language.
        level : str, optional
            One alone; all of them otherwise.
        conversation : str, optional
            The id of one whose own entries are looked for too.
        limit : int, optional
            Rows at most; 20 otherwise.
        """
        from . import frames

        asked = {"level": _level(level), "session_id": conversation, "limit": limit, "query": query}
        return frames.memories(self._rest.get("/memory", **asked)["memories"])

    def records(self, level: str | None = None, conversation: str | None = None) -> list[Record]:
        """Return all entries as the gateway's own, newest first."""
        return list(self._pages(level, conversation))

    def save(
        self, text: str, level: str | None = None, tags: Sequence[str] = (), conversation: str | None = None
    ) -> Record:
        """Keep a text; returns its entry once it is on disk. The same text is kept once.

        Parameters
        ----------
        text : str
            What to keep.
        level : str, optional
            ``account`` otherwise, or ``session`` with a conversation.
        tags : sequence of str
            Words it shall be found by as well.
        conversation : str, optional
            The id of the conversation it belongs to.

        Raises
        ------
        KernelError
            ``memory_full``, ``no_org``, ``conversation_unknown``, ``invalid_request``.
        """
        body: Record = {"content": text, "tags": list(tags), **_place(level, conversation)}
        answer: Record = self._rest.post("/memory", body)
        return {**answer["memory"], "created": answer.get("created", True)}

    def forget(
        self, *ids: str, level: str | None = None, conversation: str | None = None, everything: bool = False
    ) -> int:
        """Forget entries for good; returns how many.

        Parameters
        ----------
        ids : str
            Their ids.
        level : str, optional
            Where they are; ``account`` otherwise, or ``session`` with a conversation.
        conversation : str, optional
            The conversation they belong to.
        everything : bool
            All of that level, without naming them.

        Raises
        ------
        KernelError
            ``memory_unknown`` if one is not there, ``not_owner`` if somebody else kept it; none is forgotten then.
        """
        body: Record = {"ids": list(ids), "everything": everything, **_place(level, conversation)}
        return int(self._rest.request("DELETE", "/memory", body=body, timeout=120.0)["forgotten"])

    def export(self, path: str | os.PathLike[str], *, level: str | None = None, conversation: str | None = None) -> int:
        """Write all entries to a file, one JSON object a line (.jsonl), or as a table (.csv); returns how many.

        A file that is there is not overwritten.

        Raises
        ------
        UsageError
            The file exists, or can't be written.
        """
        target = Path(path).expanduser()
        try:
            with target.open("x", encoding="utf-8", newline="") as file:
                if target.suffix.casefold() == ".csv":
                    return _write_csv(file, self._pages(level, conversation))
                count = 0
                for entry in self._pages(level, conversation):
                    file.write(json.dumps(entry, ensure_ascii=False) + "\n")
                    count += 1
                return count
        except FileExistsError:
            raise UsageError(f"{one_line(target)} exists already.", hint="Choose another name.") from None
        except OSError as error:
            raise UsageError(f"{one_line(target)} can't be written: {error.strerror or error}.", hint="") from None
        except KernelError:
            target.unlink(missing_ok=True)  # half of it would pass for all
            raise

    def _pages(self, level: str | None, conversation: str | None) -> Iterator[Record]:
        before: str | None = None
        while True:
            answer = self._rest.get("/memory", level=_level(level), session_id=conversation, limit=_PAGE, before=before)
            yield from answer["memories"]
            if not (before := answer.get("next")):
                return

    def __repr__(self) -> str:
        return "<Memory: .query(words), .save(text), .forget(id), .export(file), .frame>"


def _write_csv(file: Any, entries: Iterator[Record]) -> int:
    import csv

    columns = ["memory_id", "level", "content", "tags", "session_id", "created_at", "by"]
    writer = csv.DictWriter(file, columns, extrasaction="ignore")
    writer.writeheader()
    count = 0
    for entry in entries:
        cells = {**entry, "tags": ", ".join(entry.get("tags") or ())}
        # A spreadsheet would run what begins like a formula.
        writer.writerow({name: _inert(cells.get(name)) for name in columns})
        count += 1
    return count


def _inert(value: Any) -> Any:
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


def _place(level: str | None, conversation: str | None) -> Record:
    if conversation is None:
        return {"level": _level(level) or "account"}
    return {"level": _level(level) or "session", "session_id": conversation}


def _level(level: str | None) -> str | None:
    if level is None or level in LEVELS:
        return level
    raise UsageError(f"'{one_line(level, 40)}' is not a level.", hint=f"It is {', '.join(LEVELS)}.")
