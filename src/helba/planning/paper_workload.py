"""What a round and an update of the paper's profile do, as steps with their costs.

Iteration counts are those that reach the paper's precisions at the last round (errata 2 and 3), one
arm after the other. No ring carries such a round without refreshes: its steps are single iterations
so that a refresh can come between any two.
"""

from __future__ import annotations

from helba.bandits.depth import FORM_LEVELS
from helba.bandits.paper import argmax_precision, inverse_floor, root_interval
from helba.bandits.settings import Settings
from helba.numerics.compare import compare_iterations, maximum_iterations
from helba.numerics.inverse import cold_iterations
from helba.numerics.root import root_iterations
from helba.planning.chain import Step
from helba.planning.compare_cost import comparison_order, tie_growth
from helba.planning.cost import Cost
from helba.planning.matrix import MatrixLayout
from helba.planning.noise import NoiseModel
from helba.planning.packing import next_power_of_two
from helba.planning.parameters import Parameters
from helba.planning.polynomial import Affine, polynomial_cost
from helba.planning.workload import inverse_steps, root_steps

__all__ = ["paper_inverse_steps", "paper_round_steps", "paper_tie_noise"]


def paper_round_steps(settings: Settings, *, matrices: MatrixLayout) -> tuple[Step, ...]:
    """Return the steps of the last round: index, root, amax, NewComp."""
    horizon = settings.horizon
    sums = tuple(len(stage) for stage in (*matrices.sum_rows, *matrices.sum_columns))
    index = Step(
        name="index",
        cost=Cost(levels=FORM_LEVELS, products=3, plain_products=1, rotations=sum(sums)),
        groups=sums,
    )
    steps = [index]
    if settings.bonus == "sqrt":
        low, high = root_interval(settings, batch_start=horizon)
        count = root_iterations(low=low, high=high, error=1.0 / horizon)
        steps += root_steps(high=high, iterations=count)
    precision = argmax_precision(horizon)
    plain = polynomial_cost(comparison_order(1))
    halved = polynomial_cost(comparison_order(1), outputs=(Affine(alpha=0.5),))
    count = max(1, maximum_iterations(error=precision, arms=settings.arms))
    arm = [Step(name="amax", cost=Cost(rotations=1) + plain, state=3)]
    arm += [Step(name="amax", cost=plain, state=3) for _ in range(count - 2)]
    close = halved + Cost(levels=1, products=1, plain_products=2)
    steps += (*arm, Step(name="amax", cost=close, state=3)) * (settings.arms - 1)
    count = max(1, compare_iterations(gap=precision, error=precision))
    steps += [Step(name="NewComp", cost=plain) for _ in range(count - 1)]
    return (*steps, Step(name="NewComp", cost=halved))


def paper_tie_noise(settings: Settings, *, parameters: Parameters) -> float:
    """Return what the longest comparison of a round makes of noise where two arms tie."""
    precision = argmax_precision(settings.horizon)
    iterations = max(
        maximum_iterations(error=precision, arms=settings.arms),
        compare_iterations(gap=precision, error=precision),
    )
    slots = next_power_of_two(settings.arms)
    fresh = NoiseModel(parameters).encryption(slots)  # of a refresh on the way
    return fresh * tie_growth(1, iterations=iterations)


def paper_inverse_steps(settings: Settings, *, matrices: MatrixLayout) -> tuple[Step, ...]:
    """Return the Newton steps from I/c at the last round."""
    count = cold_iterations(
        ridge=settings.ridge,
        trace_bound=settings.ridge * settings.dim + settings.length**2 * settings.horizon,
        error=inverse_floor(settings, batch_start=settings.horizon) / settings.length**2,
    )
    return inverse_steps(matrices, newton_steps=max(2, count))[1:]
