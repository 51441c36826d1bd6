"""Encrypted scores: every slot of the grid holds the difference that numpy computes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.reference.circuits.algebra.packing import cyclic_sum
from helba.reference.circuits.scores.scores import score_differences, sum_features
from helba.reference.planning.layout.packing import cyclic_cost, cyclic_stages
from helba.reference.planning.layout.score import ScoreLayout, score_cost
from helba.reference.planning.layout.score_packing import pack_contexts, pack_model, pack_trace
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, open_keyed
from tests.reference.circuits.circuit_checks import assert_close, measure

PARAMETERS = insecure_parameters(ring_dim=1 << 12, depth=3)
GAMMA = 0.7


def problem(dim: int, arms: int, *, seed: int = 0):
    """Contexts, inverse, estimate, scores and their spread."""
    rng = np.random.default_rng(seed)
    contexts, estimate = rng.uniform(-1, 1, (arms, dim)), rng.uniform(-1, 1, dim)
    root = rng.uniform(-1, 1, (dim, dim))
    inverse = root @ root.T / dim
    scores = contexts @ estimate + GAMMA / 2 * np.einsum("ai,ij,aj->a", contexts, inverse, contexts)
    return contexts, inverse, estimate, scores, float(np.ptp(scores)) or 1.0


def grid_of(layout: ScoreLayout, scores: np.ndarray) -> np.ndarray:
    """Differences of slot c Kp + a, by loops; by pairs of two arms of slot c."""
    if layout.form == "pairs" and layout.arms == 2:
        return np.array([0.0, scores[0] - scores[1]])
    count, grid = layout.padded_arms, np.zeros(layout.grid)
    for c in range(count):
        for a in range(count):
            b = (a + c) % count
            if a < layout.arms and b < layout.arms:
                grid[c * count + a] = scores[a] - scores[b]
    return grid


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("form", ["pairs", "arms"])
@pytest.mark.parametrize(("dim", "arms"), [(1, 2), (2, 2), (3, 3), (2, 8), (5, 5)])
def test_differences_fill_the_grid_at_the_predicted_cost(
    scheme: str, form: str, dim: int, arms: int
) -> None:
    layout = ScoreLayout(dim=dim, arms=arms, form=form)
    keyed = open_keyed(scheme, parameters=PARAMETERS, rotations=layout.score_rotations)
    contexts, inverse, estimate, scores, scale = problem(dim, arms)
    packed = pack_contexts(layout, contexts=contexts, gamma=GAMMA, scale=scale)
    user = keyed.engine.encrypt(packed)
    model = keyed.engine.encrypt(pack_model(layout, inverse=inverse, estimate=estimate))
    with measure(keyed) as measured:
        result = score_differences(keyed.engine, user, model=model, layout=layout)
        keyed.open(result)
    assert measured.at(0, result) == score_cost(layout)
    grid = grid_of(layout, scores / scale)
    if form == "pairs":  # an arm beats padding by the full scale
        a, b = layout.compared_arms()
        grid += (a < arms) * 1.0 - (b < arms)
    expected = np.tile(grid, layout.compare_slots // layout.grid)
    assert_close(keyed, result, expected=expected, noise=1e-7)


@settings(max_examples=40)
@given(
    dim=st.integers(1, 8),
    arms=st.integers(2, 9),
    form=st.sampled_from(["pairs", "arms"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_differences_of_any_size_match_numpy(dim: int, arms: int, form: str, seed: int) -> None:
    layout = ScoreLayout(dim=dim, arms=arms, form=form)
    parameters = insecure_parameters(ring_dim=1 << 15, depth=3)
    keyed = open_keyed("simulate", parameters=parameters, rotations=layout.score_rotations)
    contexts, inverse, estimate, scores, scale = problem(dim, arms, seed=seed)
    packed = pack_contexts(layout, contexts=contexts, gamma=GAMMA, scale=scale)
    result = score_differences(
        keyed.engine,
        keyed.engine.encrypt(packed),
        model=keyed.engine.encrypt(pack_model(layout, inverse=inverse, estimate=estimate)),
        layout=layout,
    )
    copies = layout.compare_slots // layout.grid
    compared = np.tile(layout.compared_pairs(), copies)
    opened = keyed.open(result)
    expected = np.tile(grid_of(layout, scores / scale), copies)
    np.testing.assert_allclose(opened[compared], expected[compared], atol=1e-12)
    assert np.abs(opened[compared]).max() <= 1 + 1e-12


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("form", ["pairs", "arms"])
def test_trace_rides_in_the_free_slot(scheme: str, form: str) -> None:
    layout = ScoreLayout(dim=3, arms=3, form=form)
    keyed = open_keyed(scheme, parameters=PARAMETERS, rotations=layout.score_rotations)
    contexts, inverse, estimate, scores, scale = problem(3, 3, seed=4)
    growth = contexts.T @ contexts
    packed = pack_contexts(layout, contexts=contexts, gamma=GAMMA, scale=scale)
    user = keyed.engine.encrypt(packed)
    model = keyed.engine.encrypt(pack_model(layout, inverse=inverse, estimate=estimate))
    trace = keyed.engine.encrypt(pack_trace(layout, growth=growth, threshold=1.0, reach=8.0))
    with measure(keyed) as measured:
        if form == "pairs":
            both = keyed.engine.add(user, trace)
            result = score_differences(keyed.engine, both, model=model, layout=layout)
        else:
            result = score_differences(keyed.engine, user, model=model, layout=layout, trace=trace)
        opened = keyed.open(result)[: layout.grid]
    assert measured.at(0, result) == score_cost(layout, riding=True)
    expected = grid_of(layout, scores / scale)
    expected[0] = (np.trace(inverse @ growth) - 1.0) / 8.0
    compared = layout.compared_pairs()
    compared[0] = True
    np.testing.assert_allclose(opened[compared], expected[compared], atol=1e-7)


def test_trace_by_pairs_belongs_to_the_contexts() -> None:
    layout = ScoreLayout(dim=1, arms=2)
    keyed = open_keyed("simulate", parameters=PARAMETERS, rotations=layout.score_rotations)
    vector = keyed.engine.encrypt(np.zeros(layout.slots))
    with pytest.raises(InvalidInput, match="trace must be added to the contexts"):
        score_differences(keyed.engine, vector, model=vector, layout=layout, trace=vector)


@pytest.mark.parametrize("scheme", BOTH)
def test_features_sum_up_in_every_slot(scheme: str) -> None:
    layout = ScoreLayout(dim=2, arms=2, form="arms")
    keyed = open_keyed(scheme, parameters=PARAMETERS, rotations=layout.score_rotations)
    contexts, inverse, estimate, scores, _ = problem(2, 2)
    packed = pack_contexts(layout, contexts=contexts, gamma=GAMMA, scale=2.0)
    result = sum_features(
        keyed.engine,
        keyed.engine.encrypt(packed),
        model=keyed.engine.encrypt(pack_model(layout, inverse=inverse, estimate=estimate)),
        layout=layout,
    )
    assert result.level == 1
    assert_close(keyed, result, expected=np.tile(scores / 2.0, layout.features), noise=1e-7)


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize(
    ("stride", "count", "radix"), [(1, 16, 8), (4, 8, 8), (2, 8, 2), (8, 1, 4)]
)
def test_cyclic_sum_leaves_no_partial_sums(
    scheme: str, stride: int, count: int, radix: int
) -> None:
    steps = [s for stage in cyclic_stages(stride=stride, count=count, radix=radix) for s in stage]
    keyed = open_keyed(scheme, parameters=PARAMETERS, rotations=steps)
    values = np.random.default_rng(0).uniform(-1, 1, stride * count)
    with measure(keyed) as measured:
        result = cyclic_sum(
            keyed.engine, keyed.engine.encrypt(values), stride=stride, count=count, radix=radix
        )
    assert measured.at(0, result) == cyclic_cost(count=count, radix=radix)
    expected = np.tile(values.reshape(count, stride).sum(axis=0), count)
    assert_close(keyed, result, expected=expected, noise=1e-8)
