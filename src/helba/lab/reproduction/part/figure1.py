"""Figure 1: regret on the toy problem, in the clear and encrypted, with both bonuses.

Every algorithm plays the same draws. HELBA's first repetitions are played on ciphertexts, the rest
in the simulator, and the two are never mixed in a line or a row without saying so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from helba.lab.comparison.compare import mean_and_error
from helba.lab.plots import Curve
from helba.lab.reproduction.drawing.panel import write_table
from helba.lab.reproduction.drawing.picture import Dashes, Line, draw_lines
from helba.lab.reproduction.paired import compare_paired
from helba.lab.reproduction.part.toy import (
    BONUSES,
    ENGINE_NAMES,
    Play,
    describe_run,
    encrypted_plays,
    encrypted_unit,
    encrypted_units,
    plain_plays,
    plain_unit,
    play_of,
)
from helba.lab.reproduction.scope import Scope
from helba.lab.reproduction.section import Figure, Section, Table
from helba.lab.reproduction.unit import Results, Unit

PLAIN = ("oful", "oful-tuned", "rsoful", "rsoful-tr", *BONUSES)
NAMES = {
    "oful": "OFUL",
    "oful-tuned": "OFUL, tuned radius",
    "rsoful": "RSOFUL",
    "rsoful-tr": "RSOFUL-Tr",
    "helba": "HELBA",
    "helba-sqrt": "HELBA, sqrt bonus",
}
COLOURS = {
    "oful": "#000000",
    "oful-tuned": "#0072B2",
    "rsoful": "#56B4E9",
    "rsoful-tr": "#009E73",
    "helba": "#D55E00",
    "helba-sqrt": "#E69F00",
}
DASHES: dict[str, Dashes] = {"rsoful": "--", "rsoful-tr": "-.", "oful-tuned": (0, (1, 1))}
MARKERS = {"ckks": "o", "simulate": "s"}
UPDATES_IN_THE_PAPER = {"rsoful": "11", "rsoful-tr": "11", "helba": "about 20"}


def units(scope: Scope) -> list[Unit]:
    """Return the plain algorithms, HELBA with both bonuses, and a sample of rounds if need be."""
    wanted = [plain_unit(algorithm, scope=scope) for algorithm in PLAIN]
    for algorithm in BONUSES:
        wanted += encrypted_units(algorithm, scope=scope)
    sample = _sample_unit(scope)
    return wanted if sample is None else [*wanted, sample]


def assemble(results: Results, *, scope: Scope, folder: Path) -> Section:
    """Draw the figure, write its rows, and compare every encrypted repetition with its twin."""
    plain = {name: plain_plays(results, algorithm=name, scope=scope) for name in PLAIN}
    encrypted = {name: encrypted_plays(results, algorithm=name, scope=scope) for name in BONUSES}
    groups = {name: _by_engine(plays) for name, plays in encrypted.items()}
    sample = _sample_unit(scope)
    behind = [unit for name in BONUSES for unit in encrypted_units(name, scope=scope)]
    tables = [
        _regret_table(scope, plain=plain, groups=groups),
        _paired_table(plain=plain, groups=groups),
        *([] if sample is None else [_sample_table(play_of(sample, results=results))]),
    ]
    for table in tables:
        write_table(table, folder=folder)
    return Section(
        name="figure1",
        title="Figure 1: regret on the toy problem",
        paragraphs=_paragraphs(scope, plain=plain, encrypted=encrypted),
        tables=tables,
        figures=[_figure(scope, plain=plain, groups=groups, folder=folder)],
        runs=[
            describe_run(unit, results=results)
            for unit in (behind if sample is None else [*behind, sample])
        ],
    )


def _sample_unit(scope: Scope) -> Unit | None:
    """A few rounds of the square-root bonus on ciphertexts, where no repetition plays all."""
    if not scope.sqrt_sample_rounds:
        return None
    return encrypted_unit(
        "helba-sqrt", scope=scope, engine=scope.engine, rounds=scope.sqrt_sample_rounds
    )


def _by_engine(plays: Sequence[Play]) -> dict[str, list[Play]]:
    groups: dict[str, list[Play]] = {}
    for play in plays:
        groups.setdefault(play.engine, []).append(play)
    return groups


def _paragraphs(
    scope: Scope, *, plain: dict[str, list[Play]], encrypted: dict[str, list[Play]]
) -> list[str]:
    count = scope.repetitions
    real = {name: sum(play.engine == "ckks" for play in plays) for name, plays in encrypted.items()}
    texts = [
        f"The paper's toy problem: d = 2, K = 2, four contexts, T = {scope.horizon}, sigma = 0.5, "
        f"C = 1, eta = 0.1, lambda = 1, L = 5.5; {count} repetitions. Repetition r plays the draw "
        f"of seed {scope.seed} + r, the same for every algorithm, so that differences of regret "
        "are differences of arms.",
        f"HELBA with the quadratic bonus played {real['helba']} of {count} repetitions on CKKS "
        f"ciphertexts, with the square root {real['helba-sqrt']} of {count}; the rest in the "
        "simulator, which runs the same protocol on exact numbers: it adds the flood, bounds the "
        "error of CKKS instead of making it, and encrypts nothing. Only repetitions on ciphertexts "
        "test CKKS itself. The legend and every row say which.",
    ]
    if not scope.really_encrypted:
        texts.append(
            "Nothing here was encrypted: the simulator was asked for in place of CKKS "
            "(--engine simulate)."
        )
    for name, plays in encrypted.items():
        for engine, group in _by_engine(plays).items():
            found = compare_paired(group, plain[name])
            texts.append(
                f"{NAMES[name]} on {ENGINE_NAMES[engine]} beside its plaintext twin on the same "
                f"draws: {found.describe()}."
            )
    texts.append(
        "HELBA's own bonus is quadratic and explores less than OFUL does with the radius of the "
        "theory; that, not encryption, makes its regret smaller. With OFUL's index, the square "
        "root, it plays as well as OFUL."
    )
    scale = plain["oful-tuned"][0].report["radius_scale"]
    texts.append(
        "OFUL is shown with the radius of the theory and with one tuned on ten other draws "
        f"({scale:g} times that of the theory): the strongest baseline, which nobody has who "
        "plays for the first time."
    )
    return texts


def _regret_table(
    scope: Scope, *, plain: dict[str, list[Play]], groups: dict[str, dict[str, list[Play]]]
) -> Table:
    rows = []
    for name in PLAIN:
        label = f"{NAMES[name]}, plaintext twin" if name in BONUSES else NAMES[name]
        rows.append(_regret_row(label, name=name, engine="plain", plays=plain[name]))
        for engine, plays in groups.get(name, {}).items():
            rows.append(_regret_row(NAMES[name], name=name, engine=engine, plays=plays))
    return Table(
        name="regret",
        caption=f"Regret after {scope.horizon} rounds: mean and standard error over the "
        "repetitions that were played that way; updates of the model, and those the paper tells.",
        columns=(
            *("algorithm", "engine", "repetitions", "regret", "se", "updates", "updates_most"),
            *("updates_paper", "agreement_with_twin", "seconds_per_round"),
        ),
        rows=rows,
    )


def _regret_row(label: str, *, name: str, engine: str, plays: Sequence[Play]) -> list[Any]:
    regret, error = mean_and_error([play.regret for play in plays])
    updates = [play.updates[-1] for play in plays]
    agreements = [play.report.get("agreement") for play in plays]
    known = [value for value in agreements if value is not None]
    seconds = [play.report["seconds"] / len(play.arms) for play in plays]
    return [
        *(label, engine, len(plays), regret, error, sum(updates) / len(updates), max(updates)),
        UPDATES_IN_THE_PAPER.get(name),
        sum(known) / len(known) if known and engine != "plain" else None,
        sum(seconds) / len(seconds),
    ]


def _paired_table(
    *, plain: dict[str, list[Play]], groups: dict[str, dict[str, list[Play]]]
) -> Table:
    rows = []
    for name, by_engine in groups.items():
        for engine, plays in by_engine.items():
            found = compare_paired(plays, plain[name])
            rows.append(
                [
                    *(NAMES[name], engine, found.count, found.different, found.rounds_different),
                    *(found.mean, found.error, found.largest, found.t_test, found.wilcoxon),
                    *(found.margin, found.describe()),
                ]
            )
    return Table(
        name="paired",
        caption="The protocol, on the engine that is named, minus its plaintext twin, repetition "
        "by repetition on the same draws: regret differences, two-sided p-values, and the margin "
        "within which two one-sided tests at 5 % put the mean difference. Where differences do not "
        "vary no test applies, and the words bound the share of draws that differ.",
        columns=(
            *(
                "algorithm",
                "engine",
                "repetitions",
                "repetitions_that_differ",
                "rounds_that_differ",
            ),
            *("mean_difference", "se", "largest_difference", "t_test_p", "wilcoxon_p", "margin"),
            "in_words",
        ),
        rows=rows,
    )


def _sample_table(play: Play) -> Table:
    report = play.report
    return Table(
        name="sqrt-sample",
        caption=f"The square-root bonus on {ENGINE_NAMES[play.engine]} for its first "
        f"{len(play.arms)} rounds only: a quick reproduction spares the rest. Parameters are those "
        "of the whole horizon.",
        columns=("engine", "rounds", "updates", "agreement", "seconds_per_round", "seconds_setup"),
        rows=[
            [
                *(play.engine, len(play.arms), play.updates[-1], report["agreement"]),
                *(report["seconds_per_round"], report["seconds_setup"]),
            ]
        ],
    )


def _figure(
    scope: Scope,
    *,
    plain: dict[str, list[Play]],
    groups: dict[str, dict[str, list[Play]]],
    folder: Path,
) -> Figure:
    lines = []
    for name in PLAIN:
        twin = name in BONUSES
        label = f"{NAMES[name]}, plain twin" if twin else NAMES[name]
        lines.append(_line(label, name=name, plays=plain[name], wide=twin))
    for name, by_engine in groups.items():
        for engine, plays in by_engine.items():
            label = f"{NAMES[name]}, {ENGINE_NAMES[engine]} ({len(plays)} of {scope.repetitions})"
            lines.append(_line(label, name=name, plays=plays, marker=MARKERS[engine]))
    title = f"toy problem: mean of the repetitions ± 2 standard errors (of {scope.repetitions})"
    png, svg = draw_lines(lines, title=title, path=folder / "figure1.png")
    every = [*plain.values(), *(plays for group in groups.values() for plays in group.values())]
    columns = ("algorithm", "engine", "repetition", "seed", "round", "arm", "regret", "updates")
    listed = list(_rows(every, scope=scope))
    rows = Table(name="figure1", caption="", columns=columns, rows=listed)
    caption = (
        f"Cumulative regret of {scope.repetitions} repetitions; lines with circles were played on "
        "ciphertexts, with squares in the simulator, each over its own repetitions; wide ones are "
        "the plaintext twins over all of them."
    )
    return Figure(caption=caption, png=png, svg=svg, rows=write_table(rows, folder=folder))


def _line(
    label: str,
    *,
    name: str,
    plays: Sequence[Play],
    marker: str | None = None,
    wide: bool = False,
) -> Line:
    curve = Curve.from_runs([np.array([0.0, *play.regrets]) for play in plays])
    return Line(
        label=label,
        places=list(range(len(curve.mean))),
        values=curve.mean.tolist(),
        error=curve.error.tolist() if len(plays) > 1 and not wide else None,
        colour=COLOURS[name],
        dashes=DASHES.get(name, "-"),
        marker=marker,
        wide=wide,
    )


def _rows(every: Sequence[Sequence[Play]], *, scope: Scope) -> Iterator[list[Any]]:
    for plays in every:
        for play in plays:
            values = zip(play.arms, play.regrets, play.updates, strict=True)
            for number, (arm, regret, updates) in enumerate(values, start=1):
                head = [play.algorithm, play.engine, play.seed - scope.seed, play.seed, number]
                yield [*head, arm, regret, updates]
