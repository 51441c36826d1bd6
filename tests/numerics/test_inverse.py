import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.numerics.inverse import invert_warm, plan_warm_start, residual_norm
from helba.reference.numerics.inverse import cold_error, cold_iterations, invert_cold


def random_matrix(rng, *, dim, ridge, condition):
    """A symmetric matrix with eigenvalues over [ridge, ridge * condition], and its inverse."""
    eigenvalues = ridge * np.exp(rng.uniform(0.0, np.log(condition), dim))
    eigenvalues[0] = ridge
    if dim > 1:
        eigenvalues[-1] = ridge * condition
    basis, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    return (basis * eigenvalues) @ basis.T, (basis / eigenvalues) @ basis.T


def residual_of(inverse, matrix):
    lower = np.linalg.cholesky(matrix)
    return np.linalg.norm(lower.T @ inverse @ lower - np.eye(len(matrix)), 2)


cases = st.tuples(
    st.integers(0, 2**32 - 1),
    st.integers(1, 16),
    st.floats(-2, 2),
    st.floats(0, 6),
    st.floats(-8, 0),
)


@settings(max_examples=1500)
@given(case=cases)
def test_cold_inverse_keeps_its_certificate(case):
    seed, dim, log_ridge, log_condition, log_error = case
    rng = np.random.default_rng(seed)
    ridge = 10.0**log_ridge
    matrix, exact = random_matrix(rng, dim=dim, ridge=ridge, condition=10.0**log_condition)
    result = invert_cold(
        matrix,
        ridge=ridge * (1 - 1e-12),
        trace_bound=np.trace(matrix) * rng.uniform(1, 3),
        error=10.0**log_error / ridge,
    )
    assert np.linalg.norm(result.value - exact, 2) <= result.certificate.error * (1 + 1e-9)


@settings(max_examples=1500)
@given(case=cases, log_trace=st.floats(-2, 3), rank=st.integers(1, 4))
def test_warm_inverse_keeps_its_certificate(case, log_trace, rank):
    seed, dim, log_ridge, log_condition, _ = case
    rng = np.random.default_rng(seed)
    old, exact = random_matrix(rng, dim=dim, ridge=10.0**log_ridge, condition=10.0**log_condition)
    added = np.linalg.cholesky(old) @ rng.normal(size=(dim, rank))
    trace = 10.0**log_trace
    added *= np.sqrt(trace / np.trace(added.T @ exact @ added))
    new = old + added @ added.T
    found, certified = invert_warm(new, exact, low=1 - 1e-9, high=1 + trace + 1e-9, error=1e-5)
    assert residual_of(found, new) <= certified * (1 + 1e-9)


def test_cold_certificate_is_attained_when_the_bounds_are():
    matrix = np.diag([1.0, 9.0])
    result = invert_cold(matrix, ridge=1.0, trace_bound=10.0, error=1e-3)
    seen = np.linalg.norm(result.value - np.diag([1.0, 1 / 9]), 2)
    assert 0.99 * result.certificate.error <= seen <= result.certificate.error


def test_warm_certificate_is_attained_when_the_interval_is():
    matrix = np.diag([1.0, 2.0])
    found, certified = invert_warm(matrix, np.eye(2), low=1.0, high=2.0, error=1e-5)
    assert 0.99 * certified <= residual_of(found, matrix)


@pytest.mark.parametrize(("trace", "steps"), [(1, 3), (2, 4), (5, 4), (10, 5), (31, 6), (65, 6)])
def test_warm_start_needs_few_steps(trace, steps):
    plan = plan_warm_start(low=1.0, high=1.0 + trace, error=1e-5)
    assert plan.steps == steps


def test_warm_scaling_is_optimal():
    """No other first scale leaves a smaller residual than 2/(low + high)."""
    low, high = 0.9, 7.0
    best = plan_warm_start(low=low, high=high, error=1e-5).scales[0]
    residual = lambda s: max(abs(1 - s * low), abs(1 - s * high))  # noqa: E731
    others = np.linspace(0.05, 2.0, 2000)
    assert residual(best) <= min(residual(s) for s in others) + 1e-12


def noisy_newton(rng, plan, start, *, noise):
    """Both products of every step carry symmetric noise of norm `noise`; V is the identity."""
    dim = len(start)

    def shake():
        sample = rng.normal(size=(dim, dim))
        sample = sample + sample.T
        return rng.choice([-1, 1]) * noise * sample / np.linalg.norm(sample, 2)

    X, M = start, start + shake()
    for scale in plan.scales:
        rest = 2 * np.eye(dim) - scale * M
        X, M = scale * X @ rest + shake(), scale * M @ rest + shake()
    return np.linalg.norm(X - np.eye(dim), 2)


