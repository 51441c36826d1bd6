from __future__ import annotations

import numpy as np
import pytest

from helba.errors import InvalidInput, LevelsExhausted
from helba.numerics import inverse as clear_inverse
from helba.reference.circuits.algebra.inverse import cold_bound, invert_cold, invert_warm
from helba.reference.circuits.algebra.matrix import multiply_matrices, squared_norm
from helba.reference.circuits.algebra.rows import spread_columns
from helba.reference.circuits.levels import sink
from helba.reference.engine.simulator import SimulatedEngine
from helba.reference.numerics import inverse as cold_inverse
from helba.reference.planning.cost.chain import REFRESH_LEVELS
from helba.reference.planning.cost.matrix_cost import cold_cost, warm_cost
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Keyed, open_keyed
from tests.reference.circuits.circuit_checks import Refresher, assert_uses_every_key, measure
from tests.reference.circuits.matrices import CASES, LARGE, Array, open_matrix_desk, random_design


def spectrum(V: Array, A: Array) -> tuple[float, float]:
    values = np.linalg.eigvals(V @ A).real
    return float(values.min()) - 1e-9, float(values.max()) + 1e-9


def slack(keyed: Keyed) -> float:
    """What CKKS may lose at these sizes; float64 loses next to nothing."""
    return 1e-9 if isinstance(keyed.engine, SimulatedEngine) else 1e-4


@pytest.mark.parametrize(("scheme", "dim"), CASES + LARGE)
@pytest.mark.parametrize("error", [0.5, 0.05, 1e-6])
def test_warm_inverse_meets_its_certificate_at_the_predicted_cost(
    scheme: str, dim: int, error: float
) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim, depth=14)
    V, A = random_design(dim)
    low, high = spectrum(V, A)
    v, a = (keyed.engine.encrypt(layout.pack(matrix)) for matrix in (V, A))
    with measure(keyed) as measured:
        found = invert_warm(
            keyed.engine, matrix=v, start=a, layout=layout, low=low, high=high, error=error
        )
    plan = clear_inverse.plan_warm_start(low=low, high=high, error=error)
    X = layout.unpack(keyed.open(found.value))
    assert found.certificate.error == plan.error <= error
    assert clear_inverse.residual_norm((X + X.T) / 2, matrix=V) <= plan.error + slack(keyed)
    assert measured.at(0, found.value) == warm_cost(layout, steps=plan.steps)
    assert found.certificate.levels == found.value.level


@pytest.mark.parametrize(("scheme", "dim"), CASES)
def test_warm_inverse_equals_its_plain_twin_with_period_of_one_matrix(
    scheme: str, dim: int
) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim, depth=14)
    V, A = random_design(dim)
    low, high = spectrum(V, A)
    v, a = (keyed.engine.encrypt(layout.pack(matrix)) for matrix in (V, A))
    found = invert_warm(
        keyed.engine, matrix=v, start=a, layout=layout, low=low, high=high, error=1e-3
    )
    twin, _ = clear_inverse.invert_warm(V, A, low=low, high=high, error=1e-3)
    copies = found.value.slots // layout.size
    difference = keyed.open(found.value) - np.tile(layout.pack(twin), copies)
    assert np.abs(difference).max() <= slack(keyed)


@pytest.mark.parametrize(("scheme", "dim"), CASES)
@pytest.mark.parametrize("error", [10.0, 0.3, 1e-3])
def test_cold_inverse_meets_its_certificate_at_the_predicted_cost(
    scheme: str, dim: int, error: float
) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim, depth=20)
    V, _ = random_design(dim)
    ridge, trace = 1.0, 1.1 * float(np.trace(V))
    v = keyed.engine.encrypt(layout.pack(V))
    with measure(keyed) as measured:
        found = invert_cold(
            keyed.engine, matrix=v, layout=layout, ridge=ridge, trace_bound=trace, error=error
        )
    steps = cold_inverse.cold_iterations(ridge=ridge, trace_bound=trace, error=error)
    bound = cold_inverse.cold_error(ridge=ridge, trace_bound=trace, iterations=steps)
    X = layout.unpack(keyed.open(found.value))
    assert found.certificate.error == pytest.approx(bound)
    assert np.linalg.norm(X - np.linalg.inv(V), 2) <= bound + slack(keyed)
    assert measured.at(0, found.value) == cold_cost(layout, steps=steps)
    assert found.certificate.levels == found.value.level


