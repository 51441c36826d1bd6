"""The levels that the paper's own iteration counts cost, step by step (erratum 10)."""

from __future__ import annotations

from dataclasses import dataclass

from helba.bandits.settings import MOST_ROUNDS, Settings
from helba.errors import require_whole
from helba.reference.numerics.compare import (
    compare_iterations,
    levels_per_iteration,
    maximum_iterations,
    paper_compare_iterations,
    paper_maximum_iterations,
)
from helba.reference.numerics.inverse import MATRIX_PRODUCT_LEVELS, cold_iterations
from helba.reference.numerics.root import root_iterations, root_levels
from helba.reference.twin.paper import argmax_precision, inverse_floor, root_interval

# An inner product x^T A x of encrypted values: two products, and one to spread x over the rows.
FORM_LEVELS = 3


@dataclass(frozen=True, kw_only=True)
class DepthRow:
    """One step of the algorithm: its iterations and the levels they cost."""

    step: str
    iterations: int
    levels: int
    note: str


def paper_depths(settings: Settings, *, round: int) -> list[DepthRow]:
    """Return the depth of every step in round `round`, by the paper's counts, and the total.

    Where the paper's count misses the error it claims (amax, erratum 2) the note gives one that
    reaches it.
    """
    require_whole("round", round, least=1, most=MOST_ROUNDS)
    precision = argmax_precision(round)
    inverse = cold_iterations(
        ridge=settings.ridge,
        trace_bound=settings.ridge * settings.dim + settings.length**2 * round,
        error=inverse_floor(settings, batch_start=round) / settings.length**2,
    )
    low, high = root_interval(settings, batch_start=round)
    root = root_iterations(low=low, high=high, error=1.0 / round)
    maximum = paper_maximum_iterations(error=precision)
    compare = paper_compare_iterations(error=precision)
    step, others = levels_per_iteration(1), settings.arms - 1
    reach = settings.length**2 * (1.0 / settings.ridge + settings.ridge**-0.5) * round
    trace = compare_iterations(gap=1.0 / (4.0 * round * reach), error=0.45)
    needed = maximum_iterations(error=precision, arms=settings.arms)
    enough = compare_iterations(gap=precision, error=precision)
    per_round = [
        DepthRow(
            step="index: x^T A x",
            iterations=1,
            levels=FORM_LEVELS,
            note="products of encrypted values",
        ),
        DepthRow(
            step="root",
            iterations=root,
            levels=root_levels(root),
            note="k0(1/t) as proven (erratum 3)",
        ),
        DepthRow(
            step="amax",
            iterations=maximum,
            levels=others * (maximum * step + 1),
            note=f"one arm after the other; the error needs {needed} iterations (erratum 2)",
        ),
        DepthRow(
            step="NewComp",
            iterations=compare,
            levels=compare * step,
            note=f"{enough} iterations suffice",
        ),
    ]
    per_update = [
        DepthRow(
            step="inverse",
            iterations=inverse,
            levels=MATRIX_PRODUCT_LEVELS * inverse,
            note="k1(eps_t), two levels a matrix product",
        ),
        DepthRow(
            step="trace test",
            iterations=trace,
            levels=FORM_LEVELS + trace * step,
            note="a comparison of its own, beside the round",
        ),
    ]
    chain = [per_update[0], *per_round]
    total = DepthRow(
        step="total",
        iterations=sum(row.iterations for row in chain),
        levels=sum(row.levels for row in chain),
        note="inverse, index and argmax in one chain; the paper set 100",
    )
    return [per_update[0], *per_round, per_update[1], total]
