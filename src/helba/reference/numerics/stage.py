"""What is proven about one stage of a composite sign, an odd polynomial on [-1, 1].

A stage is the tuple (c_1, c_3, ...) of its coefficients of T_1, T_3, ... Every bound holds for
these float64 numbers exactly as they are (see `enclosure`), and is tight to about a millionth.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from helba.errors import RunFailed
from helba.reference.numerics.enclosure import (
    ExactPolynomial,
    enclose,
    is_nonnegative,
    round_down,
    round_up,
)

Stage = tuple[float, ...]

_TIGHTNESS = 1e-6


def next_low(stage: Stage, *, low: float) -> float:
    """Where the interval of the next stage begins: least value on [low, 1], rounding taken off."""
    following = least_on(stage, low) - rounding_of(stage)
    if following <= 0:
        raise RunFailed("the resolution is lost in rounding; ask for a coarser one")
    return math.nextafter(following, 0.0)


def rounding_of(stage: Stage) -> float:
    """Bound on the error of evaluating the stage in float64 (`numpy`'s chebval) on [-1, 1].

    Clenshaw's recurrence b_k = c_k + 2x b_(k+1) - b_(k+2) computes sum (c_k + r_k) T_k(x) exactly,
    for some |r_k| <= 6u B_k with u = 2^-53 and |b_k| <= B_k = sum_(j>=k) (j-k+1) |c_j|. As
    |T_k| <= 1, the error is at most 8u sum_k B_k = 8u sum_j |c_j| (j+1)(j+2)/2.
    """
    weights = sum(
        abs(c) * (j + 1) * (j + 2) / 2
        for j, c in zip(range(1, 2 * len(stage), 2), stage, strict=True)
    )
    return 8 * 2.0**-53 * weights


def keeps_sign(stage: Stage) -> bool:
    """Whether p >= 0 is proven on [0, 1]."""
    return is_nonnegative(exact_of(stage).in_square(), (0.0, 1.0))


@lru_cache(maxsize=4096)
def stays_below_one(stage: Stage) -> bool:
    """Whether p <= 1 is proven on [0, 1]."""
    one_less = exact_of(stage).minus(1.0)
    negated = ExactPolynomial(tuple(-n for n in one_less.numerators), one_less.log2_denominator)
    if is_increasing(stage):
        return negated.at(1.0) >= 0
    return is_nonnegative(negated, (0.0, 1.0))


@lru_cache(maxsize=4096)
def is_increasing(stage: Stage) -> bool:
    """Whether p' >= 0 is proven on [-1, 1]."""
    return is_nonnegative(exact_of(stage).derivative().in_square(), (0.0, 1.0))


def rises_to(stage: Stage, high: float) -> bool:
    """Whether p' >= 0 is proven on [0, high]."""
    square = math.nextafter(high * high, math.inf)
    return is_nonnegative(exact_of(stage).derivative().in_square(), (0.0, min(1.0, square)))


@lru_cache(maxsize=4096)
def exact_of(stage: Stage) -> ExactPolynomial:
    """The stage with its float64 coefficients taken as exact."""
    return ExactPolynomial.from_odd_chebyshev(stage)


@lru_cache(maxsize=4096)
def least_on(stage: Stage, low: float) -> float:
    """Lower bound of p on [low, 1], tight relative to p(low) and to 1 - p(low)."""
    exact = exact_of(stage)
    if low >= 1 or is_increasing(stage):
        return round_down(exact.at(low))
    tolerance = _TIGHTNESS * _margin(float(exact.at(low)))
    return enclose(exact, (low, 1.0), tolerance=tolerance)[0]


@lru_cache(maxsize=4096)
def greatest_on(stage: Stage, high: float, *, tightness: float = 1.0) -> float:
    """Upper bound of p on [0, high], within `tightness` * 1e-6 of its maximum."""
    if is_increasing(stage):
        return round_up(exact_of(stage).at(high))
    return enclose(exact_of(stage), (0.0, high), tolerance=_TIGHTNESS * tightness)[1]


def value_below(stage: Stage, x: float) -> float:
    """p(x), rounded down."""
    return round_down(exact_of(stage).at(x))


def _margin(value: float) -> float:
    """Distance of a value from 0 and from 1, but not too small to be resolved."""
    return max(min(abs(value), abs(1 - value)), 2.0**-60)


def error_on(stage: Stage, low: float) -> float:
    """Upper bound of |p - 1| on [low, 1], rounding added."""
    exact = exact_of(stage).minus(1.0)
    if is_increasing(stage):
        largest = max(abs(exact.at(low)), abs(exact.at(1.0)))
    else:
        margin = min(1.0, max(float(exact.at(low)) + 1, 2.0**-60))
        lower, upper = enclose(exact, (low, 1.0), tolerance=_TIGHTNESS * margin)
        largest = Fraction(max(-lower, upper))
    return round_up(largest + Fraction(rounding_of(stage)))


def steepest(stage: Stage) -> float:
    """Upper bound of |p'| on [-1, 1]."""
    lower, upper = enclose(exact_of(stage).derivative().in_square(), (0.0, 1.0))
    return max(-lower, upper)


def least_ratio(stage: Stage, high: float) -> float:
    """Lower bound of p(x) / x on (0, high]."""
    square = math.nextafter(high * high, math.inf)
    return max(0.0, enclose(exact_of(stage).in_square(), (0.0, square))[0])
