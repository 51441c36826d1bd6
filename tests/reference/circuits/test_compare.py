"""NewComp, NewMax, amax and acomp on ciphertexts: certified errors, predicted costs, refreshes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput, LevelsExhausted
from helba.reference.circuits.comparison.compare import (
    acomp,
    amax,
    iterate,
    iterate_steps,
    new_comp,
)
from helba.reference.engine.simulator import SimulatedEngine
from helba.reference.numerics import compare as plain
from helba.reference.planning.cost.compare_cost import (
    acomp_cost,
    acomp_rotations,
    amax_cost,
    iterate_cost,
    new_comp_cost,
    tie_growth,
)
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.cost.polynomial import Affine
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Keyed, open_keyed
from tests.reference.circuits.circuit_checks import Refresher, assert_close, measure


def keyed_of(scheme: str, *, depth: int, rotations: tuple[int, ...] = ()) -> Keyed:
    return open_keyed(scheme, parameters=insecure_parameters(depth=depth), rotations=rotations)


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize(("n", "iterations"), [(1, 3), (2, 2), (3, 2), (4, 1)])
def test_iterate_is_the_numeric_at_the_predicted_cost(scheme: str, n: int, iterations: int) -> None:
    keyed, x = keyed_of(scheme, depth=6), np.linspace(-1, 1, 32)
    output = Affine(alpha=0.5, beta=0.25)
    with measure(keyed) as measured:
        result = iterate(
            keyed.engine, keyed.engine.encrypt(x), n=n, iterations=iterations, output=output
        )
        keyed.open(result)
    assert measured.at(0, result) == iterate_cost(n=n, iterations=iterations, output=output)
    assert result.level == iterations * plain.levels_per_iteration(n)
    expected = 0.5 * plain.iterate(x, n=n, iterations=iterations) + 0.25
    assert_close(keyed, result, expected=expected, noise=1e-8)


@pytest.mark.parametrize("scheme", BOTH)
def test_new_comp_is_certified(scheme: str) -> None:
    rng, gap, error = np.random.default_rng(1), 0.2, 0.05
    a = rng.uniform(0, 1, 64)
    b = np.where(a > 0.5, a - rng.uniform(gap, 0.5, 64), a + rng.uniform(gap, 0.5, 64))
    predicted = new_comp_cost(gap=gap, error=error)
    keyed = keyed_of(scheme, depth=predicted.levels)
    left, right = keyed.engine.encrypt(a), keyed.engine.encrypt(b)
    with measure(keyed) as measured:
        result = new_comp(keyed.engine, left, b=right, gap=gap, error=error)
        keyed.open(result)
    numeric = plain.new_comp(a, b, gap=gap, error=error)
    assert measured.at(0, result) == predicted
    assert result.level == numeric.certificate.levels
    assert_close(keyed, result, expected=numeric.value, noise=1e-7)
    assert_close(keyed, result, expected=(a > b) * 1.0, error=error, noise=1e-7)


@pytest.mark.parametrize("scheme", BOTH)
def test_amax_of_two_is_certified(scheme: str) -> None:
    a, b = np.random.default_rng(2).uniform(0, 1, (2, 64))
    predicted = amax_cost(error=0.02, arms=2)
    keyed = keyed_of(scheme, depth=predicted.levels)
    left, right = keyed.engine.encrypt(a), keyed.engine.encrypt(b)
    with measure(keyed) as measured:
        result = amax(keyed.engine, [left, right], error=0.02)
        opened = keyed.open(result)
    assert measured.at(0, result) == predicted
    assert result.level == plain.amax([a, b], error=0.02).certificate.levels
    assert_close(keyed, result, expected=np.maximum(a, b), error=0.02, noise=1e-7)
    assert (opened <= np.maximum(a, b) + 1e-7).all()


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("arms", [2, 3, 4])
def test_acomp_is_certified_and_refreshed_when_due(scheme: str, arms: int) -> None:
    error = 0.05
    keyed = keyed_of(scheme, depth=8, rotations=acomp_rotations(arms))
    values = np.zeros(1 << (arms - 1).bit_length())
    values[:arms] = np.random.default_rng(arms).uniform(0.2, 1, arms)
    refresh = Refresher(keyed)
    with measure(keyed) as measured:
        result = acomp(
            keyed.engine, keyed.engine.encrypt(values), arms=arms, error=error, refresh=refresh
        )
        b = keyed.open(result)[:arms]
    predicted = acomp_cost(error=error, arms=arms)
    # a refresh gives levels back, and leaves the work as it is
    assert measured.at(0, result) == predicted + Cost(levels=result.level - predicted.levels)
    assert refresh.count > 0
    assert result.levels_left >= 2
    numeric = plain.acomp(values[:arms], error=error)
    np.testing.assert_allclose(b, numeric.value, atol=1e-3)
    chosen = values[:arms][b > error]
    assert len(chosen) >= 1
    assert chosen.min() >= values.max() - numeric.certificate.error


def test_acomp_takes_the_levels_it_says() -> None:
    for arms in (2, 3, 4):
        predicted = acomp_cost(error=0.1, arms=arms)
        keyed = keyed_of("simulate", depth=predicted.levels, rotations=acomp_rotations(arms))
        values = np.linspace(0, 1, 1 << (arms - 1).bit_length())
        with measure(keyed) as measured:
            result = acomp(keyed.engine, keyed.engine.encrypt(values), arms=arms, error=0.1)
        assert measured.at(0, result) == predicted
        numeric = plain.acomp(values[:arms], error=0.1)
        spreading = 0 if arms == 2 else 1
        assert predicted.levels == numeric.certificate.levels + spreading
        np.testing.assert_allclose(keyed.open(result)[:arms], numeric.value, atol=1e-9)


@settings(max_examples=40)
@given(
    values=st.lists(st.floats(0, 1), min_size=4, max_size=12),
    n=st.integers(1, 4),
    log_error=st.floats(-1.6, -0.5),  # beyond, exact ties enlarge noise past a tenth of it
)
def test_amax_stays_within_its_certificate_and_the_noise(
    values: list[float], n: int, log_error: float
) -> None:
    arms, error = max(2, len(values) // 4), 10.0**log_error
    rows = np.resize(np.array(values), (arms, 4))
    predicted = amax_cost(error=error, arms=arms, n=n)
    keyed = keyed_of("simulate", depth=predicted.levels)
    with measure(keyed) as measured:
        result = amax(keyed.engine, [keyed.engine.encrypt(row) for row in rows], error=error, n=n)
    assert measured.at(0, result) == predicted
    assert isinstance(keyed.engine, SimulatedEngine)
    below = rows.max(axis=0) - keyed.open(result)
    assert (below <= error + 1e-9).all()
    assert (below >= -1e-9).all()
    assert keyed.engine.noise_bound(result) <= error / 10


@pytest.mark.ckks
def test_ckks_iterates_within_the_noise_that_the_simulator_bounds() -> None:
    x, results, bound = np.linspace(-1, 1, 64), [], 0.0
    for scheme in ("simulate", "ckks"):
        keyed = keyed_of(scheme, depth=8)
        result = iterate(keyed.engine, keyed.engine.encrypt(x), n=1, iterations=4)
        results.append(keyed.open(result))
        if isinstance(keyed.engine, SimulatedEngine):
            bound = keyed.engine.noise_bound(result)
    assert np.abs(results[0] - results[1]).max() <= bound < 1e-6


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize(("arms", "refreshes"), [(2, 5), (3, 8)])
def test_acomp_from_the_last_level_refreshes_first(scheme: str, arms: int, refreshes: int) -> None:
    """The values before they are rotated, the best and its rival before they meet."""
    keyed = keyed_of(scheme, depth=8, rotations=acomp_rotations(arms))
    values = np.array([0.9, 0.2, 0.4, 0.0])[: 1 << (arms - 1).bit_length()]
    refresh = Refresher(keyed)
    late = keyed.engine.encrypt(values, level=6)
    result = acomp(keyed.engine, late, arms=arms, error=0.05, refresh=refresh)
    assert refresh.count == refreshes
    assert min(refresh.left) >= 2
    assert result.levels_left >= 2
    numeric = plain.acomp(values[:arms], error=0.05)
    np.testing.assert_allclose(keyed.open(result)[:arms], numeric.value, atol=1e-3)


@pytest.mark.parametrize("late", [0, 1, 2])
def test_amax_refreshes_whichever_value_is_at_its_last_level(late: int) -> None:
    keyed, rows = (
        keyed_of("simulate", depth=7),
        np.random.default_rng(late).uniform(0, 1, (3, 4)),
    )
    refresh = Refresher(keyed)
    values = [keyed.engine.encrypt(row, level=5 if i == late else 0) for i, row in enumerate(rows)]
    result = amax(keyed.engine, values, error=0.05, refresh=refresh)
    assert min(refresh.left) >= 2
    assert result.levels_left >= 2
    expected = plain.amax(list(rows), error=0.05).value
    np.testing.assert_allclose(keyed.open(result), expected, atol=1e-6)


@pytest.mark.ckks
def test_tie_survives_while_its_growth_times_the_noise_is_small() -> None:
    """As many iterations as keep c_n^k noise below 1e-2, noise that of one iteration and refresh.

    The noise of the first iterations grows most: c^k noise (1 + 1/c + 1/c^2 + ...) in all.
    """
    noise, n = 0.0, 1
    for scheme in ("simulate", "ckks"):
        keyed = keyed_of(scheme, depth=6)
        refresh, x = Refresher(keyed), keyed.engine.encrypt(np.zeros(16), level=4)
        if isinstance(keyed.engine, SimulatedEngine):
            once = iterate(keyed.engine, x, n=n, iterations=1, refresh=refresh)
            noise = keyed.engine.noise_bound(once)
    iterations = int(np.log(1e-2 / noise) / np.log(tie_growth(n, iterations=1)))
    bound = 3.0 * tie_growth(n, iterations=iterations) * noise
    assert iterations > 20
    assert bound <= 3e-2
    found = keyed.open(iterate(keyed.engine, x, n=n, iterations=iterations, refresh=refresh))
    assert np.abs(found).max() <= bound


def test_refresh_that_cannot_suffice_is_refused_before_it_is_asked_for() -> None:
    keyed = keyed_of("simulate", depth=3)
    x, refresh = keyed.engine.encrypt([0.5, 0.25]), Refresher(keyed)
    with pytest.raises(LevelsExhausted, match="a refresh after it need depth 4, not 3"):
        iterate(keyed.engine, x, n=1, iterations=2, refresh=refresh)
    assert refresh.count == 0


def test_refresh_that_returns_too_few_levels_is_refused() -> None:
    keyed = keyed_of("simulate", depth=6)
    late = keyed.engine.encrypt([0.5, 0.25], level=4)
    other = keyed.engine.encrypt([0.5, 0.25], level=4)
    with pytest.raises(LevelsExhausted, match="need 4 levels, a refresh left 2"):
        iterate(keyed.engine, late, n=1, iterations=1, refresh=lambda _: other)


def test_steps_go_on_with_the_vector_they_yielded_if_it_comes_back() -> None:
    """Levels suffice for the iteration, not for a refresh after it."""
    keyed = keyed_of("simulate", depth=6)
    late = keyed.engine.encrypt([0.5, 0.25], level=4)
    steps = iterate_steps(keyed.engine, late, n=1, iterations=1)
    renewal = next(steps)
    assert (renewal.vector, renewal.bound, renewal.needed) == (late, 1.0, 2)
    with pytest.raises(StopIteration) as end:
        steps.send(late)
    np.testing.assert_allclose(keyed.open(end.value.value), plain.f(np.array([0.5, 0.25]), n=1))


def test_without_refresh_levels_run_out() -> None:
    keyed = keyed_of("simulate", depth=5)
    x = keyed.engine.encrypt([0.5, 0.25])
    with pytest.raises(LevelsExhausted):
        iterate(keyed.engine, x, n=1, iterations=3)
    refresh = Refresher(keyed)
    kept = iterate(keyed.engine, x, n=1, iterations=9, refresh=refresh)
    assert kept.levels_left >= 2
    assert refresh.count == 8  # depth 5 holds one iteration and the reserve of 2


def test_unusable_requests_are_refused() -> None:
    keyed = keyed_of("simulate", depth=5)
    x = keyed.engine.encrypt([0.5, 0.25])
    with pytest.raises(InvalidInput, match="iterations must be at least 1"):
        iterate(keyed.engine, x, n=1, iterations=0)
    with pytest.raises(InvalidInput, match="values must be at least 2"):
        amax(keyed.engine, [x], error=0.1)
    with pytest.raises(InvalidInput, match="arms must be at most 2"):
        acomp(keyed.engine, x, arms=3, error=0.1)
