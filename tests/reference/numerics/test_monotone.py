"""Increasing signs: proven order, best value at the resolution, certified inverse."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import chebyshev
from scipy.optimize import linprog

from helba.errors import InvalidInput
from helba.reference.numerics.composite import CompositeSign
from helba.reference.numerics.evaluation import cost_of_degree
from helba.reference.numerics.monotone import (
    best_monotone_composition,
    cheapest_monotone_composition,
    monotone_odd,
)
from helba.reference.numerics.stage import is_increasing, rounding_of, stays_below_one

CASES = [
    (0.5, (3,)),
    (2.0**-6, (7, 7, 7)),
    (2.0**-6, (15, 15, 7)),
    (2.0**-6, (21, 21, 21)),
    (2.0**-12, (31, 31, 31, 31)),
    (2.0**-6, (31, 31, 31)),
]


def linear_programme(degree: int, low: float) -> float:
    """Greatest p(low) with p(1) = 1 and p' >= 0 at 1200 points: an upper bound, nearly tight."""
    odd = range(1, degree + 1, 2)
    x = np.sin(np.linspace(0, np.pi / 2, 1200))
    slopes = np.stack([chebyshev.chebval(x, chebyshev.chebder(np.eye(degree + 1)[k])) for k in odd])
    result = linprog(
        -chebyshev.chebvander(np.asarray([low]), degree)[0, 1::2],
        A_ub=-slopes.T / np.arange(1, degree + 1, 2).max(),
        b_ub=np.zeros(x.size),
        A_eq=np.ones((1, len(odd))),
        b_eq=[1.0],
        bounds=(None, None),
        method="highs",
    )
    return float(-result.fun)


@pytest.mark.parametrize("degree", [3, 5, 7, 9, 11, 15])
@pytest.mark.parametrize("low", [2.0**-6, 0.1, 0.3, 0.6])
def test_stage_is_as_good_as_a_linear_programme(degree: int, low: float) -> None:
    stage = monotone_odd(degree, low=low)
    full = np.zeros(degree + 1)
    full[1::2] = stage
    value = float(chebyshev.chebval(low, full))
    judge = linear_programme(degree, low)
    assert value == pytest.approx(judge, abs=2e-4 * judge + 1e-6)


@pytest.mark.parametrize("degree", range(1, 32, 2))
@settings(deadline=None, max_examples=5)
@given(low=st.floats(1e-6, 0.999))
def test_every_stage_is_proven_increasing_and_bounded(degree: int, low: float) -> None:
    stage = monotone_odd(degree, low=low)
    assert is_increasing(stage)
    assert stays_below_one(stage)
    assert sum(stage) == pytest.approx(1, abs=1e-13)


def test_a_stage_beyond_rounding_is_still_steep_at_zero() -> None:
    saturated = monotone_odd(31, low=0.999)
    needed = monotone_odd(31, low=0.5)
    assert np.dot(saturated, (-1.0) ** np.arange(16) * np.arange(1, 32, 2)) > 1.5
    assert np.dot(needed, (-1.0) ** np.arange(16) * np.arange(1, 32, 2)) > 1.5


def test_degree_three_is_the_known_cubic() -> None:
    np.testing.assert_allclose(monotone_odd(3, low=0.1), (9 / 8, -1 / 8), atol=1e-13)


@pytest.mark.parametrize(("resolution", "degrees"), CASES)
def test_composition_increases_and_its_error_is_exact(
    resolution: float, degrees: tuple[int, ...]
) -> None:
    sign = best_monotone_composition(resolution=resolution, degrees=degrees)
    rounding = sum(map(rounding_of, sign.stages))
    x = np.unique(np.concatenate([np.linspace(-1, 1, 20_001), np.geomspace(1e-9, 1, 5001)]))
    value = sign(x)
    assert sign.monotone
    assert sign.maximum <= 1
    assert np.max(np.abs(value)) <= 1 + rounding
    assert np.min(np.diff(value)) >= -rounding * sign.slope
    assert np.max(np.abs(value[x >= resolution] - 1)) <= sign.error
    seen = 1 - float(sign(resolution))
    assert seen <= sign.error <= seen + sign.slope * rounding + 1e-12
    assert sign.small_slope * resolution == pytest.approx(1 - sign.error, rel=1e-4)
    assert np.all(sign(x[x > 0]) >= np.minimum(sign.small_slope * x[x > 0], 1 - sign.error) - 1e-12)


def test_design_example_has_half_the_range_as_error() -> None:
    sign = best_monotone_composition(resolution=2.0**-6, degrees=(7, 7, 7))
    assert sign.error == pytest.approx(0.6635, rel=1e-3)
    ratio = 1 - sign.error  # over P(1) = 1; centred on 1 that is an error of 0.50
    assert (1 - ratio) / (1 + ratio) == pytest.approx(0.50, abs=0.01)


@settings(deadline=None, max_examples=60)
@given(value=st.floats(0.01, 0.99))
def test_gap_for_a_value_inverts_the_sign(value: float) -> None:
    sign = best_monotone_composition(resolution=2.0**-6, degrees=(7, 7, 7))
    gap = sign.gap_for(value)
    assert sign.least(gap) >= value
    assert float(sign(gap)) >= value - 1e-12
    assert float(sign(gap * (1 - 1e-5))) < value


@pytest.mark.parametrize(
    ("resolution", "error", "depth"), [(2.0**-4, 0.1, 12), (2.0**-6, 0.01, 15), (0.5, 0.2, 4)]
)
def test_cheapest_meets_error_and_depth(resolution: float, error: float, depth: int) -> None:
    sign = cheapest_monotone_composition(resolution=resolution, error=error, depth=depth)
    assert sign.monotone
    assert sign.error <= error
    assert sign.levels <= depth


def sequences(levels: int) -> Iterator[tuple[int, ...]]:
    yield ()
    for degree in range(3, 32, 2):
        if cost_of_degree(degree)[0] <= levels:
            for rest in sequences(levels - cost_of_degree(degree)[0]):
                yield (degree, *rest)


def test_no_increasing_composition_is_cheaper() -> None:
    made = [best_monotone_composition(resolution=0.1, degrees=d) for d in sequences(6) if d]

    def cost(sign: CompositeSign) -> tuple[int, int, float]:
        return sign.products, sign.levels, sign.error

    for target in (0.8, 0.6, 0.4, 0.2, 0.1):
        enough = [sign for sign in made if sign.error <= target]
        if enough:
            found = cheapest_monotone_composition(resolution=0.1, error=target, depth=6)
            assert cost(found)[:2] == cost(min(enough, key=cost))[:2]
            assert found.error == pytest.approx(min(enough, key=cost).error, rel=1e-6)
        else:
            with pytest.raises(InvalidInput, match="depth 6"):
                cheapest_monotone_composition(resolution=0.1, error=target, depth=6)


def test_inadmissible_input_is_refused() -> None:
    with pytest.raises(InvalidInput, match="degree"):
        best_monotone_composition(resolution=0.1, degrees=(6,))
    with pytest.raises(InvalidInput, match="resolution"):
        cheapest_monotone_composition(resolution=2.0, error=0.1, depth=6)
    with pytest.raises(InvalidInput, match="low"):
        monotone_odd(3, low=1.0)
    sign = best_monotone_composition(resolution=0.1, degrees=(3,))
    with pytest.raises(InvalidInput, match="value"):
        sign.gap_for(1.1)
