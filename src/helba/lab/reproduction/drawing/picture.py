"""Lines over rounds as PNG and SVG, told apart by colour, dashes and markers.

The same lines give the same SVG, byte by byte. matplotlib is loaded on first use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Dashes = str | tuple[int, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line with a label; `error` is the standard error of each value, drawn as a band of two.

    `wide` ones are pale and lie below, for what others run along.
    """

    label: str
    places: Sequence[float]
    values: Sequence[float]
    error: Sequence[float] | None = None
    colour: str
    dashes: Dashes = "-"
    marker: str | None = None
    wide: bool = False


def draw_lines(
    lines: Sequence[Line],
    *,
    title: str,
    path: Path,
    x: str = "round",
    y: str = "cumulative regret",
    logarithmic: bool = False,
) -> tuple[Path, Path]:
    """Draw the lines into `path` with the endings .png and .svg; return both."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path.parent.mkdir(parents=True, exist_ok=True)
    png, svg = path.with_suffix(".png"), path.with_suffix(".svg")
    style = {"svg.hashsalt": "helba", "svg.fonttype": "path", "font.size": 9.0}
    with mpl.rc_context(style):
        figure = Figure(figsize=(8.6, 4.4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots()
        for line in lines:
            axes.plot(
                line.places,
                line.values,
                color=line.colour,
                linestyle=line.dashes,
                linewidth=6.0 if line.wide else 1.6,
                alpha=0.35 if line.wide else 1.0,
                label=line.label,
                marker=line.marker,
                markersize=4.0,
                markevery=max(1, len(line.places) // 12),
                zorder=1.5 if line.wide else 2.0,
            )
            if line.error is not None:
                pairs = list(zip(line.values, line.error, strict=True))
                axes.fill_between(
                    line.places,
                    [value - 2.0 * error for value, error in pairs],
                    [value + 2.0 * error for value, error in pairs],
                    color=line.colour,
                    alpha=0.12,
                    linewidth=0,
                )
        if logarithmic:
            axes.set_xscale("log")
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0.0)
            axes.set_xlim(left=0.0)
        axes.set_xlabel(x)
        axes.set_ylabel(y)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        figure.legend(loc="outside right upper", frameon=False)
        axes.set_title(title, fontsize=11)
        figure.savefig(png, dpi=160)
        figure.savefig(svg, metadata={"Date": None})
    return png, svg
