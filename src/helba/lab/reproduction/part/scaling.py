"""Growth of seconds and bytes with dimension, arms and horizon, with measured exponents.

For each size a few rounds and updates are measured on the encrypted engine, planned for `PLANNED`
rounds. An exponent is the slope of a least-squares line through the logarithms, with its standard
error: it describes the measured range and nothing beyond. Costs over long horizons are computed
from a measured round and a measured update, and the number of updates that the plaintext twin had;
every row says which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from helba.lab.reproduction.contention import say_disturbed
from helba.lab.reproduction.cost import Cost, fit_exponent, split_cost
from helba.lab.reproduction.drawing.panel import Curve, Panel, draw_panels, write_table
from helba.lab.reproduction.plaintext import clear_unit
from helba.lab.reproduction.play import command_of, play_single, run_of
from helba.lab.reproduction.scope import Scope
from helba.lab.reproduction.section import Figure, Section, Table
from helba.lab.reproduction.unit import Results, Unit

PROBLEM = "synthetic"
PLANNED = 1000
# Other sizes vary from this one in the dimension or in the arms.
BASE = 4
DIMS, QUICK_DIMS = (2, 4, 8, 16, 32), (2, 4, 16)
ARMS, QUICK_ARMS = (2, 4, 8, 16, 32, 64), (2, 4, 16, 64)
ROUNDS, QUICK_ROUNDS = 4, 3
BASE_ROUNDS, QUICK_BASE_ROUNDS = 64, 16
HORIZONS, QUICK_HORIZONS = (64, 256, 1024, 4096, 10_000), (64, 256, 1024)
# Draws over which the number of updates is averaged.
REPETITIONS = 3

Size = tuple[int, int]

QUANTITIES: dict[str, Callable[[Cost], float | None]] = {
    "seconds of a recommendation, server": lambda cost: cost.recommendation,
    "seconds of a round": lambda cost: cost.round,
    "seconds of an update": lambda cost: cost.update,
    "bytes up a round": lambda cost: cost.bytes_up,
    "bytes down a round": lambda cost: cost.bytes_down,
}


def units(scope: Scope) -> list[Unit]:
    """Return a run of every size on the encrypted engine, and the twin's long ones."""
    long = [
        clear_unit(
            _horizon_name(horizon),
            problem=PROBLEM,
            horizon=horizon,
            algorithm="helba",
            seed=scope.seed,
            repetitions=REPETITIONS,
            dim=BASE,
            arms=BASE,
        )
        for horizon in _horizons(scope)
    ]
    return [*(_size_unit(size, scope=scope) for size in _sizes(scope)), *long]


def assemble(results: Results, *, scope: Scope, folder: Path) -> Section:
    """Return the section; tables and figures go to `folder`."""
    costs = {size: split_cost(results[_size_name(size)]["rows"]) for size in _sizes(scope)}
    horizon_table = _horizon_table(results, scope=scope, cost=costs[BASE, BASE])
    tables = (
        _size_table(results, scope=scope, costs=costs),
        _exponent_table(horizon_table, scope=scope, costs=costs),
        horizon_table,
    )
    for table in tables:
        write_table(table, folder=folder)
    return Section(
        name="scaling",
        title="Cost against dimension, arms and horizon",
        paragraphs=[
            *_paragraphs(scope, costs=costs),
            *say_disturbed(
                {f"d = {d}, K = {k}": results[_size_name((d, k))] for d, k in _sizes(scope)}
            ),
        ],
        tables=tables,
        figures=(
            _size_figure(scope, costs=costs, folder=folder),
            _horizon_figure(horizon_table, folder=folder),
        ),
        runs=[
            run_of(results[unit.name], title=unit.title, command=unit.command)
            for unit in units(scope)
        ],
    )


def _by_dim(scope: Scope) -> list[Size]:
    return [(dim, BASE) for dim in (QUICK_DIMS if scope.quick else DIMS)]


def _by_arms(scope: Scope) -> list[Size]:
    return [(BASE, arms) for arms in (QUICK_ARMS if scope.quick else ARMS)]


def _sizes(scope: Scope) -> list[Size]:
    return list(dict.fromkeys([*_by_dim(scope), *_by_arms(scope)]))


def _horizons(scope: Scope) -> tuple[int, ...]:
    return QUICK_HORIZONS if scope.quick else HORIZONS


