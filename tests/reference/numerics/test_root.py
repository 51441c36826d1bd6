import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.reference.numerics.root import (
    root_error,
    root_error_at,
    root_iterations,
    root_levels,
    square_root,
)


@settings(max_examples=400)
@given(
    log_low=st.floats(-6, 0),
    log_range=st.floats(0, 6),
    iterations=st.integers(0, 26),
    seed=st.integers(0, 2**32 - 1),
)
def test_root_keeps_its_certificate(log_low, log_range, iterations, seed):
    low = 10.0**log_low
    high = low * 10.0**log_range
    inner = np.exp(np.random.default_rng(seed).uniform(np.log(low), np.log(high), 50))
    z = np.clip(np.concatenate([[low, high], inner]), low, high)
    root = square_root(z, low=low, high=high, iterations=iterations)
    assert np.abs(root.value - np.sqrt(z)).max() <= root.certificate.error


@settings(max_examples=300)
@example(log_range=6.0, log_error=-2.220446049250313e-16)
@given(log_range=st.floats(0.1, 6), log_error=st.floats(-8, 0))
def test_paper_count_reaches_the_error(log_range, log_error):
    high = 10.0**log_range
    error = 10.0**log_error * np.sqrt(high)
    steps = root_iterations(low=1.0, high=high, error=error)
    assert root_error(low=1.0, high=high, iterations=steps) <= error * 1.05 + 1e-9


@pytest.mark.parametrize("iterations", [0, 3, 8, 14])
def test_root_certificate_is_within_ten_percent_of_the_error_seen(iterations):
    low, high = 1e-4, 50.0
    z = np.geomspace(low, high, 50_000)
    root = square_root(z, low=low, high=high, iterations=iterations)
    seen = np.abs(root.value - np.sqrt(z)).max()
    assert seen <= root.certificate.error <= 1.1 * seen


def test_root_error_follows_the_recurrence_exactly():
    z = np.geomspace(1e-3, 2.0, 1000)
    root = square_root(z, low=1e-3, high=2.0, iterations=6)
    predicted = root_error_at(z, high=2.0, iterations=6)
    np.testing.assert_allclose(np.sqrt(z) - root.value, predicted, atol=1e-13)


def test_iterations_are_those_of_the_proof_at_130():
    """24 by the proof's 2 ln; the statement's 4 ln would give 23 (erratum 3)."""
    floor = 5.5 / (130**1.5 * np.sqrt(1 + 5.5**2 * 130))
    assert root_iterations(low=floor, high=floor + 2 * 5.5**2, error=1 / 130) == 24
    assert root_levels(24) == 48


def test_root_refuses_a_value_outside_its_interval():
    with pytest.raises(InvalidInput, match=r"z must be in \[1, 2\]"):
        square_root(np.array([3.0]), low=1.0, high=2.0, iterations=3)


def test_root_refuses_an_interval_past_double_precision():
    with pytest.raises(InvalidInput, match="low / high must be at least 1e-15"):
        root_error(low=1e-300, high=1.0, iterations=3)


@pytest.mark.parametrize("error", [0.0, -1.0, float("inf")])
def test_root_iterations_refuse_errors_the_formula_does_not_admit(error):
    with pytest.raises(InvalidInput, match="error must be"):
        root_iterations(low=0.1, high=1.0, error=error)
