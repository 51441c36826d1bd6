import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.reference.numerics.compare import (
    acomp,
    acomp_tolerance,
    amax,
    compare_iterations,
    iterate,
    maximum_error,
    maximum_iterations,
    new_comp,
    paper_compare_iterations,
    paper_maximum_iterations,
)
from helba.reference.numerics.evaluation import evaluation_order

orders = st.sampled_from([1, 2, 3, 4])
gaps = st.floats(-12, -1.01).map(lambda e: 2.0**e)


@settings(max_examples=300)
@given(n=orders, gap=gaps, error=st.floats(1e-6, 0.45), seed=st.integers(0, 2**32 - 1))
def test_comparison_is_right_beyond_the_gap(n, gap, error, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(0, 1, (2, 200))
    far = np.abs(a - b) >= gap
    result = new_comp(a, b, gap=gap, error=error, n=n)
    assert np.all(np.abs(result.value - (a > b))[far] <= result.certificate.error)


@settings(max_examples=100)
@given(n=orders, gap=gaps, error=st.floats(1e-6, 0.45))
def test_comparison_uses_no_iteration_too_many(n, gap, error):
    count = compare_iterations(gap=gap, error=error, n=n)
    reached = lambda k: (1 - float(iterate(np.array(gap), n=n, iterations=k))) / 2  # noqa: E731
    assert reached(count) <= error
    assert count == 0 or reached(count - 1) > error * (1 - 1e-9)


@settings(max_examples=200)
@given(n=orders, error=st.floats(1e-6, 0.2), seed=st.integers(0, 2**32 - 1))
def test_maximum_of_two_is_below_by_no_more_than_its_error(n, error, seed):
    a, b = np.random.default_rng(seed).uniform(0, 1, (2, 200))
    short = np.maximum(a, b) - amax([a, b], error=error, n=n).value
    assert short.min() >= -1e-15
    assert short.max() <= error


@settings(max_examples=200)
@given(
    n=orders,
    values=st.lists(st.floats(0, 1), min_size=2, max_size=12),
    error=st.floats(1e-4, 0.2),
)
def test_amax_and_acomp_keep_their_certificates(n, values, error):
    row = np.array(values)
    top = amax(list(row), error=error, n=n)
    assert -1e-14 <= row.max() - top.value <= top.certificate.error
    compared = acomp(row, error=error, n=n)
    chosen = row[compared.value > error]
    assert compared.value[np.argmax(row)] >= 0.5 - 1e-9
    assert np.all(chosen >= row.max() - compared.certificate.error)


@settings(max_examples=200)
@given(
    values=st.lists(st.floats(0, 1), min_size=2, max_size=8),
    error=st.floats(1e-4, 0.2),
    log_noise=st.floats(-12, -5),
    seed=st.integers(0, 2**32 - 1),
)
def test_argmax_of_acomp_is_within_its_tolerance_under_noise(values, error, log_noise, seed):
    noise = 10.0**log_noise
    row, rng = np.array(values), np.random.default_rng(seed)
    b = acomp(row, error=error).value + noise * rng.choice([-1, 1], len(row))
    missed = row.max() - row[np.argmax(b)]
    assert missed <= acomp_tolerance(error=error, noise=noise) + 1e-12


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("iterations", [2, 6, 10])
def test_maximum_error_is_within_three_percent_of_the_worst_seen(n, iterations):
    x = np.linspace(0, 1, 400_001)
    seen = (x * (1 - iterate(x, n=n, iterations=iterations)) / 2).max()
    assert seen <= maximum_error(iterations=iterations, n=n) <= 1.03 * seen


def test_tolerance_of_acomp_is_not_vacuous():
    """Two values on the flank where f^(k) is flattest are confused at a quarter of the tolerance.

    The maximum lies up to `error` above amax, where the slope is least: comparing with a value that
    far below shows what the noise can hide there.
    """
    error, noise = 1e-2, 1e-6
    tolerance = acomp_tolerance(error=error, noise=noise)
    values = np.array([0.5 + error, 0.5 + error - tolerance / 4])
    b = new_comp(values, np.full(2, 0.5), gap=error, error=error).value
    assert 0 < b[0] - b[1] < 2 * noise
    assert tolerance < error / 10


def test_tolerance_of_acomp_is_the_slope_of_the_iterate():
    """Against a difference quotient of f^(k), which is not how it is computed."""
    error, noise, step = 1e-2, 1e-8, 1e-7
    count = compare_iterations(gap=error, error=error)
    ends = iterate(np.array([error + noise - step, error + noise + step]), n=1, iterations=count)
    slope = float(ends[1] - ends[0]) / (2 * step)
    assert acomp_tolerance(error=error, noise=noise) == pytest.approx(4 * noise / slope, rel=1e-4)


def test_levels_of_amax_and_acomp_are_counted():
    """Each maximum: its iterations of two levels, and one product; then one comparison."""
    top = amax([np.array(0.2), np.array(0.7), np.array(0.1)], error=0.01)
    count = maximum_iterations(error=0.01, arms=3)
    assert top.certificate.levels == 2 * (2 * count + 1)
    compared = acomp(np.array([0.2, 0.7, 0.1]), error=0.01)
    extra = 2 * compare_iterations(gap=0.01, error=0.01)
    assert compared.certificate.levels == top.certificate.levels + extra


def test_amax_needs_something_to_compare():
    with pytest.raises(InvalidInput, match="values must be at least 2, got 1 of them"):
        amax([np.array(0.5)], error=0.1)


def test_iterates_are_odd_increasing_and_stay_in_range():
    x = np.linspace(-1, 1, 2001)
    for n in (1, 2, 3, 4):
        y = iterate(x, n=n, iterations=4)
        np.testing.assert_allclose(y, -y[::-1], atol=1e-14)
        assert np.all(np.diff(y) >= -1e-15)
        assert abs(y).max() <= 1


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_levels_of_an_iteration_are_those_of_its_evaluation_order(n):
    from numpy.polynomial import chebyshev, polynomial

    from helba.reference.numerics.compare import levels_per_iteration

    power = np.zeros(1)
    for i in range(n + 1):
        rest = polynomial.polypow([1, 0, -1], i)
        term = polynomial.polymul([0, math.comb(2 * i, i) / 4**i], rest)
        power = polynomial.polyadd(power, term)
    odd = tuple(float(c) for c in chebyshev.poly2cheb(power)[1::2])
    assert evaluation_order(odd).levels == levels_per_iteration(n)


def test_paper_counts_at_130_and_what_they_miss():
    eps = 1 / (4.1 * 130)
    alpha = 1.5 + 5.2 * math.log(1.5) / math.log(4) + math.log(1.5) / (2 * math.log(2))
    assert paper_compare_iterations(error=eps) == 22
    assert paper_maximum_iterations(error=eps) == 9
    assert maximum_error(iterations=9) > 3e-3 > eps > eps**alpha
    assert maximum_iterations(error=eps) == 11
    assert maximum_iterations(error=eps**alpha) >= 42


def test_paper_counts_are_clamped_in_the_first_rounds():
    assert paper_compare_iterations(error=1 / 4.1) >= 1
    assert paper_maximum_iterations(error=0.9) >= 1


@pytest.mark.parametrize("n", [0, 5])
def test_only_f_1_to_f_4_exist(n):
    with pytest.raises(InvalidInput, match="n must be 1, 2, 3 or 4"):
        iterate(np.zeros(2), n=n, iterations=1)


def test_acomp_refuses_a_precision_its_lemma_does_not_admit():
    with pytest.raises(InvalidInput, match=r"strictly between 0.0 and 0.25, got 0.3"):
        acomp(np.array([0.1, 0.2]), error=0.3)


def test_comparison_refuses_numbers_outside_the_unit_interval():
    with pytest.raises(InvalidInput, match=r"a must be in \[0, 1\]"):
        new_comp(np.array([1.5]), np.array([0.5]), gap=0.1, error=0.1)
