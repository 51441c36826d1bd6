"""What a round and an update of the paper's profile do, as steps with their costs.

Iteration counts are those that reach the paper's precisions at the last round (errata 2 and 3), one
arm after the other. No ring carries such a round without refreshes: its steps are single iterations
so that a refresh can come between any two. A round is index, root, amax and NewComp, and then, from
vectors that are fresh, the statistics of the arm played and the update test. Where vectors of
different depth meet, the chain takes the shallower for refreshed: the circuits
(`circuits.paper_round`) refresh no more often than it says.
"""

from __future__ import annotations

from dataclasses import replace

from helba.bandits.settings import Settings
from helba.reference.numerics.compare import compare_iterations, maximum_iterations
from helba.reference.numerics.inverse import cold_iterations
from helba.reference.numerics.root import root_iterations
from helba.reference.planning.bounds.noise import NoiseModel
from helba.reference.planning.cost.chain import REFRESH_LEVELS, Step
from helba.reference.planning.cost.compare_cost import comparison_order, tie_growth
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.cost.polynomial import Affine, polynomial_cost
from helba.reference.planning.cost.workload import inverse_steps, root_steps
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.packing import cyclic_cost, next_power_of_two
from helba.reference.planning.layout.paper_packing import PaperLayout
from helba.reference.planning.layout.stages import Stages, count_rotations
from helba.reference.planning.parameters import Parameters
from helba.reference.twin.depth import FORM_LEVELS
from helba.reference.twin.paper import (
    UPDATE_THRESHOLD,
    argmax_precision,
    inverse_floor,
    root_interval,
)

_PLAIN = polynomial_cost(comparison_order(1))
_HALVED = polynomial_cost(comparison_order(1), outputs=(Affine(alpha=0.5),))


def paper_round_steps(settings: Settings, *, matrices: MatrixLayout) -> tuple[Step, ...]:
    """Return the steps of the last round: index, root, amax, NewComp, statistics, update test."""
    horizon = settings.horizon
    layout = PaperLayout(dim=settings.dim, arms=settings.arms)
    steps = [_index_step(layout, bonus=settings.bonus)]
    if settings.bonus == "sqrt":
        low, high = root_interval(settings, batch_start=horizon)
        count = root_iterations(low=low, high=high, error=1.0 / horizon)
        steps += root_steps(high=high, iterations=count)
    steps += _argmax_steps(arms=settings.arms, precision=argmax_precision(horizon))
    statistics = Cost(levels=1, products=2)
    steps.append(Step(name="statistics", cost=statistics, state=0, starts_fresh=True))
    if settings.schedule == "trace":
        steps += _test_steps(settings, matrices=matrices)
    return tuple(steps)


def paper_test_gap(settings: Settings, *, round: int, plays: int) -> tuple[float, float]:
    """Return how far the trace can reach after `plays` rounds, and the gap of its comparison."""
    ridge = settings.ridge
    reach = settings.length**2 * (1.0 / ridge + ridge**-0.5) * plays
    return reach, 1.0 / (4.0 * round * reach)


def paper_tie_noise(settings: Settings, *, parameters: Parameters) -> float:
    """Return what the longest comparison of a round makes of noise at a tie."""
    precision = argmax_precision(settings.horizon)
    iterations = max(
        maximum_iterations(error=precision, arms=settings.arms),
        compare_iterations(gap=precision, error=precision),
        _test_iterations(settings) if settings.schedule == "trace" else 0,
    )
    slots = PaperLayout(dim=settings.dim, arms=settings.arms).slots
    fresh = NoiseModel(parameters).encryption(slots)  # of a refresh on the way
    return fresh * tie_growth(1, iterations=iterations)


def paper_inverse_steps(settings: Settings, *, matrices: MatrixLayout) -> tuple[Step, ...]:
    """Return the Newton steps from I/c at the last round.

    The statistics were multiplied, so that they begin a level down. The first step is a product of
    V with itself and a multiple of V, both of which the next one takes.
    """
    count = cold_iterations(
        ridge=settings.ridge,
        trace_bound=settings.ridge * settings.dim + settings.length**2 * settings.horizon,
        error=inverse_floor(settings, batch_start=settings.horizon) / settings.length**2,
    )
    first, second, *others = inverse_steps(matrices, newton_steps=max(2, count) - 1)
    multiplied = Cost(levels=1, plain_products=1) + first.cost
    return (
        replace(first, name="Newton step", cost=multiplied),
        replace(second, state=2),
        *others,
    )


def _index_step(layout: PaperLayout, *, bonus: str) -> Step:
    """x_i x_j A_ij and x_j w_j, summed over an arm's slots, masked and spread: apart for a root."""
    stages: list[Stages] = [layout.sum_entries, layout.spread]
    if bonus == "sqrt":
        stages += [layout.sum_columns, layout.spread]
    groups = tuple(len(stage) for one in stages for stage in one)
    cost = Cost(
        levels=FORM_LEVELS, products=3, plain_products=2, rotations=count_rotations(*stages)
    )
    return Step(name="index", cost=cost, groups=groups)


def _argmax_steps(*, arms: int, precision: float) -> list[Step]:
    """amax arm by arm, its maximum spread if there are more than two, and NewComp."""
    count = max(1, maximum_iterations(error=precision, arms=arms))
    close = _HALVED + Cost(levels=1, products=1, plain_products=2)
    costs = [*[_PLAIN] * (count - 1), close]
    moved = Cost(rotations=1)
    steps = [
        Step(name="amax", cost=cost + moved if first else cost, starts_fresh=first)
        for _ in range(arms - 1)
        for first, cost in zip([True, *[False] * (count - 1)], costs, strict=True)
    ]
    if arms > 2:
        spread = Cost(levels=1, plain_products=1)
        spread += cyclic_cost(count=next_power_of_two(arms), radix=2)
        steps.append(Step(name="amax", cost=spread, starts_fresh=True))
    count = max(1, compare_iterations(gap=precision, error=precision))
    steps += [Step(name="NewComp", cost=_PLAIN) for _ in range(count - 1)]
    return [*steps, Step(name="NewComp", cost=_HALVED)]


def _test_steps(settings: Settings, *, matrices: MatrixLayout) -> list[Step]:
    """The trace of A and the growth, iterations, and the levels that opening the result needs."""
    sums = tuple(len(stage) for stage in matrices.sum_all)
    trace = Cost(levels=1, products=1, plain_products=1, rotations=sum(sums))
    steps = [Step(name="update test", cost=trace, groups=sums)]
    count = _test_iterations(settings)
    steps += [Step(name="update test", cost=_PLAIN) for _ in range(count - 1)]
    steps.append(Step(name="update test", cost=_HALVED))
    return [*steps, Step(name="opening", cost=Cost(levels=REFRESH_LEVELS), state=0)]


def _test_iterations(settings: Settings) -> int:
    _, gap = paper_test_gap(settings, round=settings.horizon, plays=settings.horizon)
    return max(1, compare_iterations(gap=gap, error=UPDATE_THRESHOLD))
