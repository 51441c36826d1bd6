"""The encrypted comparison vector: the entries of its numeric, in every slot, and the right arm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.reference.circuits.comparison.argmax import Rider, comparison_vector
from helba.reference.circuits.scores.scores import score_differences
from helba.reference.engine.simulator import SimulatedEngine
from helba.reference.numerics.argmax import argmax_levels, argmax_tolerance
from helba.reference.numerics.argmax import comparison_vector as plain_comparison
from helba.reference.numerics.sign import best_composition
from helba.reference.planning.cost.compare_cost import argmax_cost
from helba.reference.planning.layout.score import ScoreLayout, choose_score_layout, score_cost
from helba.reference.planning.layout.score_packing import (
    pack_contexts,
    pack_model,
    pack_trace,
    read_answer,
)
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.twin.ciphertext import default_sign
from tests.engines import BOTH, open_keyed
from tests.reference.circuits.circuit_checks import assert_uses_every_key, measure

QUICK = best_composition(resolution=2.0**-3, degrees=(5, 3))
METHODS = ["product", "sum"]


def keyed_of(scheme: str, layout: ScoreLayout, *, depth: int, method: str = "sum"):
    size = max(1 << 11, 2 * layout.compare_slots)
    parameters = insecure_parameters(ring_dim=size, depth=depth)
    return open_keyed(scheme, parameters=parameters, rotations=layout.rotations_for(method))


def grid_of(layout: ScoreLayout, scores: np.ndarray) -> np.ndarray:
    padded = np.zeros(layout.padded_arms)
    padded[: layout.arms] = scores
    a, b = layout.compared_arms()
    return np.tile(padded[a] - padded[b], layout.compare_slots // layout.grid)


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("arms", [2, 3, 4, 5, 8])
def test_comparison_vector_fills_all_slots_at_the_predicted_cost(
    scheme: str, method: str, arms: int
) -> None:
    layout = ScoreLayout(dim=1, arms=arms)
    levels = argmax_levels(sign=QUICK, arms=arms, method=method)
    keyed = keyed_of(scheme, layout, depth=levels, method=method)
    scores = np.random.default_rng(arms).uniform(0, 1, arms)
    differences = keyed.engine.encrypt(grid_of(layout, scores))
    with measure(keyed) as measured:
        result = comparison_vector(
            keyed.engine, differences, layout=layout, sign=QUICK, method=method
        )
        opened = keyed.open(result)
    assert measured.at(0, result) == argmax_cost(layout, sign=QUICK, method=method)
    assert result.level == levels
    expected = np.zeros(layout.padded_arms)
    expected[:arms] = plain_comparison(scores, sign=QUICK, scale=1.0, method=method).value
    if arms == 2:  # c = 0 and c = 1 of the first arm
        expected = np.array([0.0, expected[0]])
    noise = 1e-6
    if isinstance(keyed.engine, SimulatedEngine):
        assert keyed.engine.noise_bound(result) <= noise
    tiled = np.tile(expected, layout.compare_slots // layout.padded_arms)
    np.testing.assert_allclose(opened, tiled, atol=noise)


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("radix", [2, 4, 16])
def test_sums_of_any_radix_give_the_comparison_vector(scheme: str, radix: int) -> None:
    layout = ScoreLayout(dim=1, arms=16, radix=radix)
    keyed = keyed_of(scheme, layout, depth=QUICK.levels)
    scores = np.random.default_rng(radix).uniform(0, 1, 16)
    differences = keyed.engine.encrypt(grid_of(layout, scores))
    with measure(keyed) as measured:
        result = comparison_vector(
            keyed.engine, differences, layout=layout, sign=QUICK, method="sum"
        )
        opened = keyed.open(result)
    assert measured.at(0, result) == argmax_cost(layout, sign=QUICK, method="sum")
    expected = plain_comparison(scores, sign=QUICK, scale=1.0, method="sum").value
    np.testing.assert_allclose(opened, np.tile(expected, layout.compare_slots // 16), atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", ["pairs", "arms"])
@pytest.mark.parametrize(("dim", "arms"), [(1, 2), (2, 3), (3, 5), (2, 16)])
def test_a_round_uses_every_key_of_its_layout(dim: int, arms: int, form: str, method: str) -> None:
    layout = ScoreLayout(dim=dim, arms=arms, form=form)
    keyed = keyed_of("simulate", layout, depth=12, method=method)
    vector = keyed.engine.encrypt(np.zeros(layout.slots))
    with assert_uses_every_key(keyed):
        differences = score_differences(keyed.engine, vector, model=vector, layout=layout)
        comparison_vector(keyed.engine, differences, layout=layout, sign=QUICK, method=method)


def test_test_that_rides_is_added_at_the_last_level() -> None:
    """Where a product with a plaintext is cheapest."""
    layout = ScoreLayout(dim=1, arms=8)
    keyed = keyed_of("simulate", layout, depth=QUICK.levels + 3, method="product")
    differences = keyed.engine.encrypt(np.zeros(layout.compare_slots))
    with measure(keyed) as measured:
        result = comparison_vector(
            keyed.engine,
            differences,
            layout=layout,
            sign=QUICK,
            method="product",
            rider=Rider(flip=1),
        )
    assert max(measured.levels_of("multiply_plain")) == result.level - 1


@settings(max_examples=60)
@given(
    arms=st.integers(2, 12),
    method=st.sampled_from(METHODS),
    log_width=st.floats(-6, 0),
    seed=st.integers(0, 2**32 - 1),
)
def test_largest_entry_is_within_the_certified_tolerance(
    arms: int, method: str, log_width: float, seed: int
) -> None:
    sign = default_sign(arms)
    layout = ScoreLayout(dim=1, arms=arms)
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0, 10.0**log_width, arms)
    keyed = keyed_of(
        "simulate",
        layout,
        depth=argmax_levels(sign=sign, arms=arms, method=method),
        method=method,
    )
    result = comparison_vector(
        keyed.engine,
        keyed.engine.encrypt(grid_of(layout, scores)),
        layout=layout,
        sign=sign,
        method=method,
    )
    assert isinstance(keyed.engine, SimulatedEngine)
    noise = keyed.engine.noise_bound(result)
    b = read_answer(layout, values=keyed.open(result), method=method).comparison
    pushed = b + noise  # the worst that CKKS may do
    pushed[np.argmax(scores)] -= 2 * noise
    tolerance = argmax_tolerance(sign=sign, arms=arms, scale=1.0, method=method, noise=noise)
    assert noise < 1e-3
    assert scores.max() - scores[np.argmax(pushed)] <= tolerance


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("form", ["pairs", "arms"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("arms", "flip"), [(2, 1), (3, -1), (4, 1)])
def test_answer_holds_the_comparison_and_the_test(
    scheme: str, form: str, method: str, arms: int, flip: int
) -> None:
    """From contexts to the answer, the update test riding: at no level more."""
    layout = ScoreLayout(dim=2, arms=arms, form=form)
    predicted = score_cost(layout) + argmax_cost(layout, sign=QUICK, method=method, riding=True)
    keyed = keyed_of(scheme, layout, depth=predicted.levels, method=method)
    rng = np.random.default_rng(10 * arms + flip)
    contexts, estimate, inverse = rng.uniform(-1, 1, (arms, 2)), rng.uniform(-1, 1, 2), np.eye(2)
    growth = contexts.T @ contexts
    user = keyed.engine.encrypt(pack_contexts(layout, contexts=contexts, gamma=1.0, scale=4.0))
    model = keyed.engine.encrypt(pack_model(layout, inverse=inverse, estimate=estimate))
    trace = keyed.engine.encrypt(pack_trace(layout, growth=growth, threshold=1.0, reach=9.0))
    if form == "pairs":
        user, trace = keyed.engine.add(user, trace), None
    differences = score_differences(keyed.engine, user, model=model, layout=layout, trace=trace)
    rider = Rider(flip=flip, noise=0.125)
    with measure(keyed) as measured:
        result = comparison_vector(
            keyed.engine, differences, layout=layout, sign=QUICK, method=method, rider=rider
        )
        opened = keyed.open(result)
    riding = argmax_cost(layout, sign=QUICK, method=method, riding=True)
    assert measured.at(differences.level, result) == riding
    assert result.level == predicted.levels
    answer = read_answer(layout, values=opened, method=method, riding=True)
    scores = contexts @ estimate + 0.5 * np.einsum("ai,ai->a", contexts, contexts)
    expected = plain_comparison(scores, sign=QUICK, scale=4.0, method=method).value
    np.testing.assert_allclose(answer.comparison, expected, atol=1e-6)
    value = float(QUICK((np.trace(growth) - 1.0) / 9.0))
    assert answer.test == pytest.approx(flip * value + 0.125, abs=1e-6)


@pytest.mark.parametrize(
    ("dim", "arms", "form"),
    [(8, 8, "pairs"), (32, 2, "pairs"), (8, 64, "arms"), (32, 16, "arms"), (4, 33, "arms")],
)
def test_large_problems_play_the_best_arm(dim: int, arms: int, form: str) -> None:
    """As many dimensions and arms as fit a ring of 2^15, from contexts to the answer."""
    layout, sign = choose_score_layout(dim=dim, arms=arms, max_slots=1 << 14), default_sign(arms)
    assert layout.form == form
    predicted = score_cost(layout) + argmax_cost(layout, sign=sign, method="sum")
    parameters = insecure_parameters(ring_dim=1 << 15, depth=predicted.levels)
    keyed = open_keyed("simulate", parameters=parameters, rotations=layout.rotations)
    rng = np.random.default_rng(dim * arms)
    contexts, estimate = rng.uniform(-1, 1, (arms, dim)), rng.uniform(-1, 1, dim)
    root = rng.uniform(-1, 1, (dim, dim))
    inverse = root @ root.T / dim
    scores = contexts @ estimate + 0.1 * np.einsum("ai,ij,aj->a", contexts, inverse, contexts)
    scale = float(np.ptp(scores))
    user = pack_contexts(layout, contexts=contexts, gamma=0.2, scale=scale)
    model = pack_model(layout, inverse=inverse, estimate=estimate)
    with measure(keyed) as measured:
        differences = score_differences(
            keyed.engine,
            keyed.engine.encrypt(user),
            model=keyed.engine.encrypt(model),
            layout=layout,
        )
        result = comparison_vector(
            keyed.engine, differences, layout=layout, sign=sign, method="sum"
        )
    assert measured.at(0, result) == predicted
    b = read_answer(layout, values=keyed.open(result), method="sum").comparison
    assert np.argmax(b) == np.argmax(scores)
    expected = plain_comparison(scores, sign=sign, scale=scale, method="sum").value
    np.testing.assert_allclose(b, expected, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", ["pairs", "arms"])
@pytest.mark.parametrize("arms", [2, 3, 4, 5])
def test_slots_tell_no_more_than_comparison_and_test(method: str, form: str, arms: int) -> None:
    """Each slot is 0, b_a, t, b_0 + t, b_0 t or (1 + b_0) t, with the same noise inside t."""
    layout = ScoreLayout(dim=1, arms=arms, form=form)
    keyed = keyed_of("simulate", layout, depth=10, method=method)
    scores, trace = np.linspace(0, 1, arms), 0.4
    grid = grid_of(layout, scores)
    grid[:: layout.grid] = trace
    result = comparison_vector(
        keyed.engine,
        keyed.engine.encrypt(grid),
        layout=layout,
        sign=QUICK,
        method=method,
        rider=Rider(flip=-1, noise=0.3),
    )
    b = plain_comparison(scores, sign=QUICK, scale=1.0, method=method).value
    t = 0.3 - float(QUICK(np.array(trace)))
    summed = method == "sum" or arms == 2
    tests = [b[0] + t] if summed else [b[0] * t, (1 + b[0]) * t]
    allowed = [0.0, *b, *([t] if layout.columns == 1 else tests)]
    slots = keyed.open(result)
    assert np.abs(slots[:, None] - np.array(allowed)).min(axis=1).max() <= 1e-9
    answer = read_answer(layout, values=slots, method=method, riding=True)
    np.testing.assert_allclose(answer.comparison, b, atol=1e-9)
    assert answer.test == pytest.approx(t, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("form", ["pairs", "arms"])
def test_users_with_fewer_arms_get_their_best(method: str, form: str) -> None:
    layout = ScoreLayout(dim=2, arms=6, form=form)
    keyed = keyed_of("simulate", layout, depth=12, method=method)
    contexts = np.array([[0.1, 0.2], [0.9, 0.1], [0.3, 0.3]])
    user = pack_contexts(layout, contexts=contexts, gamma=1.0, scale=2.0)
    model = pack_model(layout, inverse=np.zeros((2, 2)), estimate=np.array([1.0, 0.5]))
    differences = score_differences(
        keyed.engine, keyed.engine.encrypt(user), model=keyed.engine.encrypt(model), layout=layout
    )
    result = comparison_vector(keyed.engine, differences, layout=layout, sign=QUICK, method=method)
    b = read_answer(layout, values=keyed.open(result), method=method).comparison
    assert np.argmax(b) == 1
    if form == "pairs":  # dummies lose against everybody real
        assert b[3:].max() < b[:3].max() / 2


@pytest.mark.ckks
@pytest.mark.parametrize("method", METHODS)
def test_ckks_stays_within_the_noise_that_the_simulator_bounds(method: str) -> None:
    layout, sign = ScoreLayout(dim=1, arms=4), default_sign(4)
    depth = argmax_levels(sign=sign, arms=4, method=method)
    grid = grid_of(layout, np.array([0.0, 0.02, 0.5, 1.0]))
    opened, bounds = [], []
    for scheme in ("simulate", "ckks"):
        keyed = keyed_of(scheme, layout, depth=depth, method=method)
        result = comparison_vector(
            keyed.engine, keyed.engine.encrypt(grid), layout=layout, sign=sign, method=method
        )
        opened.append(keyed.open(result))
        if isinstance(keyed.engine, SimulatedEngine):
            bounds.append(keyed.engine.noise_bound(result))
    assert np.abs(opened[0] - opened[1]).max() <= bounds[0] < 1e-4


def test_rider_keeps_its_secret_and_is_a_sign() -> None:
    assert repr(Rider(flip=-1, noise=0.2)) == repr(Rider(flip=1)) == "<Rider>"
    with pytest.raises(InvalidInput, match="flip must be 1 or -1"):
        Rider(flip=0)
    with pytest.raises(InvalidInput, match="noise must be finite"):
        Rider(flip=1, noise=float("nan"))
