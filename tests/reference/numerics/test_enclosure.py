"""Proven ranges against sampling and against the roots of the derivative."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev, polynomial

from helba.errors import InvalidInput
from helba.reference.numerics.enclosure import (
    ExactPolynomial,
    enclose,
    is_nonnegative,
    round_down,
    round_up,
)

COEFFICIENTS = st.lists(st.integers(-4000, 4000).map(lambda c: c / 1000), min_size=2, max_size=32)
ENDS = st.tuples(st.floats(-1, 1), st.floats(-1, 1)).filter(lambda e: e[1] - e[0] > 1e-3)


def true_range(coefficients: list[float], ends: tuple[float, float]) -> tuple[float, float]:
    """Extrema from the ends and numpy's roots of the derivative."""
    points = [*ends]
    slope = np.trim_zeros(chebyshev.chebder(coefficients), "b")
    if slope.size > 1:
        roots = chebyshev.chebroots(slope)
        points += [min(max(r.real, ends[0]), ends[1]) for r in roots]
    values = chebyshev.chebval(np.asarray(points), coefficients)
    return float(np.min(values)), float(np.max(values))


@settings(deadline=None, max_examples=150)
@given(coefficients=COEFFICIENTS, ends=ENDS)
def test_enclosure_contains_every_value_and_is_tight(
    coefficients: list[float], ends: tuple[float, float]
) -> None:
    lower, upper = enclose(ExactPolynomial.from_chebyshev(coefficients), ends)
    sampled = chebyshev.chebval(np.linspace(*ends, 4001), coefficients)
    rounding = 1e-13 * sum(map(abs, coefficients)) + 1e-300
    assert lower <= np.min(sampled) + rounding
    assert np.max(sampled) - rounding <= upper
    least, greatest = true_range(coefficients, ends)
    slack = 2e-6 * max(abs(least), abs(greatest)) + 10 * rounding
    assert least - slack <= lower <= upper <= greatest + slack


@pytest.mark.parametrize("degree", [1, 7, 15, 31])
def test_enclosure_of_a_chebyshev_polynomial_is_one(degree: int) -> None:
    exact = ExactPolynomial.from_chebyshev([0.0] * degree + [1.0])
    lower, upper = enclose(exact, (-1.0, 1.0), tolerance=1e-9)
    assert -1 - 1e-9 <= lower <= -1 < 1 <= upper <= 1 + 1e-9


def test_bases_agree_exactly() -> None:
    rng = np.random.default_rng(3)
    odd = rng.standard_normal(6)
    full = np.zeros(12)
    full[1::2] = odd
    a = ExactPolynomial.from_odd_chebyshev(odd.tolist())
    assert a == ExactPolynomial.from_chebyshev(full.tolist())
    power = ExactPolynomial.from_power([0.5, -2.0, 0.0, 1.0])
    same = ExactPolynomial.from_chebyshev([0.5, -1.25, 0.0, 0.25])
    assert all(power.at(x) == same.at(x) for x in (-1.0, 0.0, 0.1, 0.7))
    assert power.at(0.5) == Fraction(-3, 8)
    assert power.minus(0.1).at(0.5) == Fraction(-3, 8) - Fraction(0.1)
    assert power.derivative().at(0.5) == Fraction(-5, 4)
    x = 0.3
    assert a.at(x) == pytest.approx(chebyshev.chebval(x, full), abs=1e-14)
    assert ExactPolynomial.from_power([0.0, 3.0, 0.0, 5.0]).in_square().at(4.0) == 23


def test_nonnegativity_is_proven_and_refuted() -> None:
    def power(*coefficients: float) -> ExactPolynomial:
        return ExactPolynomial.from_power(coefficients)

    assert is_nonnegative(power(0.0, 1.0), (0.0, 1.0))
    assert not is_nonnegative(power(0.0, 1.0), (-1e-9, 1.0))
    assert is_nonnegative(power(0.25 + 2.0**-40, -1.0, 1.0), (0.0, 1.0))
    assert not is_nonnegative(power(0.25 - 2.0**-40, -1.0, 1.0), (0.0, 1.0))
    assert is_nonnegative(power(1.0, -4.0, 4.0), (0.0, 1.0))  # (1 - 2x)^2: zero at a midpoint
    assert not is_nonnegative(power(1.0, -6.0, 9.0), (0.0, 1.0))  # (1 - 3x)^2: true, not proven


@settings(deadline=None, max_examples=100)
@given(roots=st.lists(st.floats(0.01, 0.99), min_size=1, max_size=8))
def test_nonnegativity_agrees_with_the_sign_of_samples(roots: list[float]) -> None:
    coefficients = polynomial.polyfromroots(roots)
    proven = is_nonnegative(ExactPolynomial.from_power(coefficients.tolist()), (0.0, 1.0))
    values = polynomial.polyval(np.linspace(0, 1, 2001), coefficients)
    assert not (proven and np.min(values) < -1e-12)


@given(value=st.fractions())
def test_rounding_is_outward_and_to_the_next_float(value: Fraction) -> None:
    below, above = round_down(value), round_up(value)
    assert Fraction(below) <= value <= Fraction(above)
    assert above in (below, math.nextafter(below, math.inf))


def test_unusable_input_is_refused() -> None:
    line = ExactPolynomial.from_power([0.0, 1.0])
    for interval in ((1.0, 0.0), (0.0, 0.0), (0.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(InvalidInput):
            enclose(line, interval)
    with pytest.raises(InvalidInput):
        ExactPolynomial.from_power([math.inf])
    with pytest.raises(InvalidInput, match="even or odd"):
        ExactPolynomial.from_power([1.0, 1.0]).in_square()