@pytest.mark.parametrize(("scheme", "dim"), CASES)
def test_inverse_refreshes_when_levels_run_out_and_leaves_some_for_the_next(
    scheme: str, dim: int
) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=dim, depth=6)
    V, A = random_design(dim)
    low, high = spectrum(V, A)
    low, high = low / 2.0, 2.0 * high  # more steps than the levels last for
    refresh = Refresher(keyed)
    v, a = (keyed.engine.encrypt(layout.pack(matrix)) for matrix in (V, A))
    found = invert_warm(
        keyed.engine,
        matrix=v,
        start=a,
        layout=layout,
        low=low,
        high=high,
        error=1e-6,
        refresh=refresh,
    )
    X = layout.unpack(keyed.open(found.value))
    steps = clear_inverse.plan_warm_start(low=low, high=high, error=1e-6).steps
    # depth 6 holds two products and the reserve of 2, and V A is the first of them
    assert refresh.count == steps // 2
    assert min(refresh.left) >= 2
    assert found.value.levels_left >= 2
    # the simulated refresh rounds to 40 binary digits
    assert np.abs(X - np.linalg.inv(V)).max() <= 1e-6 + max(1e-8, slack(keyed))


def test_inverse_without_refresh_says_that_levels_are_used_up() -> None:
    keyed, layout = open_matrix_desk("simulate", dim=3, depth=6)
    V, A = random_design(3)
    low, high = spectrum(V, A)
    v, a = (keyed.engine.encrypt(layout.pack(matrix)) for matrix in (V, A))
    with pytest.raises(LevelsExhausted):
        invert_warm(keyed.engine, matrix=v, start=a, layout=layout, low=low, high=high, error=1e-9)


@pytest.mark.ckks
@pytest.mark.parametrize("dim", [2, 5, 8])
def test_warm_certificate_with_noise_covers_what_ckks_does(dim: int) -> None:
    V, A = random_design(dim)
    low, high = spectrum(V, A)
    # a step's bound, seen through V^(1/2) on both sides: at most d ||V|| times it
    keyed, layout = open_matrix_desk("simulate", dim=dim, depth=14)
    assert isinstance(keyed.engine, SimulatedEngine)
    m, a = (keyed.engine.encrypt(layout.pack(matrix)) for matrix in (V @ A, A))
    step = multiply_matrices(
        keyed.engine, layout.opening, left=[m, a], right=m, right_plus=2.0 * np.eye(dim)
    )
    noise = dim * float(np.linalg.norm(V, 2)) * keyed.engine.noise_bound(step)
    keyed, _ = open_matrix_desk("ckks", dim=dim, depth=14)
    v, a = (keyed.engine.encrypt(layout.pack(matrix)) for matrix in (V, A))
    found = invert_warm(
        keyed.engine, matrix=v, start=a, layout=layout, low=low, high=high, error=1e-3, noise=noise
    )
    exact = clear_inverse.plan_warm_start(low=low, high=high, error=1e-3)
    assert exact.error < found.certificate.error <= 1e-3
    X = layout.unpack(keyed.open(found.value))
    assert clear_inverse.residual_norm((X + X.T) / 2, matrix=V) <= found.certificate.error
    # a little unsymmetric, within the noise
    root = np.linalg.cholesky(V)
    assert np.linalg.norm(root.T @ (X - X.T) @ root, 2) <= 2 * (
        found.certificate.error - exact.error
    )


@pytest.mark.parametrize("scheme", BOTH)
def test_cold_inverse_takes_a_matrix_that_repeats_over_more_slots(scheme: str) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=3, depth=20)
    V, _ = random_design(3)
    wide = keyed.engine.repeat(keyed.engine.encrypt(layout.pack(V)), 4 * layout.size)
    trace = 1.1 * float(np.trace(V))
    for error in (10.0, 0.5, 1e-3):
        found = invert_cold(
            keyed.engine, matrix=wide, layout=layout, ridge=1.0, trace_bound=trace, error=error
        )
        assert found.value.slots == layout.size
        X = layout.unpack(keyed.open(found.value))
        bound = found.certificate.error + slack(keyed)
        assert np.linalg.norm(X - np.linalg.inv(V), 2) <= bound


