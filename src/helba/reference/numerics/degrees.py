"""Which degrees make the cheapest composition: fewest products, then levels, then least error.

A stage is known by what it makes of an error: `step(degree, error)` is the error after one more
stage, and never decreases with the error before. So of all prefixes with the same products and
levels only the one of least error matters, and a programme over (products, levels) is exhaustive.

Source: Lee, Lee and No (ePrint 2020/834), whose dynamic programme is over levels and degrees.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache

from helba.reference.numerics.evaluation import cost_of_degree

Step = Callable[[int, float], float]

_MAX_STAGE_DEGREE = 31


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """Degrees of a composition, their cost, and the float64 estimate of the error."""

    degrees: tuple[int, ...]
    products: int
    levels: int
    error: float


@cache
def useful_degrees() -> tuple[tuple[int, int, int], ...]:
    """(degree, levels, products) of odd degrees 3 to 31 that no higher degree undercuts."""
    priced = [(d, *cost_of_degree(d)) for d in range(3, _MAX_STAGE_DEGREE + 1, 2)]
    return tuple(
        (d, levels, products)
        for d, levels, products in priced
        if not any(e > d and lv <= levels and pr <= products for e, lv, pr in priced)
    )


def least_error(*, start: float, depth: int, step: Step) -> Candidate:
    """The composition of least error within `depth` levels, whatever its products."""
    best = Candidate(degrees=(), products=0, levels=0, error=start)
    reached = {0: best}
    for levels in range(1, depth + 1):
        for degree, cost, products in useful_degrees():
            before = reached.get(levels - cost)
            if before is None or degree != 2**cost - 1:  # the highest degree of these levels
                continue
            after = _extend(before, degree, (cost, products), step=step)
            if levels not in reached or after.error < reached[levels].error:
                reached[levels] = after
        if levels in reached and reached[levels].error < best.error:
            best = reached[levels]
    return best


def cheapest_degrees(*, start: float, target: float, depth: int, step: Step) -> Iterator[Candidate]:
    """Compositions within `depth` levels whose error is at most `target`, cheapest first.

    `start` is the error of the empty composition. A composition that is no cheaper and no better
    than an earlier one is left out.
    """
    kept: dict[tuple[int, int], Candidate] = {
        (0, 0): Candidate(degrees=(), products=0, levels=0, error=start)
    }
    rate = max(products / levels for _, levels, products in useful_degrees())
    for products in range(1, int(rate * depth) + 1):
        for levels in range(1, depth + 1):
            best: Candidate | None = None
            for degree, stage_levels, stage_products in useful_degrees():
                before = kept.get((products - stage_products, levels - stage_levels))
                if before is None:
                    continue
                after = _extend(before, degree, (stage_levels, stage_products), step=step)
                if best is None or after.error < best.error:
                    best = after
            if best is None or any(
                p <= products and lv <= levels and other.error <= best.error
                for (p, lv), other in kept.items()
            ):
                continue
            kept[products, levels] = best
            if best.error <= target:
                yield best


def _extend(before: Candidate, degree: int, cost: tuple[int, int], *, step: Step) -> Candidate:
    return Candidate(
        degrees=(*before.degrees, degree),
        products=before.products + cost[1],
        levels=before.levels + cost[0],
        error=step(degree, before.error),
    )
