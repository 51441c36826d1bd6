"""The order in which a circuit evaluates an odd polynomial: least depth, then fewest products.

`evaluation_order` takes p(x) = c_1 T_1(x) + c_3 T_3(x) + ... on [-1, 1] and returns steps that cost
at most ceil(log2(degree + 1)) levels. Step i makes value i + 1; value 0 is x.

How: some T_n are shared, each for one product (T_(a+b) = 2 T_a T_b - T_(a-b)); then p is divided,
p = q T_m + r, and q and r are treated alike until they are sums of shared T_k. A leaf c T_1 is a
product with a plaintext, one level. `division` searches the shared set and the divisors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray

from helba.errors import InvalidInput, require_choice
from helba.reference.numerics.division import Plan, best_plan, least_levels, require_degree

_LARGEST_ADDITION = 4  # an integer coefficient up to here is a few additions, not a product


@dataclass(frozen=True)
class Product:
    """value[left] * value[right], both encrypted: one level above the deeper of the two."""

    left: int
    right: int


@dataclass(frozen=True)
class Combination:
    """Sum of coefficient * value[index] over `terms`, plus `constant`.

    A term costs one level unless `is_addition(coefficient)`; the deepest term gives the level.

    `scaled` says that the coefficients are those of the polynomial itself, not of a shared T_n.
    Multiply them by alpha in every scaled combination, except in front of a value that is scaled
    already (such a combination, or a product whose left factor is one), and the order evaluates
    alpha * p: at no level more, for any alpha. A scaled combination has no constant.
    """

    terms: tuple[tuple[int, float], ...]
    constant: float = 0.0
    scaled: bool = False


Step = Product | Combination


@dataclass(frozen=True, kw_only=True)
class EvaluationOrder:
    """Steps that evaluate one odd polynomial; the last value is the result.

    `levels` is the depth of the result over the input, `products` counts encrypted products.
    """

    degree: int
    steps: tuple[Step, ...]
    levels: int
    products: int


def is_addition(coefficient: float) -> bool:
    """Whether a product with `coefficient` is a few additions: an integer of size at most 4."""
    return float(coefficient).is_integer() and abs(coefficient) <= _LARGEST_ADDITION


def cost_of_degree(degree: int) -> tuple[int, int]:
    """Levels and encrypted products of an odd polynomial of `degree`, whatever its coefficients."""
    return least_levels(degree), best_plan(degree).products


def evaluate(order: EvaluationOrder, x: ArrayLike) -> NDArray[np.float64]:
    """The polynomial of `order` at x, by following its steps in float64."""
    values: list[NDArray[np.float64]] = [np.asarray(x, dtype=np.float64)]
    for step in order.steps:
        if isinstance(step, Product):
            values.append(values[step.left] * values[step.right])
        else:
            total = np.full_like(values[0], step.constant)
            for index, coefficient in step.terms:
                total = total + coefficient * values[index]
            values.append(total)
    return values[-1]


def evaluation_order(coefficients: Sequence[float], *, basis: str = "chebyshev") -> EvaluationOrder:
    """Order for the odd polynomial with the odd coefficients (c_1, c_3, c_5, ...) in `basis`.

    `basis` is "chebyshev" or "power"; powers are converted, which is accurate only while their
    coefficients are not much larger than the values of the polynomial on [-1, 1].
    """
    require_choice("basis", basis, ("chebyshev", "power"))
    odd = np.asarray(coefficients, dtype=np.float64)
    if odd.ndim != 1 or odd.size == 0 or not np.all(np.isfinite(odd)):
        raise InvalidInput("coefficients", coefficients, "a non-empty list of finite numbers")
    degree = 2 * odd.size - 1
    require_degree("degree", degree)
    full: NDArray[np.float64] = np.zeros(degree + 1)
    full[1::2] = odd
    if basis == "power":
        full = np.asarray(chebyshev.poly2cheb(full), dtype=np.float64)
    return _Writer(best_plan(degree)).write({k: float(full[k]) for k in range(1, degree + 1, 2)})


class _Writer:
    """Turns a plan and coefficients into steps, with a level for every value."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._steps: list[Step] = []
        self._levels = [0]
        self._shared = {1: 0}

    def write(self, coefficients: Mapping[int, float]) -> EvaluationOrder:
        terms = self._terms(dict(coefficients), part=self._plan.degree, budget=self._plan.levels)
        self._append(Combination(tuple(terms), scaled=True))
        return EvaluationOrder(
            degree=self._plan.degree,
            steps=tuple(self._steps),
            levels=self._levels[-1],
            products=sum(isinstance(step, Product) for step in self._steps),
        )

    def _terms(self, c: dict[int, float], *, part: int, budget: int) -> list[tuple[int, float]]:
        """Terms whose sum is the polynomial c, of degree `part` or less, at level `budget`."""
        m = self._plan.divisor[part, budget]
        if m == 0:
            return [(self._chebyshev(k), c[k]) for k in sorted(c) if c[k] != 0]
        quotient: dict[int, float] = {}
        for k in sorted((k for k in c if k > m), reverse=True):  # T_(k-m) T_m = (T_k + T_|k-2m|)/2
            quotient[k - m] = 2 * c[k]
            c[abs(k - 2 * m)] = c.get(abs(k - 2 * m), 0.0) - c.pop(k)
        rest = self._terms(c, part=m - 1, budget=budget)
        factor = self._terms(quotient, part=part - m, budget=budget - 1)
        if not factor:
            return rest
        left = self._append(Combination(tuple(factor), scaled=True))
        return [*rest, (self._append(Product(left, self._chebyshev(m))), 1.0)]

    def _chebyshev(self, n: int) -> int:
        """Index of T_n, made on first use."""
        if n not in self._shared:
            a, b = self._plan.factors[n]
            product = self._append(Product(self._chebyshev(a), self._chebyshev(b)))
            if a == b:
                made = Combination(((product, 2.0),), -1.0)
            else:
                made = Combination(((product, 2.0), (self._chebyshev(abs(a - b)), -1.0)))
            self._shared[n] = self._append(made)
        return self._shared[n]

    def _append(self, step: Step) -> int:
        if isinstance(step, Product):
            level = 1 + max(self._levels[step.left], self._levels[step.right])
        else:
            level = max((self._levels[i] + (not is_addition(c)) for i, c in step.terms), default=0)
        self._steps.append(step)
        self._levels.append(level)
        return len(self._steps)