@pytest.mark.parametrize(("level", "refreshes"), [(0, 2), (2, 4), (4, 3)])
def test_cold_inverse_refreshes_X_beside_M(level: int, refreshes: int) -> None:
    """After the first step X is a level below V, M two: each is refreshed when its own run out."""
    keyed, layout = open_matrix_desk("simulate", dim=3, depth=6)
    V, _ = random_design(3)
    trace, refresh = float(np.trace(V)), Refresher(keyed)
    v = keyed.engine.encrypt(layout.pack(V), level=level)
    found = invert_cold(
        keyed.engine,
        matrix=v,
        layout=layout,
        ridge=1.0,
        trace_bound=trace,
        error=1e-3,
        refresh=refresh,
    )
    steps = cold_inverse.cold_iterations(ridge=1.0, trace_bound=trace, error=1e-3)
    assert (steps, refresh.count) == (6, refreshes)
    assert found.value.levels_left >= 2
    X = layout.unpack(keyed.open(found.value))
    assert np.linalg.norm(X - np.linalg.inv(V), 2) <= 1e-3


def test_inverse_with_an_operand_at_its_last_level_is_refreshed_first() -> None:
    keyed, layout = open_matrix_desk("simulate", dim=3, depth=8)
    V, A = random_design(3)
    low, high = spectrum(V, A)
    for late in ("matrix", "start"):
        refresh = Refresher(keyed)
        held = {
            name: keyed.engine.encrypt(layout.pack(value), level=6 if name == late else 0)
            for name, value in (("matrix", V), ("start", A))
        }
        found = invert_warm(
            keyed.engine, layout=layout, low=low, high=high, error=1e-6, refresh=refresh, **held
        )
        assert refresh.left[0] == 2
        assert found.value.levels_left >= 2
        X = layout.unpack(keyed.open(found.value))
        assert np.abs(X - np.linalg.inv(V)).max() <= 1e-6 + 1e-8


@pytest.mark.parametrize(("dim", "max_slots"), [(1, 4), (2, 8), (4, 32), (7, 128), (8, 1024)])
def test_matrices_use_every_key_of_their_layout(dim: int, max_slots: int) -> None:
    layout = MatrixLayout(dim=dim, max_slots=max_slots)
    parameters = insecure_parameters(ring_dim=1 << 11, depth=12)
    keyed = open_keyed("simulate", parameters=parameters, rotations=layout.rotations)
    eye = keyed.engine.encrypt(layout.pack(np.eye(dim)))
    vector = keyed.engine.encrypt(layout.pack_by_column(np.zeros(dim)))
    with assert_uses_every_key(keyed):
        invert_warm(
            keyed.engine, matrix=eye, start=eye, layout=layout, low=0.5, high=2.0, error=1e-5
        )
        squared_norm(keyed.engine, matrix=eye, layout=layout)
        spread_columns(keyed.engine, vector, layout=layout)


def test_noise_that_the_error_does_not_allow_is_refused() -> None:
    keyed, layout = open_matrix_desk("simulate", dim=2, depth=14)
    V, A = random_design(2)
    v, a = (keyed.engine.encrypt(layout.pack(matrix)) for matrix in (V, A))
    with pytest.raises(InvalidInput, match="at noise"):
        invert_warm(
            keyed.engine,
            matrix=v,
            start=a,
            layout=layout,
            low=0.5,
            high=2.0,
            error=1e-6,
            noise=1e-3,
        )


def test_cold_error_that_the_noise_does_not_allow_is_refused() -> None:
    keyed, layout = open_matrix_desk("simulate", dim=2, depth=20)
    v = keyed.engine.encrypt(layout.pack(np.eye(2)))
    with pytest.raises(InvalidInput, match=r"at noise 0\.001"):
        invert_cold(
            keyed.engine,
            matrix=v,
            layout=layout,
            ridge=1.0,
            trace_bound=2.0,
            error=1e-3,
            noise=1e-3,
        )