def _size_name(size: Size) -> str:
    return f"scaling-d{size[0]}-k{size[1]}"


def _horizon_name(horizon: int) -> str:
    return f"scaling-t{horizon}"


def _size_unit(size: Size, *, scope: Scope) -> Unit:
    rounds = QUICK_ROUNDS if scope.quick else ROUNDS
    if size == (BASE, BASE):
        rounds = QUICK_BASE_ROUNDS if scope.quick else BASE_ROUNDS
    dim, arms = size
    arguments = {
        "problem": PROBLEM,
        "dim": dim,
        "arms": arms,
        "horizon": PLANNED,
        "engine": scope.engine,
        "seed": scope.seed,
        "rounds": rounds,
    }
    return Unit(
        name=_size_name(size),
        title=f"d = {dim}, K = {arms}: {rounds} rounds, {scope.engine}",
        work=play_single,
        arguments=arguments,
        kind="ckks" if scope.really_encrypted else "light",
        seconds=10 + dim / 2 + rounds * (1.5 + dim / 8) if scope.really_encrypted else 3.0,
        command=command_of(arguments),
    )


def _size_table(results: Results, *, scope: Scope, costs: dict[Size, Cost]) -> Table:
    rows = []
    for size in _sizes(scope):
        found, cost = results[_size_name(size)], costs[size]
        parameters = found["parameters"]
        rows.append(
            [
                *size,
                parameters["ring_dim"],
                parameters["depth"],
                parameters["log2_qp"],
                *(quantity(cost) for quantity in QUANTITIES.values()),
                cost.update_bytes_up,
                cost.update_bytes_down,
                found["seconds_setup"],
                found["peak_memory_bytes"],
                cost.rounds,
                cost.updates,
                found["agreement"],
            ]
        )
    return Table(
        name="scaling-sizes",
        caption=(
            f"Every size, {_measured(scope)}: fresh arms, planned for T = {PLANNED}. The seconds "
            "of the first round are left out, they warm up; what an update adds is counted apart."
        ),
        columns=(
            "d",
            "K",
            "N",
            "depth",
            "log2 QP",
            *QUANTITIES,
            "bytes up an update",
            "bytes down an update",
            "seconds to set up",
            "peak memory, bytes",
            "rounds",
            "updates",
            "agreement with the twin",
        ),
        rows=rows,
    )


def _exponent_table(horizons: Table, *, scope: Scope, costs: dict[Size, Cost]) -> Table:
    rows: list[list[Any]] = []
    for letter, sizes, which in (("d", _by_dim(scope), 0), ("K", _by_arms(scope), 1)):
        for name, quantity in QUANTITIES.items():
            points = [(size[which], quantity(costs[size])) for size in sizes]
            rows.append([f"{name} ~ {letter}^a", *_law(points), _measured(scope)])
    computed = [row for row in horizons.rows if row[-1] == "computed"]
    for name, column in (("updates", 1), ("seconds of a round with its share of updates", 3)):
        points = [(row[0], row[column]) for row in computed]
        source = "computed from the twin's updates" if column == 3 else "the twin"
        rows.append([f"{name} ~ T^a", *_law(points), source])
    return Table(
        name="scaling-exponents",
        caption=(
            "Exponents, measured or computed as the last column says: slopes of least-squares "
            "lines through logarithms, with their "
            "standard errors. They hold for the range in the table; parameters change in steps, so "
            "a power law is a summary and not a model. R² is missing where nothing varies."
        ),
        columns=("law", "exponent a", "± se", "R²", "points", "from", "to", "source"),
        rows=rows,
    )


def _law(points: Sequence[tuple[float, float | None]]) -> list[Any]:
    known = [(x, y) for x, y in points if y is not None and y > 0]
    if len({x for x, _ in known}) < 2:
        return [None, None, None, len(known), None, None]
    x, y = [point[0] for point in known], [point[1] for point in known]
    law = fit_exponent(x, y)
    return [law.slope, law.error, law.r_squared, law.points, min(x), max(x)]


