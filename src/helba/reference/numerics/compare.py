"""Comparison and maximum by iterating f_n (Cheon et al. 2019; NewComp, NewMax, amax, acomp).

    f_n(x) = sum_{i=0..n} 4^-i binom(2i, i) x (1 - x^2)^i,   n = 1..4,

is odd, increasing and concave on [0, 1], and fixes -1, 0 and 1, so its iterates tend to the sign.
Everything below follows from that monotony: the comparison of numbers at least `gap` apart is worst
at exactly `gap`, and the iteration counts here are read off the iterate itself instead of a
closed formula. The paper's counts are kept beside them (`paper_...`): NewComp's is safe, the one
for the maximum is too small (erratum 2).

NewMax is y + (a - b)/2 * x (erratum 1) and never exceeds the maximum, since |x| <= 1. Hence the
best arm is never below amax, and its entry of acomp is at least 1/2: the threshold rule of the
paper needs no precision eps^alpha, just amax within eps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput, require_at_least, require_between
from helba.reference.numerics.certificate import Certificate, Certified

Array = NDArray[np.float64]

# Below this the iterate is lost in double precision; CKKS stops far earlier.
LEAST_ERROR = 1e-13
MOST_ITERATIONS = 200
# On a cell [l, r] the bound of NewMax's error is off by at most r/l.
CELL_RATIO = 1.02


def f(x: Array, *, n: int) -> Array:
    """Return f_n(x), by Horner's rule in 1 - x^2."""
    _check_n(n)
    rest = 1.0 - x * x
    total = _weight(n) * rest + _weight(n - 1)
    for i in range(n - 2, -1, -1):
        total = total * rest + _weight(i)
    result: Array = x * total
    return result


def iterate(x: Array, *, n: int, iterations: int) -> Array:
    """Return f_n applied `iterations` times to x in [-1, 1]."""
    values = np.asarray(x, dtype=np.float64)
    if not bool(np.all(np.abs(values) <= 1.0 + 1e-12)):
        raise InvalidInput("x", "a value outside", "in [-1, 1]")
    for _ in range(iterations):
        values = f(values, n=n)
    return np.clip(values, -1.0, 1.0)


def levels_per_iteration(n: int) -> int:
    """Levels of one f_n: an odd polynomial of degree 2n + 1."""
    _check_n(n)
    return math.ceil(math.log2(2 * n + 2))


def slope_at_zero(n: int) -> float:
    """Return c_n = f_n'(0) = (2n + 1) binom(2n, n) / 4^n, the largest slope of f_n."""
    _check_n(n)
    return (2 * n + 1) * math.comb(2 * n, n) / 4.0**n


@lru_cache(maxsize=4096)
def compare_iterations(*, gap: float, error: float, n: int = 1) -> int:
    """Return the fewest iterations after which 1 - f_n^(k)(x) <= 2 error for every x in [gap, 1].

    NewComp, (1 + f^(k)(a - b))/2, is then within `error` of the comparison of numbers that differ
    by at least `gap`. Exact, not a formula: f^(k) is increasing, so x = gap is the worst.
    """
    require_between("gap", gap, 0.0, 1.0)
    require_between("error", error, 0.0, 0.5)
    require_at_least("error", error, LEAST_ERROR)
    reached = np.array(gap)
    for count in range(MOST_ITERATIONS + 1):
        if 1.0 - float(reached) <= 2.0 * error - 1e-15:
            return count
        reached = iterate(reached, n=n, iterations=1)
    raise InvalidInput("gap", gap, f"such that {MOST_ITERATIONS} iterations suffice")


@lru_cache(maxsize=4096)
def maximum_error(*, iterations: int, n: int = 1) -> float:
    """Return a rigorous bound, within 2%, of sup_x x (1 - f_n^(k)(x))/2: the error of NewMax.

    On [l, r] it is at most r (1 - f^(k)(l))/2; below the first cell, x/2 bounds it.
    """
    first = 1e-14
    count = math.ceil(-math.log(first) / math.log(CELL_RATIO)) + 1
    edges = np.geomspace(first, 1.0, count, dtype=np.float64)
    edges[-1] = 1.0
    reached = iterate(edges[:-1], n=n, iterations=iterations)
    return float(max((edges[1:] * (1.0 - reached) / 2.0).max(), first / 2.0))


@lru_cache(maxsize=4096)
def maximum_iterations(*, error: float, arms: int = 2, n: int = 1) -> int:
    """Return the fewest iterations for which amax over `arms` values is within `error`.

    Each of the arms - 1 calls of NewMax may take away error/(arms - 1).
    """
    require_between("error", error, 0.0, 1.0)
    require_at_least("arms", arms, 2)
    share = error / (arms - 1)
    require_at_least("error / (arms - 1)", share, LEAST_ERROR)
    for count in range(MOST_ITERATIONS + 1):
        if maximum_error(iterations=count, n=n) <= share:
            return count
    raise InvalidInput("error", error, f"such that {MOST_ITERATIONS} iterations suffice")


def paper_compare_iterations(*, error: float, n: int = 1) -> int:
    """Return the paper's depth of NewComp for gap = error (the larger one of erratum 2)."""
    eps = _clamped(error)
    tail = math.log(math.log2(1.0 / eps) - 2.0) / math.log(n + 1)
    return 1 + math.floor(3.2 + math.log(1.0 / eps) / math.log(slope_at_zero(n)) + tail)


