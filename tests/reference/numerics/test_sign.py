"""The composite sign: its certificate holds, is not vacuous, and nothing cheaper exists."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput, RunFailed
from helba.reference.numerics.composite import CompositeSign, certify
from helba.reference.numerics.evaluation import cost_of_degree, evaluate
from helba.reference.numerics.remez import minimax_odd
from helba.reference.numerics.sign import best_composition, cheapest_composition
from helba.reference.numerics.stage import exact_of, rounding_of

CASES = [
    (2.0**-3, (3,)),
    (2.0**-6, (7, 7)),
    (2.0**-6, (7, 7, 7)),
    (2.0**-6, (15, 15, 7)),
    (2.0**-6, (31, 31)),
    (2.0**-6, (15, 15, 15)),
    (2.0**-9, (5, 5, 5, 5, 9)),
    (2.0**-12, (7, 7, 7, 7, 7, 7)),
    (2.0**-12, (31, 15, 15, 15)),
    (0.3, (1, 5, 9)),
]
UNIT = 2.0**-53


def points_of(resolution: float) -> np.ndarray:
    rng = np.random.default_rng(7)
    logarithmic = np.exp(rng.uniform(math.log(resolution), 0, 20_000))
    uniform = rng.uniform(resolution, 1, 20_000)
    grids = np.linspace(resolution, 1, 20_001), np.geomspace(resolution, 1, 20_001)
    return np.clip(np.concatenate([logarithmic, uniform, *grids]), resolution, 1)


@pytest.mark.parametrize(("resolution", "degrees"), CASES)
def test_error_holds_on_both_sides_and_is_not_vacuous(
    resolution: float, degrees: tuple[int, ...]
) -> None:
    sign = best_composition(resolution=resolution, degrees=degrees)
    x = points_of(resolution)
    seen = np.max(np.abs(sign(x) - 1))
    assert seen <= sign.error
    assert np.max(np.abs(sign(-x) + 1)) <= sign.error
    allowance = sum(map(rounding_of, sign.stages)) + 2e-14
    assert seen >= 0.99 * (sign.error - allowance)
    assert sign.certificate.error == sign.error
    assert sign.certificate.interval == (resolution, 1.0)
    assert sign.certificate.levels == sign.levels == sum(cost_of_degree(d)[0] for d in degrees)
    assert sign.products == sum(cost_of_degree(d)[1] for d in degrees)


@pytest.mark.parametrize(("resolution", "degrees"), CASES)
def test_sign_is_never_wrong_and_stays_below_its_maximum(
    resolution: float, degrees: tuple[int, ...]
) -> None:
    sign = best_composition(resolution=resolution, degrees=degrees)
    x = np.concatenate([np.linspace(0, 1, 20_001), np.geomspace(1e-9, 1, 20_001)])
    value = sign(x)
    rounding = sum(map(rounding_of, sign.stages)) * sign.slope
    assert np.min(value) >= -rounding
    assert np.max(value) <= sign.maximum + 1e-12
    assert sign.maximum <= max(1 + sign.error, 1.0) + 2e-6 * sign.error
    np.testing.assert_array_equal(sign(-x), -value)
    small = x[x <= resolution]
    assert np.all(sign(small) >= sign.small_slope * small * (1 - 1e-9) - 1e-12)
    assert sign.small_slope * resolution >= 0.99 * (1 - sign.error)


@pytest.mark.parametrize(("resolution", "degrees"), CASES)
def test_slope_bounds_every_difference(resolution: float, degrees: tuple[int, ...]) -> None:
    sign = best_composition(resolution=resolution, degrees=degrees)
    x = np.linspace(-1, 1, 200_001)
    steepest = np.max(np.abs(np.diff(sign(x)) / np.diff(x)))
    assert steepest <= sign.slope * (1 + 1e-9) + 1e-9
    near_zero = float(sign(1e-9)) / 1e-9
    assert sign.slope >= near_zero * (1 - 1e-5)
    single = best_composition(resolution=resolution, degrees=degrees[:1])
    assert float(np.max(np.abs(np.diff(single(x)) / np.diff(x)))) >= 0.99 * single.slope


def test_design_example_has_an_error_of_about_a_hundredth() -> None:
    sign = best_composition(resolution=2.0**-6, degrees=(7, 7, 7))
    assert sign.error == pytest.approx(0.011545, rel=1e-3)
    assert (sign.levels, sign.products, sign.monotone) == (9, 15, False)


@pytest.mark.parametrize("degrees", [(7, 7, 7), (15, 15, 15), (31, 27, 9)])
def test_orders_evaluate_to_the_same_sign(degrees: tuple[int, ...]) -> None:
    sign = best_composition(resolution=2.0**-6, degrees=degrees)
    x = np.linspace(-1, 1, 2001)
    value = x
    for order in sign.orders:
        value = evaluate(order, value)
    np.testing.assert_allclose(value, sign(x), atol=1e-13 * sign.slope)


@settings(deadline=None, max_examples=40)
@given(
    degrees=st.lists(st.sampled_from(range(1, 24, 2)), min_size=1, max_size=4),
    log2_resolution=st.floats(-12, -0.2),
)
def test_any_composition_keeps_its_certificate(degrees: list[int], log2_resolution: float) -> None:
    resolution = 2.0**log2_resolution
    sign = best_composition(resolution=resolution, degrees=degrees)
    x = points_of(resolution)[::16]
    assert np.max(np.abs(sign(x) - 1)) <= sign.error
    assert sign.degrees == tuple(degrees)


@pytest.mark.parametrize("degree", [7, 15, 31])
def test_allowance_covers_float_evaluation(degree: int) -> None:
    stage = minimax_odd(degree, low=0.05).coefficients
    sign = certify((stage,), resolution=0.05)
    rng = np.random.default_rng(degree)
    exact = exact_of(stage)
    points = rng.uniform(-1, 1, 300)
    worst = max(abs(exact.at(x) - Fraction(float(sign(x)))) for x in points)
    assert worst <= rounding_of(stage) <= 1e4 * UNIT * degree


def test_least_bounds_the_sign_beyond_every_gap() -> None:
    sign = best_composition(resolution=2.0**-6, degrees=(7, 7, 7))
    x = np.geomspace(2.0**-12, 1, 50_001)
    value = sign(x)
    after = np.minimum.accumulate(value[::-1])[::-1]
    for gap in (2.0**-12, 2.0**-8, 2.0**-7, 2.0**-6, 0.1, 0.9, 1.0):
        place = int(np.searchsorted(x, gap * (1 - 1e-12)))
        least = sign.least(gap)
        assert least <= after[place] + 1e-12
        assert least >= 0.95 * after[place]
    assert sign.least(2.0**-6) >= 1 - sign.error
    with pytest.raises(InvalidInput, match="gap"):
        sign.least(0.0)


def test_gap_for_a_value_is_where_the_sign_stays_above_it() -> None:
    sign = best_composition(resolution=2.0**-6, degrees=(7, 7))
    gap = sign.gap_for(0.5)
    x = np.linspace(gap, 1, 100_001)
    assert np.min(sign(x)) >= 0.5 - 1e-12
    assert sign.least(gap * (1 - 1e-5)) < 0.5
    with pytest.raises(InvalidInput, match="value"):
        sign.gap_for(1.5)


@pytest.mark.parametrize(
    ("resolution", "error", "depth"),
    [
        (2.0**-6, 0.01, 9),
        (2.0**-6, 0.01, 15),
        (2.0**-6, 2.0**-20, 15),
        (2.0**-8, 1e-9, 20),
        (2.0**-12, 1e-3, 20),
        (0.9, 1e-2, 2),
    ],
)
def test_cheapest_meets_error_and_depth(resolution: float, error: float, depth: int) -> None:
    sign = cheapest_composition(resolution=resolution, error=error, depth=depth)
    assert sign.error <= error
    assert sign.levels <= depth
    assert np.max(np.abs(sign(points_of(resolution)) - 1)) <= error


def sequences(levels: int) -> Iterator[tuple[int, ...]]:
    yield ()
    for degree in range(3, 32, 2):
        cost = math.ceil(math.log2(degree + 1))
        if cost <= levels:
            for rest in sequences(levels - cost):
                yield (degree, *rest)


def chained_error(resolution: float, degrees: tuple[int, ...]) -> float:
    error = (1 - resolution) / (1 + resolution)
    for degree in degrees:
        error = minimax_odd(degree, low=(1 - error) / (1 + error)).error
    return error


@pytest.mark.parametrize("depth", [2, 5, 8])
@pytest.mark.parametrize("resolution", [0.2, 2.0**-4, 2.0**-6])
def test_no_composition_is_cheaper(resolution: float, depth: int) -> None:
    ranked = sorted(
        (
            sum(cost_of_degree(d)[1] for d in degrees),
            sum(cost_of_degree(d)[0] for d in degrees),
            chained_error(resolution, degrees),
        )
        for degrees in sequences(depth)
        if degrees
    )
    least = min(error for *_, error in ranked)
    for target in (0.9, 0.5, 0.2, 0.05, 0.01, 1e-4, 1e-6):
        if least < target * 0.999:
            products, levels, error = next(r for r in ranked if r[2] <= target)
            found = cheapest_composition(resolution=resolution, error=target, depth=depth)
            assert (found.products, found.levels) == (products, levels)
            assert found.error == pytest.approx(error, rel=1e-4)
        elif least > target * 1.001:
            with pytest.raises(InvalidInput, match=f"depth {depth}"):
                cheapest_composition(resolution=resolution, error=target, depth=depth)


def test_unreachable_error_names_what_is_reachable() -> None:
    with pytest.raises(InvalidInput, match=r"at least 0\.\d+ .* depth 6 \(depth \d+ reaches it\)"):
        cheapest_composition(resolution=2.0**-6, error=0.01, depth=6)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"resolution": 0.0}, "resolution"),
        ({"resolution": 1.0}, "resolution"),
        ({"resolution": -1.0}, "resolution"),
        ({"resolution": math.nan}, "resolution"),
        ({"resolution": 2.0**-50}, "resolution"),
        ({"error": 0.0}, "error"),
        ({"error": 1.0}, "error"),
        ({"depth": 1}, "depth"),
        ({"depth": 7.5}, "depth"),
        ({"depth": 1000}, "depth"),
    ],
)
def test_inadmissible_requests_are_refused(arguments: dict[str, float], named: str) -> None:
    request = {"resolution": 0.1, "error": 0.1, "depth": 9} | arguments
    with pytest.raises(InvalidInput, match=named) as caught:
        cheapest_composition(**request)  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("degrees", [(), (4,), (7, 0), (65,), (3,) * 33])
def test_inadmissible_degrees_are_refused(degrees: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="degree"):
        best_composition(resolution=0.1, degrees=degrees)


def test_input_past_one_is_refused_without_showing_it() -> None:
    sign = best_composition(resolution=0.1, degrees=(5, 5))
    assert float(sign(1 + 1e-10)) == float(sign(1.0))
    for bad in (1.001, [0.0, -7.25], math.nan):
        with pytest.raises(InvalidInput) as caught:
            sign(bad)
        assert "7.25" not in str(caught.value)


def test_stages_that_break_their_promise_are_not_certified() -> None:
    with pytest.raises(RunFailed, match="keep the sign"):
        certify(((-1.0,),), resolution=0.5)
    with pytest.raises(RunFailed, match="below 1"):
        certify(((1.5,), (1.0,)), resolution=0.5)
    with pytest.raises(InvalidInput):
        certify((), resolution=0.5)
    identity = certify(((1.0,),), resolution=0.5)
    assert isinstance(identity, CompositeSign)
    assert identity.monotone
    assert identity.error == pytest.approx(0.5)
    assert (identity.slope, identity.small_slope, identity.maximum) == (1.0, 1.0, 1.0)
