"""The encrypted square root: certified error, exactly the levels of its numeric."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.reference.circuits.comparison.root import square_root
from helba.reference.engine.simulator import SimulatedEngine
from helba.reference.numerics.root import root_error, root_levels
from helba.reference.planning.cost.compare_cost import root_cost
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, open_keyed
from tests.reference.circuits.circuit_checks import Refresher, assert_close, measure

ROOT_REFRESHES = 6  # of six steps at depth 5: u four times, q twice


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("iterations", [0, 1, 2, 4])
@pytest.mark.parametrize("high", [0.5, 1.0, 7.3])
def test_root_is_certified_at_the_predicted_cost(scheme: str, iterations: int, high: float) -> None:
    keyed = open_keyed(scheme, parameters=insecure_parameters(depth=8))
    z = np.linspace(0.05 * high, high, 32)
    with measure(keyed) as measured:
        result = square_root(
            keyed.engine, keyed.engine.encrypt(z), high=high, iterations=iterations
        )
        keyed.open(result)
    assert measured.at(0, result) == root_cost(high=high, iterations=iterations)
    assert result.level == root_levels(iterations)
    error = root_error(low=0.05 * high, high=high, iterations=iterations)
    assert_close(keyed, result, expected=np.sqrt(z), error=error, noise=1e-7)


@settings(max_examples=60)
@given(
    ratio=st.floats(0.001, 0.5),
    high=st.floats(0.1, 100),
    iterations=st.integers(0, 8),
    seed=st.integers(0, 2**32 - 1),
)
def test_root_never_exceeds_the_true_one(
    ratio: float, high: float, iterations: int, seed: int
) -> None:
    keyed = open_keyed("simulate", parameters=insecure_parameters(depth=16))
    z = np.random.default_rng(seed).uniform(ratio * high, high, 16)
    result = square_root(keyed.engine, keyed.engine.encrypt(z), high=high, iterations=iterations)
    assert isinstance(keyed.engine, SimulatedEngine)
    below = np.sqrt(z) - keyed.open(result)
    assert (below >= -1e-9).all()
    assert (below <= root_error(low=ratio * high, high=high, iterations=iterations)).all()


@pytest.mark.parametrize("scheme", BOTH)
def test_root_is_refreshed_when_due(scheme: str) -> None:
    keyed = open_keyed(scheme, parameters=insecure_parameters(depth=5))
    refresh = Refresher(keyed)
    z = np.linspace(0.1, 1.0, 16)
    with measure(keyed) as measured:
        result = square_root(
            keyed.engine, keyed.engine.encrypt(z), high=1.0, iterations=6, refresh=refresh
        )
        keyed.open(result)
    predicted = root_cost(high=1.0, iterations=6)
    assert measured.cost is not None
    assert measured.cost.products == predicted.products
    assert measured.cost.plain_products == predicted.plain_products
    assert refresh.count == ROOT_REFRESHES
    assert min(refresh.left) >= 2
    assert result.levels_left >= 2
    assert_close(
        keyed,
        result,
        expected=np.sqrt(z),
        error=root_error(low=0.1, high=1.0, iterations=6) + 1e-6,
        noise=1e-4,
    )


@pytest.mark.parametrize("scheme", BOTH)
def test_root_from_the_last_level_refreshes_first(scheme: str) -> None:
    keyed = open_keyed(scheme, parameters=insecure_parameters(depth=5))
    refresh, z = Refresher(keyed), np.linspace(0.1, 1.0, 16)
    late = keyed.engine.encrypt(z, level=3)
    result = square_root(keyed.engine, late, high=1.0, iterations=6, refresh=refresh)
    assert refresh.count == ROOT_REFRESHES + 1
    assert min(refresh.left) >= 2
    error = root_error(low=0.1, high=1.0, iterations=6) + 1e-6
    assert_close(keyed, result, expected=np.sqrt(z), error=error, noise=1e-4)


@pytest.mark.ckks
def test_ckks_stays_within_the_noise_that_the_simulator_bounds() -> None:
    z, results, bound = np.linspace(0.01, 1.0, 64), [], 0.0
    for scheme in ("simulate", "ckks"):
        keyed = open_keyed(scheme, parameters=insecure_parameters(depth=8))
        result = square_root(keyed.engine, keyed.engine.encrypt(z), high=1.0, iterations=4)
        results.append(keyed.open(result))
        if isinstance(keyed.engine, SimulatedEngine):
            bound = keyed.engine.noise_bound(result)
    assert np.abs(results[0] - results[1]).max() <= bound < 1e-6


def test_unusable_ranges_are_refused() -> None:
    keyed = open_keyed("simulate", parameters=insecure_parameters(depth=5))
    z = keyed.engine.encrypt([0.5, 0.25])
    with pytest.raises(InvalidInput, match="high must be finite and greater than 0"):
        square_root(keyed.engine, z, high=0.0, iterations=1)
    with pytest.raises(InvalidInput, match="iterations must be at least 0"):
        square_root(keyed.engine, z, high=1.0, iterations=-1)
