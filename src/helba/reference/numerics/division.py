"""Which T_n an odd polynomial shares and by which it is divided: the search behind `evaluation`.

`best_plan(degree)` finds the fewest encrypted products among plans that end at the least level,
ceil(log2(degree + 1)). A plan holds for every polynomial of its degree.

Searched: shared sets of T_1, T_3, ..., T_b with some even T_m, and every division p = q T_m + r
in which q ends one level earlier than p. The sets are few, so they are tried one by one.

Source: Lee, Lee and No, "Minimax approximation of sign function by composite polynomial for
homomorphic comparison" (ePrint 2020/834). Their product counts are reached at every degree up to
31, and two are improved by dividing by T_6 and T_12: 7 at degree 17, 8 at degree 21.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import combinations

from helba.errors import InvalidInput

MAX_DEGREE = 63
_EVEN_CANDIDATES = (2, 4, 6, 8, 10, 12, 16, 20, 24, 32)
_ODD_CANDIDATES = (1, 3, 5, 7, 9)
_IMPOSSIBLE = 10**6


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Shared T_n with the level and the factors of each, and the divisor of every (degree, levels).

    A divisor of 0 says that the polynomial is a sum of shared T_k.
    """

    degree: int
    levels: int
    products: int
    level: Mapping[int, int]
    factors: Mapping[int, tuple[int, int]]
    divisor: Mapping[tuple[int, int], int]


def require_degree(name: str, degree: int) -> None:
    """Raise `InvalidInput` unless `degree` is odd and between 1 and `MAX_DEGREE`."""
    if int(degree) != degree or degree % 2 == 0 or not 1 <= degree <= MAX_DEGREE:
        raise InvalidInput(name, degree, f"an odd number from 1 to {MAX_DEGREE}")


def least_levels(degree: int) -> int:
    """ceil(log2(degree + 1)): no circuit ends earlier."""
    require_degree("degree", degree)
    return degree.bit_length()


@cache
def best_plan(degree: int) -> Plan:
    """The plan of fewest products at the least level."""
    levels = least_levels(degree)
    best: Plan | None = None
    even = [m for m in _EVEN_CANDIDATES if m < degree]
    for size in range(len(even) + 1):
        for top in _ODD_CANDIDATES:
            odd = tuple(range(3, min(top, degree) + 1, 2))
            if best is not None and size + len(odd) >= best.products:
                break
            for chosen in combinations(even, size):
                plan = _plan_with((*odd, *chosen), degree=degree, levels=levels)
                if plan is not None and (best is None or plan.products < best.products):
                    best = plan
    assert best is not None, "powers of two always give a plan"
    return best


def _plan_with(shared: tuple[int, ...], *, degree: int, levels: int) -> Plan | None:
    level = {1: 0}
    factors: dict[int, tuple[int, int]] = {}
    for n in sorted(shared):
        ways = [
            (max(level[a], level[n - a]) + 1, a, n - a)
            for a in level
            if n - a in level and (2 * a == n or 2 * a - n in level)
        ]
        if not ways:
            return None
        level[n], *pair = min(ways)
        factors[n] = (pair[0], pair[1])
    divisor: dict[tuple[int, int], int] = {}
    costs: dict[tuple[int, int], int] = {}

    def cost(part: int, budget: int) -> int:
        """Products that a polynomial of degree `part` needs to end at level `budget`."""
        if (part, budget) in costs:
            return costs[part, budget]
        least, best = _IMPOSSIBLE, 0
        if all(k in level and level[k] < budget for k in range(1, part + 1, 2)):
            least = 0
        else:
            for m in factors:
                if m % 2 == 0 and m < part and level[m] < budget:
                    total = 1 + cost(part - m, budget - 1) + cost(m - 1, budget)
                    if total < least:
                        least, best = total, m
        costs[part, budget], divisor[part, budget] = least, best
        return least

    products = len(shared) + cost(degree, levels)
    if products >= _IMPOSSIBLE:
        return None
    return Plan(
        degree=degree,
        levels=levels,
        products=products,
        level=level,
        factors=factors,
        divisor=divisor,
    )