@settings(max_examples=300)
@given(
    seed=st.integers(0, 2**32 - 1),
    dim=st.integers(1, 6),
    high=st.floats(1.5, 70.0),
    log_noise=st.floats(-12, -7),
)
def test_warm_start_holds_when_every_product_is_noisy(seed, dim, high, log_noise):
    rng, noise = np.random.default_rng(seed), 10.0**log_noise
    plan = plan_warm_start(low=1.0, high=high, error=1e-4, noise=noise)
    basis, _ = np.linalg.qr(rng.normal(size=(dim, dim)))
    eigenvalues = rng.uniform(1.0, high, dim)
    eigenvalues[0] = rng.choice([1.0, high])
    start = (basis * eigenvalues) @ basis.T
    assert noisy_newton(rng, plan, start, noise=noise) <= plan.error * (1 + 1e-3)


def test_noise_of_a_warm_start_is_not_overstated():
    """The worst of many noisy runs comes within a factor of eight of the drift."""
    rng, noise = np.random.default_rng(0), 1e-8
    plan = plan_warm_start(low=1.0, high=33.0, error=1e-6, noise=noise)
    worst = max(noisy_newton(rng, plan, np.eye(1), noise=noise) for _ in range(300))
    assert plan.drift / 8 <= worst <= plan.error
    assert plan.drift > 10 * noise  # the drift is what counts, not the last step's noise


def test_noise_of_a_warm_start_follows_its_recurrence():
    """One step from [1, 2], by hand: scale 2/3, residual 1/9."""
    plan = plan_warm_start(low=1.0, high=2.0, error=0.12, noise=1e-4)
    drift = 2 / 3 * (2 - 2 / 3) * 1e-4 + 2e-4
    assert plan.steps == 1
    assert plan.drift == pytest.approx(drift)
    assert plan.error == pytest.approx(1 / 9 + 1e-4 + drift)


def test_warm_start_refuses_an_error_that_noise_does_not_allow():
    with pytest.raises(InvalidInput, match=r"error must be at least .* at noise 1e-05"):
        plan_warm_start(low=1.0, high=2.0, error=1e-6, noise=1e-5)


def test_cold_iterations_are_the_papers_at_130():
    L, t = 5.5, 130
    eps = 1 / (L * t**1.5 * np.sqrt(L**2 * t + 1))
    assert cold_iterations(ridge=1.0, trace_bound=2 + L**2 * t, error=eps) == 16


@given(st.floats(1e-9, 0.9), st.floats(1.1, 1e6))
def test_cold_iterations_reach_the_error_and_no_step_is_wasted(error, trace):
    steps = cold_iterations(ridge=1.0, trace_bound=trace, error=error)
    assert cold_error(ridge=1.0, trace_bound=trace, iterations=steps) <= error * (1 + 1e-9)
    if steps:
        before = cold_error(ridge=1.0, trace_bound=trace, iterations=steps - 1)
        assert before >= error * (1 - 1e-9)


def test_cold_inverse_refuses_a_trace_past_its_bound():
    with pytest.raises(InvalidInput, match="trace of the matrix must be at most 3"):
        invert_cold(np.diag([1.0, 9.0]), ridge=1.0, trace_bound=3.0, error=1e-3)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (np.ones((2, 3)), "matrix must be square"),
        (np.array([[np.nan]]), "matrix must be finite"),
        (np.array([[1.5, 0.4], [0.0, 1.5]]), "matrix must be symmetric"),
        (0.1 * np.eye(2), "least eigenvalue of the matrix must be at least 1, got 0.1"),
        (np.zeros((2, 2)), "least eigenvalue"),
        (-np.eye(2), "least eigenvalue"),
    ],
)
def test_inverse_refuses_a_matrix_it_could_not_certify(bad, words):
    with pytest.raises(InvalidInput, match=words):
        invert_cold(bad, ridge=1.0, trace_bound=3.0, error=1e-3)


@pytest.mark.parametrize("low", [1e-300, 1e-17])
def test_warm_start_refuses_an_interval_past_double_precision(low):
    with pytest.raises(InvalidInput, match="low must be at least about 1e-15 of high"):
        plan_warm_start(low=low, high=1.0, error=1e-5)


@pytest.mark.parametrize("error", [0.0, -1.0, float("nan")])
def test_iterations_refuse_an_error_the_formula_does_not_admit(error):
    with pytest.raises(InvalidInput, match="error must be"):
        cold_iterations(ridge=1.0, trace_bound=3.0, error=error)


def test_residual_norm_is_that_of_the_symmetric_form():
    rng = np.random.default_rng(0)
    matrix, exact = random_matrix(rng, dim=5, ridge=0.5, condition=1e3)
    off = exact + 1e-4 * np.eye(5)
    assert residual_norm(off, matrix=matrix) == pytest.approx(residual_of(off, matrix), rel=1e-6)
    assert residual_norm(np.eye(2), matrix=np.diag([1.0, -1e-9])) == np.inf


def test_warm_inverse_refuses_numbers_that_are_not_finite():
    with pytest.raises(InvalidInput, match="matrix must be finite"):
        invert_warm(np.array([[np.inf]]), np.eye(1), low=1.0, high=2.0, error=1e-3)
