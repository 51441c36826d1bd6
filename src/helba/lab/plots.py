"""Regret plots, from rows on disk; matplotlib is loaded on first use, and may be missing."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from helba.errors import MissingPackage
from helba.extras import require_extra
from helba.lab.progress import note

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Array = NDArray[np.float64]

# Okabe and Ito's palette, told apart in every common colour blindness, and a line style each for
# print in black and white.
STYLES: dict[str, tuple[str, str | tuple[int, tuple[int, ...]]]] = {
    "oful": ("#000000", "-"),
    "rsoful": ("#56B4E9", "--"),
    "rsoful-tr": ("#009E73", "-."),
    "helba": ("#D55E00", "-"),
    "helba-sqrt": ("#E69F00", "--"),
    "helba-paper": ("#CC79A7", "-."),
    "oful-tuned": ("#0072B2", (0, (1, 1))),
    "ldp": ("#7A5C3E", (0, (5, 1, 1, 1, 1, 1))),
    "uniform": ("#8A8A8A", ":"),
}
OTHER_STYLE = ("#444444", "-")
# A curve that others may cover is wide and pale, and lies below them.
WIDE_COLOUR, WIDE_WIDTH, WIDE_ALPHA = "#0072B2", 6.0, 0.45

# Curves are thinned to this many points: more cannot be seen, and would swell the SVG.
MAX_POINTS = 400


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Mean cumulative regret after each round and the standard error of that mean."""

    mean: Array
    error: Array

    @classmethod
    def from_runs(cls, runs: Sequence[Array]) -> Curve:
        """Return the curve of runs of equal length; the error of a single run is 0."""
        table = np.stack(runs)
        count = len(table)
        spread = table.std(axis=0, ddof=1) if count > 1 else np.zeros(table.shape[1])
        return cls(mean=table.mean(axis=0), error=spread / count**0.5)


def plot_regret(
    curves: Mapping[str, Curve], *, title: str, folder: Path, wide: Collection[str] = ()
) -> Path | None:
    """Draw one line per algorithm with a band of two standard errors; return the path of the PNG.

    Where matplotlib is not installed, say so in one line on stderr and return None.
    Writes `regret.png` and `regret.svg` into `folder`. The same curves give the same SVG, byte by
    byte. A second panel enlarges the lowest curves where others tower over them. Curves named in
    `wide` are drawn so that they show below others that run along them.
    """
    try:
        require_extra("lab", purpose="it", only="matplotlib")
    except MissingPackage as error:
        note(f"no plot is drawn: {error}")
        return None
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    low = _low_names(curves)
    style = {"svg.hashsalt": "helba", "svg.fonttype": "path", "font.size": 9.0}
    with mpl.rc_context(style):
        figure = Figure(figsize=(10.5, 4.4) if low else (6.6, 4.4), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(1, 2 if low else 1, squeeze=False)[0]
        upper = [name for name in curves if name not in low]
        _draw(panels[0], curves=curves, labels=upper, wide=wide)
        panels[0].set_ylabel("cumulative regret")
        if low:
            enlarged = {name: curves[name] for name in low}
            _draw(panels[1], curves=enlarged, labels=low, wide=wide)
            panels[0].set_title("all algorithms", fontsize=9, color="#444444")
            panels[1].set_title("the lowest, enlarged", fontsize=9, color="#444444")
        figure.suptitle(title, fontsize=11)
        figure.savefig(folder / "regret.png", dpi=160)
        figure.savefig(folder / "regret.svg", metadata={"Date": None})
    return folder / "regret.png"


def _low_names(curves: Mapping[str, Curve]) -> list[str]:
    """Return the curves to enlarge: those far below the highest, when there are several."""
    final = {name: float(curve.mean[-1]) for name, curve in curves.items()}
    low = [name for name in curves if final[name] <= 0.4 * max(final.values())]
    return low if 2 <= len(low) < len(curves) else []


def _draw(
    axes: Axes, *, curves: Mapping[str, Curve], labels: Sequence[str], wide: Collection[str]
) -> None:
    horizon = max(len(curve.mean) for curve in curves.values())
    for name, curve in curves.items():
        colour, dashes = STYLES.get(name, OTHER_STYLE)
        shown = np.unique(np.linspace(0, len(curve.mean) - 1, MAX_POINTS).round().astype(int))
        # No round played, no regret: every line starts at the origin.
        rounds = np.concatenate([[0], shown + 1])
        mean = np.concatenate([[0.0], curve.mean[shown]])
        band = np.concatenate([[0.0], 2 * curve.error[shown]])
        if name in wide:
            axes.plot(
                rounds,
                mean,
                color=WIDE_COLOUR,
                linewidth=WIDE_WIDTH,
                alpha=WIDE_ALPHA,
                solid_capstyle="butt",
                label=name,
                zorder=1.5,
            )
        else:
            axes.plot(rounds, mean, color=colour, linestyle=dashes, linewidth=1.6, label=name)
        axes.fill_between(rounds, mean - band, mean + band, color=colour, alpha=0.12, linewidth=0)
    top = max(float((curve.mean + 2 * curve.error).max()) for curve in curves.values()) or 1.0
    axes.set_ylim(0.0, 1.04 * top)
    axes.set_xlim(0, horizon)
    axes.set_xlabel("round")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    _label_ends(axes, curves=curves, labels=labels, top=1.04 * top, horizon=horizon, wide=wide)


def _label_ends(
    axes: Axes,
    *,
    curves: Mapping[str, Curve],
    labels: Sequence[str],
    top: float,
    horizon: int,
    wide: Collection[str],
) -> None:
    """Write each name at the end of its line, moved apart where lines end close together."""
    names = sorted(labels, key=lambda name: float(curves[name].mean[-1]))
    places = _spread_out([float(curves[name].mean[-1]) for name in names], gap=0.056 * top, top=top)
    for name, place in zip(names, places, strict=True):
        colour = WIDE_COLOUR if name in wide else STYLES.get(name, OTHER_STYLE)[0]
        axes.annotate(
            name,
            xy=(horizon, float(curves[name].mean[-1])),
            xytext=(1.05 * horizon, place),
            color=colour,
            va="center",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": colour,
                "linewidth": 0.7,
                "relpos": (0.0, 0.5),
                "shrinkA": 1,
                "shrinkB": 1,
            },
        )


def _spread_out(places: Sequence[float], *, gap: float, top: float) -> list[float]:
    """Return ascending `places` at least `gap` apart: crowded ones spread around their mean."""
    groups: list[list[float]] = []
    for place in places:
        groups.append([place])
        while len(groups) > 1 and _low_end(groups[-1], gap, top) < _high_end(groups[-2], gap, top):
            last = groups.pop()
            groups[-1].extend(last)
    return [
        _low_end(group, gap, top) + gap * (index + 0.5)
        for group in groups
        for index in range(len(group))
    ]


def _low_end(group: Sequence[float], gap: float, top: float) -> float:
    size = gap * len(group)
    return max(0.0, min(sum(group) / len(group) - size / 2, top - size))


def _high_end(group: Sequence[float], gap: float, top: float) -> float:
    return _low_end(group, gap, top) + gap * len(group)