def _horizon_table(results: Results, *, scope: Scope, cost: Cost) -> Table:
    rows: list[list[Any]] = []
    played = results[_size_name((BASE, BASE))]["rows"]
    checks = [2**power for power in range(2, 20) if 2**power <= len(played)]
    for count in checks:
        row = played[count - 1]
        seconds = row["seconds"] / count
        rows.append([count, row["updates"], row["updates"] / count, seconds, _measured(scope)])
    for horizon in _horizons(scope):
        updates = results[_horizon_name(horizon)]["updates"]
        seconds_of = cost.seconds_per_round(updates=updates, horizon=horizon)
        rows.append([horizon, updates, updates / horizon, seconds_of, "computed"])
    return Table(
        name="scaling-horizon",
        caption=(
            f"Cost of a round against the horizon, d = K = {BASE}. "
            f"As {_measured(scope)}: the first T rounds of one run. Computed: a measured "
            f"round, and a measured update times the updates of the twin (mean of {REPETITIONS} "
            "draws)."
        ),
        columns=(
            "T",
            "updates",
            "updates a round",
            "seconds of a round with its share of updates",
            "how",
        ),
        rows=rows,
    )


def _measured(scope: Scope) -> str:
    return "measured on CKKS" if scope.really_encrypted else "simulated, nothing was encrypted"


def _paragraphs(scope: Scope, *, costs: dict[Size, Cost]) -> list[str]:
    spans = []
    for name, quantity in QUANTITIES.items():
        known = [value for value in map(quantity, costs.values()) if value]
        if known:
            spans.append(f"{name} by a factor of {max(known) / min(known):.3g}")
    paragraphs = [
        f"Over all sizes, from d = {min(d for d, _ in costs)} to {max(d for d, _ in costs)} and "
        f"from K = {min(k for _, k in costs)} to {max(k for _, k in costs)}, what varies: "
        f"{', '.join(spans)}. A whole number of ciphertexts is sent, and the planner chooses "
        "their ring and levels anew for each size, so costs move in steps.",
        "The growth rule makes the number of updates grow with the logarithm of T, so that a power "
        "of T is a summary of the range and no law. Updates become rare, and the cost of a round "
        f"falls towards that of a round without one. Parameters are those for T = {PLANNED} "
        "throughout; a plan for another T would choose its own.",
    ]
    if scope.quick:
        paragraphs.append("A quick report measures fewer sizes, and fewer rounds of each.")
    if not scope.really_encrypted:
        paragraphs.append(
            "This report was made with the simulator: nothing was encrypted, and neither seconds "
            "nor bytes are those of ciphertexts."
        )
    return paragraphs


def _size_figure(scope: Scope, *, costs: dict[Size, Cost], folder: Path) -> Figure:
    panels = []
    for letter, sizes, which in (("d", _by_dim(scope), 0), ("K", _by_arms(scope), 1)):
        ticks = [size[which] for size in sizes]
        for unit in ("seconds", "bytes"):
            curves = [
                _curve(name, [(size[which], quantity(costs[size])) for size in sizes])
                for name, quantity in QUANTITIES.items()
                if name.startswith(unit)
            ]
            fixed = f"K = {BASE}" if letter == "d" else f"d = {BASE}"
            title = f"{unit} against {letter}, {fixed}"
            panels.append(
                Panel(curves=curves, x=letter, y=unit, title=title, log=True, ticks=ticks)
            )
    return draw_panels(
        panels,
        name="scaling-sizes-figure",
        title="cost against dimension and arms",
        caption=f"Seconds and bytes against d and K, both axes logarithmic; {_measured(scope)}.",
        folder=folder,
    )


def _horizon_figure(table: Table, *, folder: Path) -> Figure:
    measured = [row for row in table.rows if row[-1] != "computed"]
    computed = [row for row in table.rows if row[-1] == "computed"]
    groups = [(group[0][-1], group) for group in (measured, computed) if group]
    panels = [
        Panel(
            curves=[_curve(how, [(row[0], row[column]) for row in group]) for how, group in groups],
            x="T",
            y=name,
            title=f"{name} against T",
            log=True,
        )
        for name, column in (("seconds of a round (updates included)", 3), ("updates", 1))
    ]
    return draw_panels(
        panels,
        name="scaling-horizon-figure",
        title=f"cost against the horizon, d = K = {BASE}",
        caption="Cost of a round with its share of updates, and updates, against the horizon.",
        folder=folder,
    )


def _curve(label: str, points: Sequence[tuple[float, float | None]]) -> Curve:
    known = [(x, y) for x, y in points if y is not None and y > 0]
    return Curve(label=label, x=[x for x, _ in known], y=[y for _, y in known], marked=True)
