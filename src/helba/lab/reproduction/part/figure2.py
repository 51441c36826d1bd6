"""Figure 2: the regret of HELBA at 128, 192 and 256 bits of security, really encrypted."""

from __future__ import annotations

from pathlib import Path

from helba.lab.reproduction.drawing.panel import write_table
from helba.lab.reproduction.drawing.picture import Dashes, Line, draw_lines
from helba.lab.reproduction.part.security_level import (
    LevelPlay,
    level_plays,
    level_units,
    say_how_much,
)
from helba.lab.reproduction.part.toy import ENGINE_NAMES, describe_run
from helba.lab.reproduction.scope import Scope
from helba.lab.reproduction.section import Figure, Section, Table
from helba.lab.reproduction.unit import Results, Unit

LOOKS: dict[int, tuple[str, Dashes, str]] = {
    128: ("#D55E00", "-", "o"),
    192: ("#0072B2", "--", "s"),
    256: ("#009E73", "-.", "^"),
}


def units(scope: Scope) -> list[Unit]:
    """Return one run at every level of security."""
    return list(level_units(scope).values())


def assemble(results: Results, *, scope: Scope, folder: Path) -> Section:
    """Draw the regret at every level and compare the arms with those at 128 bits."""
    plays = level_plays(results, scope=scope)
    first = plays[0].play.arms
    differ = {
        found.kappa: sum(a != b for a, b in zip(found.play.arms, first, strict=True))
        for found in plays
    }
    if any(differ.values()):
        said = "The arms differ in some rounds; the table says in how many."
    else:
        said = "Every level played the same arms, so that the three lines are one."
    table = _table(plays, differ=differ)
    write_table(table, folder=folder)
    return Section(
        name="figure2",
        title="Figure 2: regret and the level of security",
        paragraphs=[
            say_how_much(scope),
            f"{said} The level should have no influence on regret, as in the paper.",
        ],
        tables=[table],
        figures=[_figure(plays, folder=folder)],
        runs=[describe_run(unit, results=results) for unit in units(scope)],
    )


def _table(plays: list[LevelPlay], *, differ: dict[int, int]) -> Table:
    return Table(
        name="regret-by-security",
        caption="Regret at every level of security, on the same draw.",
        columns=(
            *("kappa", "engine", "rounds", "regret", "updates", "agreement_with_twin"),
            "arms_that_differ_from_128",
        ),
        rows=[
            [
                *(found.kappa, found.play.engine, found.rounds, found.play.regret, found.updates),
                *(found.play.report["agreement"], differ[found.kappa]),
            ]
            for found in plays
        ],
    )


def _figure(plays: list[LevelPlay], *, folder: Path) -> Figure:
    lines = []
    for found in plays:
        colour, dashes, marker = LOOKS[found.kappa]
        lines.append(
            Line(
                label=f"{found.kappa} bits, {ENGINE_NAMES[found.play.engine]}",
                places=list(range(found.rounds + 1)),
                values=[0.0, *found.play.regrets],
                colour=colour,
                dashes=dashes,
                marker=marker,
            )
        )
    seed = plays[0].play.seed
    title = f"toy problem, seed {seed}: HELBA at three levels of security"
    png, svg = draw_lines(lines, title=title, path=folder / "figure2.png")
    rows = Table(
        name="figure2",
        caption="",
        columns=("kappa", "engine", "seed", "round", "arm", "regret", "updates"),
        rows=[
            [found.kappa, found.play.engine, seed, number, *values]
            for found in plays
            for number, values in enumerate(
                zip(found.play.arms, found.play.regrets, found.play.updates, strict=True), start=1
            )
        ],
    )
    caption = "Cumulative regret of one draw at each level."
    return Figure(caption=caption, png=png, svg=svg, rows=write_table(rows, folder=folder))
