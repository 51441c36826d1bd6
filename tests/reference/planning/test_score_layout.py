"""Layouts of scores: slots, rotations, and what users pack into them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.layout.packing import cyclic_cost, cyclic_stages, next_power_of_two
from helba.reference.planning.layout.score import ScoreLayout, choose_score_layout, score_cost
from helba.reference.planning.layout.score_packing import (
    pack_contexts,
    pack_model,
    pack_trace,
    read_answer,
)


def test_layout_of_the_toy_problem() -> None:
    layout = ScoreLayout(dim=2, arms=2)
    assert (layout.features, layout.pairs, layout.slots) == (8, 2, 16)
    assert layout.rotations == layout.score_rotations == (2, 4, 6, 8)
    assert score_cost(layout) == Cost(levels=1, products=1, rotations=4)
    by_arms = ScoreLayout(dim=2, arms=2, form="arms")
    assert (by_arms.grid, by_arms.compare_slots, by_arms.argmax_rotations("sum")) == (4, 16, (2,))


@pytest.mark.parametrize("form", ["pairs", "arms"])
@pytest.mark.parametrize("arms", [2, 3, 4, 9])
def test_model_has_slots_for_the_matrix_it_is_made_from(form: str, arms: int) -> None:
    for dim in range(1, 130):
        layout = ScoreLayout(dim=dim, arms=arms, form=form)
        assert layout.slots >= next_power_of_two(dim) ** 2
        least = next_power_of_two(layout.constant_feature + 1)
        assert layout.features in ((least,) if arms > 2 else (least, 2 * least))


def test_layout_by_arms_needs_fewer_slots_and_one_level_more() -> None:
    layout = ScoreLayout(dim=8, arms=64, form="arms")
    assert (layout.features, layout.pairs, layout.slots) == (64, 64, 4096)
    assert layout.compare_slots == 2 * 64 * 64
    assert score_cost(layout) == Cost(levels=2, products=1, plain_products=64, rotations=23)


@pytest.mark.parametrize(
    ("arms", "babies", "rotations"), [(2, 2, 1), (4, 2, 2), (8, 4, 4), (16, 4, 6), (64, 8, 14)]
)
def test_scores_of_arms_are_spread_in_about_two_roots_of_their_number(
    arms: int, babies: int, rotations: int
) -> None:
    """The larger root when there is one: baby steps share their work."""
    layout = ScoreLayout(dim=1, arms=arms, form="arms")
    assert layout.baby_steps == babies
    sums = cyclic_cost(count=layout.features).rotations
    assert score_cost(layout).rotations == sums + rotations


@pytest.mark.parametrize(("arms", "summed", "multiplied"), [(2, 0, 0), (8, 4, 3), (16, 6, 4)])
def test_product_of_wins_needs_fewer_keys_than_their_sum(
    arms: int, summed: int, multiplied: int
) -> None:
    layout = ScoreLayout(dim=2, arms=arms)
    steps = {method: set(layout.argmax_rotations(method)) for method in ("sum", "product")}
    assert (len(steps["sum"]), len(steps["product"])) == (summed, multiplied)
    assert steps["product"] <= steps["sum"]
    assert set(layout.rotations) == steps["sum"] | set(layout.score_rotations)


@pytest.mark.parametrize(
    ("dim", "arms", "max_slots", "form"),
    [(2, 2, 32, "pairs"), (8, 8, 4096, "pairs"), (8, 8, 2048, "arms"), (32, 16, 16384, "arms")],
)
def test_pairs_are_preferred_where_they_fit(dim: int, arms: int, max_slots: int, form: str) -> None:
    assert choose_score_layout(dim=dim, arms=arms, max_slots=max_slots).form == form


def test_layouts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidInput, match="max_slots must be at least 65536"):
        choose_score_layout(dim=32, arms=64, max_slots=16384)
    with pytest.raises(InvalidInput, match="form"):
        ScoreLayout(dim=2, arms=2, form="rows")
    with pytest.raises(InvalidInput, match="arms must be at least 2"):
        ScoreLayout(dim=2, arms=1)
    with pytest.raises(InvalidInput, match="radix must be a power of two"):
        ScoreLayout(dim=2, arms=2, radix=6)


@given(
    bits=st.integers(0, 10),
    stride=st.sampled_from([1, 4, 32]),
    radix=st.sampled_from([2, 4, 8, 16]),
)
def test_stages_sum_every_slot_once(bits: int, stride: int, radix: int) -> None:
    sums = [0]
    stages = cyclic_stages(stride=stride, count=1 << bits, radix=radix)
    for stage in stages:
        sums = [s + step for s in sums for step in (0, *stage)]
    assert sorted(sums) == list(range(0, stride << bits, stride))
    assert all(len(stage) < radix for stage in stages)
    steps = sum(len(stage) for stage in stages)
    assert cyclic_cost(count=1 << bits, radix=radix) == Cost(rotations=steps)


def test_stages_are_even() -> None:
    assert [len(stage) + 1 for stage in cyclic_stages(stride=1, count=16)] == [4, 4]
    assert [len(stage) + 1 for stage in cyclic_stages(stride=1, count=128)] == [4, 4, 4, 2]
    with pytest.raises(InvalidInput, match="count must be a power of two"):
        cyclic_stages(stride=1, count=12)


@given(
    dim=st.integers(1, 6),
    arms=st.integers(2, 9),
    given_arms=st.integers(1, 9),
    form=st.sampled_from(["pairs", "arms"]),
    seed=st.integers(0, 2**32 - 1),
)
def test_packed_features_give_the_score(
    dim: int, arms: int, given_arms: int, form: str, seed: int
) -> None:
    layout, rng = ScoreLayout(dim=dim, arms=arms, form=form), np.random.default_rng(seed)
    real = min(arms, given_arms)
    contexts, w = rng.uniform(-1, 1, (real, dim)), rng.uniform(-1, 1, dim)
    A = rng.uniform(-1, 1, (dim, dim))
    A = A + A.T
    user = pack_contexts(layout, contexts=contexts, gamma=0.6, scale=3.0)
    model = pack_model(layout, inverse=A, estimate=w)
    assert len(user) == len(model) == layout.slots
    totals = (user * model).reshape(layout.features, layout.pairs).sum(axis=0)
    scores = np.array([x @ w + 0.3 * x @ A @ x for x in contexts]) / 3.0
    if form == "arms":
        np.testing.assert_allclose(totals[:real], scores, atol=1e-12)
        np.testing.assert_allclose(totals[real:arms], scores[0], atol=1e-12)
        assert not totals[arms:].any()
        return
    for q, total in enumerate(totals):
        a, c = (0, q) if arms == 2 else (q % layout.padded_arms, q // layout.padded_arms)
        b = (a + c) % layout.padded_arms
        if a < real and b < real:
            assert total == pytest.approx(scores[a] - scores[b], abs=1e-12)
        else:
            assert total == (1.0 if a < real else 0.0) - (1.0 if b < real else 0.0)


@pytest.mark.parametrize("form", ["pairs", "arms"])
def test_packed_trace_is_scaled_and_leaves_other_pairs_alone(form: str) -> None:
    layout, rng = ScoreLayout(dim=3, arms=3, form=form), np.random.default_rng(0)
    A, D = (m + m.T for m in rng.uniform(-1, 1, (2, 3, 3)))
    packed = pack_trace(layout, growth=D, threshold=0.5, reach=7.0)
    model = pack_model(layout, inverse=A, estimate=rng.uniform(-1, 1, 3))
    totals = (packed * model).reshape(layout.features, layout.pairs).sum(axis=0)
    expected = np.full(layout.pairs, (np.trace(A @ D) - 0.5) / 7.0)
    if form == "pairs":
        expected[1:] = 0.0
    np.testing.assert_allclose(totals, expected, atol=1e-12)


def test_unusable_contexts_are_refused() -> None:
    layout = ScoreLayout(dim=2, arms=2)
    for bad in ([[1.0]], [[1.0, 2.0]] * 3, [1.0, 2.0]):
        with pytest.raises(InvalidInput, match="contexts must be 1 to 2 rows of 2 numbers"):
            pack_contexts(layout, contexts=bad, gamma=1.0, scale=1.0)
    with pytest.raises(InvalidInput, match="contexts must be finite"):
        pack_contexts(layout, contexts=[[1.0, np.nan]], gamma=1.0, scale=1.0)
    with pytest.raises(InvalidInput, match="scale"):
        pack_contexts(layout, contexts=[[1.0, 2.0]], gamma=1.0, scale=0.0)
    with pytest.raises(InvalidInput, match="inverse must be 2 x 2"):
        pack_model(layout, inverse=np.eye(3), estimate=np.zeros(2))
    with pytest.raises(InvalidInput, match="estimate must be 2 numbers"):
        pack_model(layout, inverse=np.eye(2), estimate=np.zeros(3))
    with pytest.raises(InvalidInput, match="values must be 16 numbers"):
        read_answer(layout, values=np.zeros(31), method="sum")


@given(count=st.integers(1, 1 << 20))
def test_next_power_of_two_is_the_least(count: int) -> None:
    power = next_power_of_two(count)
    assert power & (power - 1) == 0
    assert count <= power < 2 * count
