"""Bounds beside what was observed: updates, regret, and the depth of the paper's own counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from helba.bandits.bounds import growth_bound, switch_bound
from helba.bandits.schedule import UpdateSchedule
from helba.bandits.settings import Settings
from helba.lab.plan.depth import tabulate_depth
from helba.lab.reproduction.drawing.panel import write_table
from helba.lab.reproduction.drawing.picture import Line, draw_lines
from helba.lab.reproduction.part.toy import (
    BONUSES,
    Play,
    encrypted_plays,
    encrypted_units,
    plain_plays,
    plain_unit,
)
from helba.lab.reproduction.scope import Scope
from helba.lab.reproduction.section import Figure, Section, Table
from helba.lab.reproduction.unit import Results, Unit
from helba.lab.runner import policy_for, settings_for
from helba.problems import make_problem
from helba.reference.twin.bounds import paper_batch_bound, paper_regret_bound

PLAIN = ("oful", "rsoful", "rsoful-tr", *BONUSES)
COLOURS = {
    "oful": "#000000",
    "rsoful": "#56B4E9",
    "helba": "#D55E00",
    "helba-sqrt": "#E69F00",
}
# Horizons of the curve of bounds: past the toy problem's, since there they say nothing yet.
HORIZONS = tuple(round(10 ** (power / 4)) for power in range(4, 25))


def units(scope: Scope) -> list[Unit]:
    """Return the runs of Figure 1, whose updates and regret are observed."""
    wanted = [plain_unit(algorithm, scope=scope) for algorithm in PLAIN]
    for algorithm in BONUSES:
        wanted += encrypted_units(algorithm, scope=scope)
    return wanted


def assemble(results: Results, *, scope: Scope, folder: Path) -> Section:
    """Put every bound beside the largest value that was seen."""
    settings = _settings(scope.horizon, seed=scope.seed)
    groups = [plain_plays(results, algorithm=name, scope=scope) for name in PLAIN]
    for name in BONUSES:
        plays = encrypted_plays(results, algorithm=name, scope=scope)
        engines = dict.fromkeys(play.engine for play in plays)
        groups += [[play for play in plays if play.engine == engine] for engine in engines]
    tables = [
        _observed_table(groups),
        _update_table(groups, settings=settings),
        _depth_table(scope.horizon),
    ]
    for table in tables:
        write_table(table, folder=folder)
    forced, premises = growth_updates(settings), paper_regret_bound(settings)
    return Section(
        name="bounds",
        title="Bounds beside observations",
        paragraphs=[
            "The runs are those of Figure 1. Bounds on updates are proven, but for the one as "
            "printed in the paper; on ciphertexts they presume that noise stays within the plan's "
            "bound of eight standard deviations. Bounds on regret hold with probability "
            f"{1.0 - settings.delta:g} at least, less that of clipping a reward. "
            f"{_say_what_is_passed(groups)}",
            f"The growth rule alone forces {forced} updates in {scope.horizon} rounds with eta = "
            f"{settings.growth:g}; the paper tells about 20 (erratum 16) for HELBA and 11 for "
            "RSOFUL and RSOFUL-Tr.",
            "On the toy problem the regret bounds of HELBA are no better than 2 S L T, the most "
            f"that {scope.horizon} rounds can cost: they say nothing at this horizon, and the "
            "figure "
            "shows from which one on they do. The paper's theorem does "
            f"{'' if premises.applies else 'not '}apply to it: it needs lambda >= L^2 "
            "(erratum 12).",
        ],
        tables=tables,
        figures=[_bound_figure(scope, groups=groups, folder=folder)],
    )


def growth_updates(settings: Settings) -> int:
    """Return how many updates the growth rule alone forces over the horizon."""
    schedule, count = UpdateSchedule(settings, lag=0), 0
    for number in range(1, settings.horizon + 1):
        if schedule.due(round=number, passed=False):
            schedule.restart(round=number)
            count += 1
    return count


def split_updates(updates: Sequence[int], *, settings: Settings) -> tuple[int, int]:
    """Return how many updates the growth rule had made due, and how many only the trace rule.

    `updates` are the counts after every round.
    """
    schedule = UpdateSchedule(settings, lag=0)
    by_growth = by_trace = before = 0
    for number, count in enumerate(updates, start=1):
        grown = schedule.due(round=number, passed=False)
        if count > before:
            schedule.restart(round=number)
            by_growth, by_trace = by_growth + grown, by_trace + (not grown)
        before = count
    return by_growth, by_trace


def _settings(horizon: int, *, seed: int) -> Settings:
    return settings_for(make_problem("toy", seed=seed), horizon=horizon)


def _observed_table(groups: Sequence[Sequence[Play]]) -> Table:
    rows = []
    for plays in groups:
        updates = [play.updates[-1] for play in plays]
        regrets = [play.regret for play in plays]
        count = len(plays)
        rows.append(
            [
                *(plays[0].algorithm, plays[0].engine, count),
                *(sum(updates) / count, max(updates), _least(plays, "update_bound")),
                *(sum(regrets) / count, max(regrets), _least(plays, "regret_bound")),
            ]
        )
    return Table(
        name="observed",
        caption="Updates and regret over the repetitions, beside what is proven for them.",
        columns=(
            *("algorithm", "engine", "repetitions", "updates", "updates_most", "updates_bound"),
            *("regret", "regret_most", "regret_bound"),
        ),
        rows=rows,
    )


def _least(plays: Sequence[Play], name: str) -> float | None:
    """The smallest bound of the runs: the one that is nearest to being passed."""
    values = [play.report[name] for play in plays]
    return None if None in values else min(values)


def _say_what_is_passed(groups: Sequence[Sequence[Play]]) -> str:
    """Return which runs went past a bound of their own."""
    passed = [
        f"{play.algorithm} ({play.engine}, seed {play.seed})"
        for plays in groups
        for play in plays
        if _passes(play.updates[-1], play.report["update_bound"])
        or _passes(play.regret, play.report["regret_bound"])
    ]
    if not passed:
        return "No run passed any of them."
    return f"PASSED by {len(passed)} runs, which should not be: {', '.join(passed)}."


def _passes(value: float, bound: float | None) -> bool:
    return bound is not None and value > bound


def _update_table(groups: Sequence[Sequence[Play]], *, settings: Settings) -> Table:
    by_trace, growth = switch_bound(settings), growth_bound(settings)
    batches = paper_batch_bound(settings)
    rows: list[list[Any]] = []
    for plays in groups:
        if plays[0].algorithm in BONUSES:
            split = [split_updates(play.updates, settings=settings) for play in plays]
            mean = [sum(parts) / len(plays) for parts in zip(*split, strict=True)]
            rows.append([f"{plays[0].algorithm}, observed", plays[0].engine, sum(mean), *mean])
    rows += [
        ["growth rule alone", None, growth_updates(settings), growth_updates(settings), 0],
        ["proven for exact computation", None, growth + by_trace, growth, by_trace],
        ["Prop. nb_batches without its factor 2 (erratum 7)", None, batches, None, None],
        ["as printed", None, 1.0 + growth + (batches - 1.0 - growth) / 2.0, None, None],
    ]
    return Table(
        name="updates",
        caption="Updates by the rule that made them due: growth, t >= (1 + eta) t_j, or else the "
        "trace test. The bounds count batches where the paper does.",
        columns=("what", "engine", "updates", "by_growth", "by_trace"),
        rows=rows,
    )


def _depth_table(horizon: int) -> Table:
    steps = tabulate_depth(horizon)
    columns = ("step", "iterations", "levels", "note")
    return Table(
        name="depth",
        caption=f"Levels of every step in round {horizon} with the paper's own iteration counts "
        "(erratum 10); the paper set a depth of 100.",
        columns=columns,
        rows=[[step[name] for name in columns] for step in steps],
    )


def _bound_figure(scope: Scope, *, groups: Sequence[Sequence[Play]], folder: Path) -> Figure:
    drawn: list[tuple[str, str, str, list[tuple[float, float]]]] = []
    for name, colour in COLOURS.items():
        drawn.append((name, "bound", colour, _bound_curve(name, seed=scope.seed)))
    everywhere = [_settings(horizon, seed=scope.seed) for horizon in HORIZONS]
    worst = [2.0 * one.parameter_bound * one.length * one.horizon for one in everywhere]
    drawn.append(("2 S L T", "bound", "#8A8A8A", list(zip(HORIZONS, worst, strict=True))))
    theorem = [paper_regret_bound(one).value for one in everywhere]
    label = "theorem as printed (does not apply)"
    drawn.append((label, "bound", "#CC79A7", list(zip(HORIZONS, theorem, strict=True))))
    for plays in groups:
        name, engine = plays[0].algorithm, plays[0].engine
        if name in COLOURS:
            regrets = zip(*(play.regrets for play in plays), strict=True)
            means = [sum(values) / len(plays) for values in regrets]
            seen = [(float(t), value) for t, value in enumerate(means, start=1) if value > 0.0]
            drawn.append((name, f"observed, {engine}", COLOURS[name], seen))
    dashes = {"bound": "-", "observed, plain": ":", "observed, simulate": "--"}
    png, svg = draw_lines(
        [
            Line(
                label=f"{name}, {kind}",
                places=[place for place, _ in points],
                values=[value for _, value in points],
                colour=colour,
                dashes=dashes.get(kind, "-."),
            )
            for name, kind, colour, points in drawn
            if points
        ],
        title="regret: bounds by horizon, and what was observed",
        path=folder / "regret-bounds.png",
        x="horizon (bounds) or round (observed)",
        y="regret",
        logarithmic=True,
    )
    rows = Table(
        name="regret-bounds",
        caption="",
        columns=("curve", "kind", "round", "regret"),
        rows=[[name, kind, *point] for name, kind, _, points in drawn for point in points],
    )
    caption = "Bounds on regret over horizons, and mean regret observed over rounds."
    return Figure(caption=caption, png=png, svg=svg, rows=write_table(rows, folder=folder))


def _bound_curve(algorithm: str, *, seed: int) -> list[tuple[float, float]]:
    curve = []
    for horizon in HORIZONS:
        settings = _settings(horizon, seed=seed)
        bound = policy_for(algorithm, settings=settings, problem_seed=seed).regret_bound()
        if bound is not None:
            curve.append((float(horizon), bound))
    return curve
