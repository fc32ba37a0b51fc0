"""A small horizontal bar chart of scores as a PNG, where matplotlib is installed."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence

_INCHES_WIDE, _INCHES_PER_BAR, _INCHES_AROUND = 5.0, 0.28, 0.5
_DPI = 110
_CHOSEN, _OTHERS = "#1f77b4", "#b0b7bf"


def bar_chart(names: Sequence[str], scores: Sequence[float], chosen: Sequence[bool]) -> bytes | None:
    """Draw one bar per name, the first on top.

    Parameters
    ----------
    names : sequence of str
        Cleaned; drawn as they are, since a formula in one would be typeset otherwise.
    chosen : sequence of bool
        Which of them are drawn in colour.

    Returns
    -------
    bytes or None
        None where matplotlib is missing.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        return None
    figure = Figure(figsize=(_INCHES_WIDE, _INCHES_AROUND + _INCHES_PER_BAR * len(names)), dpi=_DPI, layout="tight")
    axes = figure.add_subplot()
    places = range(len(names))
    bars = axes.barh(places, scores, color=[_CHOSEN if each else _OTHERS for each in chosen], height=0.7)
    axes.bar_label(bars, labels=[f"{score:.2f}" for score in scores], padding=3, fontsize=8)
    axes.set_yticks(places, labels=names, fontsize=8, parse_math=False)
    axes.set_xlim(0, max(scores) * 1.15)
    axes.xaxis.set_visible(False)
    axes.invert_yaxis()
    for side in ("top", "right", "bottom"):
        axes.spines[side].set_visible(False)
    drawn = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a font without some script's letters
        FigureCanvasAgg(figure).print_png(drawn)
    return drawn.getvalue()


__all__ = ["bar_chart"]
