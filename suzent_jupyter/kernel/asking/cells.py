"""Which cell runs: a task that a cell left behind may go on for long, and nobody waits for it any more."""

from __future__ import annotations

from typing import Any

_NAME = "suzent_cells"


class Cells:
    """Counts the beginnings and ends of a shell's cells; :func:`cells_of` returns the one of a shell."""

    def __init__(self, events: Any) -> None:
        self.now = 1  # odd while a cell runs; this one does
        events.register("pre_run_cell", self._begun)
        events.register("post_run_cell", self._ended)

    def runs(self, number: int) -> bool:
        """Tell whether the cell still runs in which :attr:`now` was ``number``."""
        return number == self.now and number % 2 == 1

    def _begun(self, *_: Any) -> None:
        self.now += 1 + self.now % 2

    def _ended(self, *_: Any) -> None:
        self.now += self.now % 2


def cells_of(shell: Any) -> Cells:
    """Return what counts the cells of a shell, from the first time on."""
    cells: Cells | None = getattr(shell, _NAME, None)
    if cells is None:
        cells = Cells(shell.events)
        setattr(shell, _NAME, cells)
    return cells
