"""Figures of several panels, and tables, on disk: PNG, SVG, and the rows that they came from.

The same lines give the same SVG, byte by byte. matplotlib is loaded on first use.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from helba.lab.plots import OTHER_STYLE, STYLES
from helba.lab.reproduction.section import Figure, Table
from helba.lab.rows import write_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PANEL_INCHES = (5.4, 4.0)
MOST_COLUMNS = 2
# Okabe and Ito's colours, for lines that no algorithm owns, each with a dash and a mark of its own.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1)), (0, (3, 1)), (0, (1, 1)))
MARKS = ("o", "s", "^", "D", "v", "P", "X")
# A curve that others may cover is wide and pale, and lies below them.
WIDE_WIDTH, WIDE_ALPHA = 6.0, 0.45


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One line: its points, the standard errors of y if known, and how to draw it.

    `style` names an algorithm whose colour and dashes it takes. `wide` curves show below others
    that run along them; `marked` ones show their points, `loose` ones nothing else.
    """

    label: str
    x: Sequence[float]
    y: Sequence[float]
    error: Sequence[float] | None = None
    style: str | None = None
    wide: bool = False
    marked: bool = False
    loose: bool = False


@dataclass(frozen=True, kw_only=True)
class Panel:
    """Curves on one pair of axes; `log` scales both, `ticks` are the marks of x."""

    curves: Sequence[Curve]
    title: str
    y: str
    x: str = "round"
    log: bool = False
    ticks: Sequence[float] = ()


def draw_panels(
    panels: Sequence[Panel], *, name: str, caption: str, title: str, folder: Path
) -> Figure:
    """Draw the panels side by side; write `name`.png, `name`.svg and `name`.csv into `folder`."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    folder.mkdir(parents=True, exist_ok=True)
    png, svg, rows = (folder / f"{name}.{ending}" for ending in ("png", "svg", "csv"))
    columns = min(MOST_COLUMNS, len(panels))
    lines = -(-len(panels) // columns)
    size = (PANEL_INCHES[0] * columns, PANEL_INCHES[1] * lines)
    style = {"svg.hashsalt": "helba", "svg.fonttype": "path", "font.size": 9.0}
    with mpl.rc_context(style):
        canvas = Canvas(figsize=size, layout="constrained")
        FigureCanvasAgg(canvas)
        places = canvas.subplots(lines, columns, squeeze=False).ravel()
        for axes, panel in zip(places, panels, strict=False):
            _draw(axes, panel)
        for axes in places[len(panels) :]:
            axes.set_axis_off()
        canvas.suptitle(title, fontsize=11)
        canvas.savefig(png, dpi=160)
        canvas.savefig(svg, metadata={"Date": None})
    _write_curves(rows, panels)
    return Figure(caption=caption, png=png, svg=svg, rows=rows)


def regret_curve(
    label: str,
    rows: Sequence[Mapping[str, Any]],
    *,
    style: str,
    column: str = "regret",
    wide: bool = False,
) -> Curve:
    """Return the curve of cumulative regret in `rows`, from the origin on."""
    errors = [row.get("regret_se") for row in rows] if column == "regret" else []
    known = [error for error in errors if error is not None]
    return Curve(
        label=label,
        x=[0, *(row["round"] for row in rows)],
        y=[0.0, *(row[column] for row in rows)],
        error=[0.0, *known] if len(known) == len(rows) else None,
        style=style,
        wide=wide,
    )


def write_table(table: Table, *, folder: Path) -> Path:
    """Write a table's rows as `name`.csv; what is not there is an empty cell."""
    path = folder / f"{table.name}.csv"
    write_text(path, text=_as_csv(table.columns, table.rows))
    return path


def _draw(axes: Axes, panel: Panel) -> None:
    for index, curve in enumerate(panel.curves):
        colour, dashes = _style_of(curve, index=index)
        x, y = np.array(curve.x, dtype=float), np.array(curve.y, dtype=float)
        axes.plot(
            x,
            y,
            color=colour,
            linestyle="none" if curve.loose else "-" if curve.wide else dashes,
            linewidth=WIDE_WIDTH if curve.wide else 1.6,
            alpha=WIDE_ALPHA if curve.wide else 1.0,
            marker=MARKS[index % len(MARKS)] if curve.marked or curve.loose else None,
            markersize=5,
            label=curve.label,
            zorder=1.5 if curve.wide else 2.0,
        )
        if curve.error is not None:
            band = 2 * np.array(curve.error, dtype=float)
            axes.fill_between(x, y - band, y + band, color=colour, alpha=0.12, linewidth=0)
    if panel.log:
        axes.set_xscale("log")
        axes.set_yscale("log")
    else:
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
    if panel.ticks:
        axes.set_xticks(panel.ticks, [f"{tick:g}" for tick in panel.ticks])
        axes.xaxis.minorticks_off()
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    axes.set_title(panel.title, fontsize=9, color="#444444")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(fontsize=7.5, framealpha=0.85)


def _style_of(curve: Curve, *, index: int) -> tuple[str, Any]:
    if curve.style is not None:
        return STYLES.get(curve.style, OTHER_STYLE)
    return COLOURS[index % len(COLOURS)], DASHES[index % len(DASHES)]


def _write_curves(path: Path, panels: Sequence[Panel]) -> None:
    rows = [
        (panel.title, curve.label, x, y, None if curve.error is None else curve.error[index])
        for panel in panels
        for curve in panel.curves
        for index, (x, y) in enumerate(zip(curve.x, curve.y, strict=True))
    ]
    write_text(path, text=_as_csv(("panel", "curve", "x", "y", "standard_error"), rows))


def _as_csv(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)