def test_cold_inverse_makes_up_for_noise_with_another_step() -> None:
    keyed, layout = open_matrix_desk("simulate", dim=2, depth=20)
    v = keyed.engine.encrypt(layout.pack(np.eye(2)))
    ridge, trace = 1.0, 2.0
    error = cold_inverse.cold_error(ridge=ridge, trace_bound=trace, iterations=3)
    exact, noisy = (
        invert_cold(
            keyed.engine,
            matrix=v,
            layout=layout,
            ridge=ridge,
            trace_bound=trace,
            error=error,
            noise=noise,
        ).certificate
        for noise in (0.0, 1e-6)
    )
    assert (exact.levels, noisy.levels) == (6, 8)
    assert noisy.error <= error


@pytest.mark.parametrize(("noise", "iterations"), [(1e-3, 12), (1e-2, 10), (1e-2, 30)])
def test_cold_bound_is_tight_for_noise_that_conspires(noise: float, iterations: int) -> None:
    """One dimension: every step lowers M and raises X, so that their gap grows at its fastest."""
    trace = 50.0
    X = M = 1.0 / trace
    for _ in range(iterations):
        rest = 2.0 - M
        X, M = X * rest + noise, M * rest - noise
    bound = cold_bound(ridge=1.0, trace_bound=trace, iterations=iterations, noise=noise)
    assert abs(X - 1.0) <= bound <= abs(X - 1.0) + 3.0 * noise


def test_cold_bound_grows_with_noise_from_the_bound_of_exact_arithmetic() -> None:
    exact = cold_inverse.cold_error(ridge=2.0, trace_bound=50.0, iterations=6)
    bounds = [
        cold_bound(ridge=2.0, trace_bound=50.0, iterations=6, noise=noise)
        for noise in (0.0, 1e-8, 1e-6)
    ]
    assert bounds[0] == pytest.approx(exact, rel=1e-9)
    assert bounds[0] < bounds[1] < bounds[2]


@pytest.mark.parametrize("seed", range(5))
def test_cold_bound_holds_for_steps_disturbed_at_random(seed: int) -> None:
    generator = np.random.default_rng(seed)
    V, _ = random_design(4, seed=seed)
    root = np.linalg.cholesky(V)
    trace, noise = 1.2 * float(np.trace(V)), 1e-6

    def disturbance() -> Array:
        matrix = generator.normal(size=(4, 4))
        return noise * (matrix + matrix.T) / np.linalg.norm(matrix + matrix.T, 2)

    # Y = L^T X L and N = L^-1 M L are what the noise is measured in
    Y = root.T @ root / trace
    N = Y.copy()
    for count in range(1, 8):
        rest = 2.0 * np.eye(4) - N
        Y, N = Y @ rest + disturbance(), N @ rest + disturbance()
        X = np.linalg.inv(root.T) @ Y @ np.linalg.inv(root)
        bound = cold_bound(ridge=1.0, trace_bound=trace, iterations=count, noise=noise)
        assert np.linalg.norm(X - np.linalg.inv(V), 2) <= bound


@pytest.mark.parametrize("scheme", BOTH)
def test_a_sunken_start_leaves_exactly_a_refresh(scheme: str) -> None:
    keyed, layout = open_matrix_desk(scheme, dim=2, depth=14)
    V = np.array([[2.0, 0.5], [0.5, 1.5]])
    plan = clear_inverse.plan_warm_start(low=1.0, high=3.0, error=1e-3)
    levels = 2 * (plan.steps + 1)
    assert levels + REFRESH_LEVELS <= keyed.engine.parameters.depth
    held = [
        sink(keyed.engine, keyed.engine.encrypt(layout.pack(matrix)), levels=levels)
        for matrix in (V, np.eye(2))
    ]
    found = invert_warm(
        keyed.engine, matrix=held[0], start=held[1], layout=layout, low=1.0, high=3.0, error=1e-3
    )
    assert found.value.levels_left == REFRESH_LEVELS
    deep = keyed.engine.encrypt(layout.pack(V), level=keyed.engine.parameters.depth)
    assert sink(keyed.engine, deep, levels=levels).level == deep.level
    fresh = keyed.engine.refresh(found.value, secret_key=keyed.keys.secret)
    assert np.abs(layout.unpack(keyed.open(fresh)) - np.linalg.inv(V)).max() <= 2e-3
