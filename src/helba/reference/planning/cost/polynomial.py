"""At which level each step of an `EvaluationOrder` happens, and what it costs.

An output is alpha * p(x) + beta, with numbers or one number for each slot. alpha multiplies the
coefficients of the polynomial inside the order, so it costs no level; a number gives products with
numbers, a slot vector products with plaintexts. Several outputs share all that alpha leaves alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from helba.reference.numerics.composite import CompositeSign
from helba.reference.numerics.evaluation import Combination, EvaluationOrder, Product, is_addition
from helba.reference.planning.cost.cost import Cost

Coefficient = float | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Affine:
    """The output alpha * p(x) + beta."""

    alpha: Coefficient = 1.0
    beta: Coefficient = 0.0


PLAIN = Affine()
# Stands for any slot vector where only the cost matters.
SLOTWISE = Affine(alpha=np.ones(1))


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """For one alpha: `levels[i]` over the input at which value i is made, whether it is scaled.

    `own` counts the products for scaled values, made again for every output, `shared` those for
    the others, made once; neither counts levels.
    """

    levels: tuple[int, ...]
    scaled: tuple[bool, ...]
    own: Cost
    shared: Cost


def coefficients_of(
    step: Combination, *, alpha: Coefficient, scaled: Sequence[bool]
) -> list[tuple[int, Coefficient]]:
    """Return the terms of `step` for the polynomial times alpha."""
    if not step.scaled:
        return list(step.terms)
    return [(i, c if scaled[i] else c * alpha) for i, c in step.terms]


def schedule(order: EvaluationOrder, *, alpha: Coefficient = 1.0) -> Schedule:
    """Return for every step the last level that does not delay the result.

    Deeper is cheaper. A combination lands on the level of its partner in a product and need not be
    brought there, and products that are added up meet at one level and are relinearised together.
    """
    # No array is free, whatever stands in it: one schedule serves all.
    known = None if isinstance(alpha, np.ndarray) else float(alpha)
    return _known_schedule(order, known)


@lru_cache(maxsize=256)
def _known_schedule(order: EvaluationOrder, alpha: float | None) -> Schedule:
    return _schedule(order, SLOTWISE.alpha if alpha is None else alpha)


def _schedule(order: EvaluationOrder, alpha: Coefficient) -> Schedule:
    least, scaled = [0], [False]
    own, shared = Cost(), Cost()
    for step in order.steps:
        if isinstance(step, Product):
            least.append(1 + max(least[step.left], least[step.right]))
            scaled.append(scaled[step.left])
            work = Cost(products=1)
        else:
            terms = coefficients_of(step, alpha=alpha, scaled=scaled)
            least.append(max(least[i] + (not _is_free(c)) for i, c in terms))
            scaled.append(step.scaled)
            work = Cost(plain_products=sum(not _is_free(c) for _, c in terms))
        if scaled[-1]:
            own += work
        else:
            shared += work
    return Schedule(
        levels=tuple(_delayed(order, least, alpha=alpha, scaled=scaled)),
        scaled=tuple(scaled),
        own=own,
        shared=shared,
    )


def polynomial_cost(order: EvaluationOrder, *, outputs: Sequence[Affine] = (PLAIN,)) -> Cost:
    """Cost of all outputs of one polynomial."""
    plans = [schedule(order, alpha=output.alpha) for output in outputs]
    total = Cost(levels=max(plan.levels[-1] for plan in plans)) | plans[0].shared
    for plan in plans:
        total |= plan.own
    return total


def sign_cost(sign: CompositeSign, *, outputs: Sequence[Affine] = (PLAIN,)) -> Cost:
    """Cost of a composite sign; only its last stage is made once for each output."""
    total = Cost()
    for order in sign.orders[:-1]:
        total += polynomial_cost(order)
    return total + polynomial_cost(sign.orders[-1], outputs=outputs)


def _is_free(coefficient: Coefficient) -> bool:
    return isinstance(coefficient, int | float) and is_addition(coefficient)


def _delayed(
    order: EvaluationOrder, least: Sequence[int], *, alpha: Coefficient, scaled: Sequence[bool]
) -> list[int]:
    """The level of each value: the shallowest at which one of its users works, from the end."""
    wanted = [least[-1]] * len(least)
    for made in range(len(order.steps), 0, -1):
        step, level = order.steps[made - 1], wanted[made]
        if isinstance(step, Product):
            uses = [(step.left, level - 1), (step.right, level - 1)]
        else:
            terms = coefficients_of(step, alpha=alpha, scaled=scaled)
            uses = [(i, level - (not _is_free(c))) for i, c in terms]
        for i, use in uses:
            wanted[i] = min(wanted[i], use)
    return [0, *wanted[1:]]
