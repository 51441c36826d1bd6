"""What the comparing circuits cost: argmax, update test, the paper's comparisons, root.

Counted with neither refresh nor lowering: those are the engine's business. A refresh changes the
level at which a result ends, never the number of products.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from helba.errors import require_choice, require_whole
from helba.reference.numerics.argmax import METHODS
from helba.reference.numerics.compare import compare_iterations, maximum_iterations, slope_at_zero
from helba.reference.numerics.composite import CompositeSign
from helba.reference.numerics.evaluation import EvaluationOrder, evaluation_order, is_addition
from helba.reference.numerics.root import root_levels
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.cost.polynomial import (
    PLAIN,
    SLOTWISE,
    Affine,
    polynomial_cost,
    sign_cost,
)
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.packing import cyclic_cost, next_power_of_two
from helba.reference.planning.layout.score import ScoreLayout
from helba.reference.planning.layout.stages import count_rotations, distinct_steps, steps_of


def argmax_cost(
    layout: ScoreLayout, *, sign: CompositeSign, method: str, riding: bool = False
) -> Cost:
    """Cost from differences of scores to the comparison vector, the update test riding or not."""
    require_choice("method", method, METHODS)
    wins = sign_cost(sign, outputs=(SLOTWISE,))
    count = layout.padded_arms
    if layout.columns == 1:
        return wins
    if method == "sum" or layout.arms == 2:
        return wins + cyclic_cost(count=count, radix=layout.radix)
    tree = Cost(levels=1, products=1, rotations=1).times(count.bit_length() - 1)
    return wins + tree + Cost(plain_products=1 if riding else 0)


def trace_rotations(layout: MatrixLayout) -> tuple[int, ...]:
    """Return the steps of the update test on its own, all among those of `layout`."""
    return distinct_steps(steps_of(layout.sum_all), slots=layout.size)


def trace_cost(
    layout: MatrixLayout, *, sign: CompositeSign, reach: float = 1.0, idle: bool = False
) -> Cost:
    """Cost of the update test on its own, above the deeper of its operands.

    `idle` if the operands differ in level, so that the division by the reach falls on a level that
    the shallower one leaves idle; if 1/reach is an integer up to 4, there is nothing to divide.
    """
    scaling = Cost()
    if not is_addition(1.0 / reach):
        scaling = Cost(levels=0 if idle else 1, plain_products=1)
    trace = Cost(levels=1, products=1, rotations=count_rotations(layout.sum_all))
    return scaling + trace + sign_cost(sign)


@lru_cache(maxsize=8)
def comparison_order(n: int) -> EvaluationOrder:
    """Return the order of f_n(x) = sum_i 4^-i binom(2i, i) x (1 - x^2)^i, i = 0..n, n = 1..4."""
    require_whole("n", n, least=1, most=4)
    odd = [Fraction(0)] * (n + 1)  # of x^(2k + 1): (1 - x^2)^i has (-1)^k binom(i, k) x^(2k)
    for i in range(n + 1):
        weight = Fraction(math.comb(2 * i, i), 4**i)
        for k in range(i + 1):
            odd[k] += weight * (-1) ** k * math.comb(i, k)
    return evaluation_order([float(c) for c in odd], basis="power")


def iterate_cost(*, n: int, iterations: int, output: Affine = PLAIN) -> Cost:
    """Cost of f_n applied `iterations` times, at least once; `output` is the last one's."""
    order = comparison_order(n)
    return polynomial_cost(order).times(iterations - 1) + polynomial_cost(order, outputs=(output,))


def tie_growth(n: int, *, iterations: int) -> float:
    """Return c_n^k, by which k iterations of f_n multiply noise near a tie; c_n = f_n'(0).

    The noise of CKKS is complex. f_n draws what is real to -1 or 1, but away from 0 on the
    imaginary axis it only grows: c_n^k times the noise of an iteration must stay below about 1e-2,
    or the result diverges (at 45 bits 50 iterations of f_1 survive a tie, 55 do not).
    """
    require_whole("iterations", iterations, least=0, most=1000)
    return slope_at_zero(n) ** iterations


def new_comp_cost(*, gap: float, error: float, n: int = 1) -> Cost:
    """Cost of one comparison, in as many slots as wanted."""
    count = max(1, compare_iterations(gap=gap, error=error, n=n))
    return iterate_cost(n=n, iterations=count, output=Affine(alpha=0.5))


def amax_cost(*, error: float, arms: int, n: int = 1) -> Cost:
    """Cost of the maximum of `arms` vectors, one after the other."""
    count = max(1, maximum_iterations(error=error, arms=arms, n=n))
    half_sign = iterate_cost(n=n, iterations=count, output=Affine(alpha=0.5))
    return (half_sign + Cost(levels=1, products=1, plain_products=2)).times(arms - 1)


def acomp_cost(*, error: float, arms: int, n: int = 1) -> Cost:
    """Cost of the comparison vector by amax and NewComp, with the arms in the slots of a vector."""
    top = amax_cost(error=error, arms=arms, n=n) + Cost(rotations=arms - 1)
    if arms > 2:
        spreading = cyclic_cost(count=next_power_of_two(arms), radix=2)
        top += Cost(levels=1, plain_products=1) + spreading
    return top + new_comp_cost(gap=error, error=error, n=n)


def acomp_rotations(arms: int, *, stride: int = 1) -> tuple[int, ...]:
    """Return the steps of `acomp`; powers of two that spread a slot are among them."""
    require_whole("arms", arms, least=2, most=1 << 10)
    require_whole("stride", stride, least=1, most=1 << 20)
    return tuple(range(stride, stride * arms, stride))


def root_cost(*, high: float, iterations: int) -> Cost:
    """Cost of `iterations` steps of the square root on [low, high]."""
    starts = (1.0 / math.sqrt(high), 0.5 / high)[: 1 + min(1, iterations)]
    return Cost(
        levels=root_levels(iterations),
        products=3 * iterations - 2 if iterations else 0,
        plain_products=sum(not is_addition(start) for start in starts),
    )