def paper_maximum_iterations(*, error: float, n: int = 1) -> int:
    """Return the paper's depth of amax, which does *not* reach the error it claims (erratum 2)."""
    eps, growth = _clamped(error), math.log(slope_at_zero(n))
    alpha = 1.5 + 5.2 * growth / math.log(4.0) + growth / (2.0 * math.log(n + 1))
    return max(1, math.ceil(math.log(alpha * math.log2(1.0 / eps) - 2.0) / growth))


def new_comp(a: Array, b: Array, *, gap: float, error: float, n: int = 1) -> Certified[Array]:
    """Return an approximation of (a > b) for a, b in [0, 1]: within `error` if |a - b| >= gap."""
    count = compare_iterations(gap=gap, error=error, n=n)
    x = iterate(_unit("a", a) - _unit("b", b), n=n, iterations=count)
    certificate = Certificate(
        quantity="|NewComp(a, b) - (a > b)| for |a - b| in the interval",
        interval=(gap, 1.0),
        error=error,
        levels=count * levels_per_iteration(n),
    )
    return Certified(value=(1.0 + x) / 2.0, certificate=certificate)


def amax(values: Sequence[Array], *, error: float, n: int = 1) -> Certified[Array]:
    """Return the maximum of values in [0, 1], at most `error` below and never above it."""
    if len(values) < 2:
        raise InvalidInput("values", f"{len(values)} of them", "at least 2")
    count = maximum_iterations(error=error, arms=len(values), n=n)
    best = _unit("values", values[0])
    for value in values[1:]:
        other = _unit("values", value)
        half = (best - other) / 2.0
        best = (best + other) / 2.0 + half * iterate(2.0 * half, n=n, iterations=count)
    certificate = Certificate(
        quantity="max(values) - amax(values)",
        interval=(0.0, 1.0),
        error=error,
        levels=(len(values) - 1) * (count * levels_per_iteration(n) + 1),
    )
    return Certified(value=best, certificate=certificate)


def acomp(values: Array, *, error: float, n: int = 1) -> Certified[Array]:
    """Return the comparison vector b of values in [0, 1]: b_i compares value i with their amax.

    Every i with b_i > error has value_i >= max(values) - 2 error, and the largest value has
    b >= 1/2, so there is one (Lemma comp_lemma of the paper, with counts that hold; `error` must be
    below 1/4, erratum 4). Taking the largest b is far better: see `acomp_tolerance`.
    """
    row = _unit("values", values)
    if row.ndim != 1 or len(row) < 2:
        raise InvalidInput("values", f"shape {row.shape}", "a vector of at least 2 values")
    require_between("error", error, 0.0, 0.25)
    top = amax(list(row), error=error, n=n)
    compared = new_comp(row, np.full_like(row, top.value), gap=error, error=error, n=n)
    certificate = Certificate(
        quantity="max(values) - values[i] for every i with b_i > error",
        interval=(0.0, 1.0),
        error=2.0 * error,
        levels=top.certificate.levels + compared.certificate.levels,
    )
    return Certified(value=compared.value, certificate=certificate)


def acomp_tolerance(*, error: float, noise: float, n: int = 1) -> float:
    """Return by how much the value with the largest b of `acomp` may miss the maximum.

    Each entry of b carries at most `noise`, and amax at most as much. The maximum then lies at
    most x = error + noise above amax and at most `noise` below it, and on [-x, x] the k-fold f has
    at least the slope s = f^(k)'(x): two entries of b differ by at least s/2 times the distance of
    their values, or by s error/2 for values further down. Where the noise exceeds that nothing is
    certain, and the answer is the whole range, 1.
    """
    require_between("error", error, 0.0, 0.25)
    require_at_least("noise", noise, 0.0)
    count = compare_iterations(gap=error, error=error, n=n)
    slope = _slope(error + noise, n=n, iterations=count)
    return 4.0 * noise / slope if 4.0 * noise < slope * error else 1.0


def _slope(x: float, *, n: int, iterations: int) -> float:
    """The derivative of f_n^(k) at x, by the chain rule: f_n'(x) = c_n (1 - x^2)^n."""
    slope = 1.0
    for _ in range(iterations):
        slope *= slope_at_zero(n) * max(0.0, 1.0 - x * x) ** n
        x = min(1.0, float(f(np.array(x), n=n)))
    return max(slope, 1e-300)


def _weight(i: int) -> float:
    return math.comb(2 * i, i) / 4.0**i


def _clamped(error: float) -> float:
    """The paper's logarithms need error < 1/4 (erratum 4)."""
    require_between("error", error, 0.0, 1.0)
    return min(error, 0.24)


def _check_n(n: int) -> None:
    if n not in (1, 2, 3, 4):
        raise InvalidInput("n", n, "1, 2, 3 or 4")


def _unit(name: str, values: Array) -> Array:
    array = np.asarray(values, dtype=np.float64)
    if not bool(np.all((array >= -1e-12) & (array <= 1.0 + 1e-12))):
        raise InvalidInput(name, "a value outside", "in [0, 1]")
    return np.clip(array, 0.0, 1.0)
