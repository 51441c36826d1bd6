"""Scores with the sqrt bonus on ciphertexts: differences, cuts, and the plan they run under."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from helba.bandits.settings import Settings
from helba.errors import InvalidInput
from helba.reference.circuits.comparison.argmax import Rider, comparison_steps
from helba.reference.circuits.levels import run_steps
from helba.reference.circuits.scores.root_scores import root_score_steps
from helba.reference.numerics.argmax import comparison_vector as plain_comparison
from helba.reference.numerics.root import root_levels, square_root
from helba.reference.numerics.sign import best_composition
from helba.reference.planning.cost.compare_cost import argmax_cost
from helba.reference.planning.cost.cost import Cost
from helba.reference.planning.cost.workload import round_steps
from helba.reference.planning.layout.root_packing import RootScale, pack_root_contexts, root_scale
from helba.reference.planning.layout.score import ScoreLayout
from helba.reference.planning.layout.score_packing import (
    pack_contexts,
    pack_model,
    pack_trace,
    read_answer,
)
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.planning.plan import Plan
from helba.reference.planning.planner import make_plan
from helba.reference.planning.request import PlanRequest
from helba.reference.twin.ciphertext import CiphertextTwin
from tests.engines import BOTH, Keyed, open_keyed
from tests.reference.circuits.circuit_checks import Refresher, measure

Array = NDArray[np.float64]

TOY = PlanRequest(
    dim=2, arms=2, horizon=130, length=5.5, noise=0.5, reward_max=math.sqrt(2) + 3, bonus="sqrt"
)
SETTINGS = Settings(
    dim=3, arms=3, horizon=50, length=2.0, parameter_bound=1.0, noise=0.3, reward_max=3.0,
    bonus="sqrt",
)  # fmt: skip
SIGN = best_composition(resolution=2.0**-3, degrees=(5, 3))


@lru_cache(maxsize=1)
def plan_of_toy() -> Plan:
    return make_plan(TOY)


def model_of(settings: Settings, *, seed: int) -> tuple[Array, Array]:
    """An inverse of ridge I + statistics, and an estimate within the radius of a parameter."""
    rng = np.random.default_rng(seed)
    played = rng.normal(size=(6, settings.dim)) / settings.dim
    inverse = np.linalg.inv(settings.ridge * np.eye(settings.dim) + played.T @ played)
    return inverse, rng.uniform(-1, 1, settings.dim) / settings.dim


def contexts_of(settings: Settings, *, arms: int, seed: int) -> Array:
    rows = np.random.default_rng(seed).normal(size=(arms, settings.dim))
    lengths = np.linspace(0.3, 1.0, arms) * settings.length
    scaled: Array = rows * (lengths / np.linalg.norm(rows, axis=1))[:, None]
    return scaled


def expected_scores(contexts: Array, *, scale: RootScale, inverse: Array, w: Array) -> Array:
    """The index over its scale, the root by the certified numeric; dummies are not in it."""
    longest = np.linalg.norm(contexts, axis=1).max() or 1.0
    z = np.einsum("ij,jk,ik->i", contexts, inverse, contexts) / (scale.top * longest**2)
    low, high = 1.0 / scale.rounds, 1.0 + 1.0 / scale.rounds
    root = square_root(z + low, low=low, high=high, iterations=scale.iterations)
    scores: Array = contexts @ w / (longest * scale.kappa) + scale.coefficient * root.value
    return scores


def differences_of(
    keyed: Keyed,
    layout: ScoreLayout,
    *,
    contexts: Array,
    scale: RootScale,
    inverse: Array,
    w: Array,
    refresh: Refresher | None,
    growth: Array | None = None,
    levels_after: int | None = None,
):
    engine = keyed.engine
    linear, quadratic = pack_root_contexts(layout, contexts=contexts, scale=scale)
    trace = None
    if growth is not None:
        trace = engine.encrypt(pack_trace(layout, growth=growth, threshold=0.5, reach=4.0))
    steps = root_score_steps(
        engine,
        linear=engine.encrypt(linear),
        quadratic=engine.encrypt(quadratic),
        model=engine.encrypt(pack_model(layout, inverse=inverse, estimate=w)),
        layout=layout,
        rounds=scale.rounds,
        iterations=scale.iterations,
        coefficient=scale.coefficient,
        trace=trace,
        levels_after=levels_after,
    )
    return run_steps(steps, refresh=refresh)


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("real", [3, 2])
def test_root_scores_are_those_of_the_numeric_in_the_grid(scheme: str, real: int) -> None:
    layout = ScoreLayout(dim=3, arms=3, form="arms")
    parameters = insecure_parameters(depth=9, scale_bits=50)
    keyed = open_keyed(scheme, parameters=parameters, rotations=layout.rotations)
    inverse, w = model_of(SETTINGS, seed=1)
    contexts = contexts_of(SETTINGS, arms=real, seed=2)
    scale = root_scale(SETTINGS, terms=CiphertextTwin(SETTINGS).terms)
    growth = np.diag([1.0, 0.5, 0.0])
    refresh = Refresher(keyed)
    found = keyed.open(
        differences_of(
            keyed, layout, contexts=contexts, scale=scale, inverse=inverse, w=w, refresh=refresh,
            growth=growth,
        )
    )  # fmt: skip
    assert refresh.count > 2
    assert min(refresh.left) >= 2
    scores = expected_scores(contexts, scale=scale, inverse=inverse, w=w)
    padded = np.zeros(layout.padded_arms)
    padded[: len(scores)] = scores
    padded[len(scores) : layout.arms] = scores[0]
    a, b = layout.compared_arms()
    grid = np.where(layout.compared_pairs(), padded[a] - padded[b], 0.0)
    grid[0] = (np.trace(inverse @ growth) - 0.5) / 4.0
    assert np.abs(grid).max() <= 1.0
    np.testing.assert_allclose(found, np.tile(grid, layout.compare_slots // layout.grid), atol=1e-6)


def test_root_index_over_its_scale_is_that_of_the_twin() -> None:
    twin = CiphertextTwin(SETTINGS)
    contexts = contexts_of(SETTINGS, arms=3, seed=5)
    for reward in (0.5, -0.2, 0.1, 0.9):
        twin.update(contexts[twin.select(contexts)], reward)
    assert twin.updates > 0
    scale, model = root_scale(SETTINGS, terms=twin.terms), twin.model
    index, *_ = twin._root_index(contexts, twin.terms.weights(SETTINGS).radius)
    scores = expected_scores(contexts, scale=scale, inverse=model.inverse, w=model.estimate)
    longest = np.linalg.norm(contexts, axis=1).max()
    np.testing.assert_allclose(scores * longest * scale.kappa, index, rtol=1e-10)


def test_root_packing_keeps_every_argument_in_the_interval() -> None:
    """Dummies, padding and contexts that vanish included."""
    layout = ScoreLayout(dim=3, arms=5, form="arms")
    settings = replace(SETTINGS, arms=5)
    scale = root_scale(settings, terms=CiphertextTwin(settings).terms)
    cases = [contexts_of(settings, arms=arms, seed=arms) for arms in (1, 2, 5)]
    for contexts in (*cases, np.zeros((2, 3))):
        linear, quadratic = pack_root_contexts(layout, contexts=contexts, scale=scale)
        # the first model, at which x^T A x is largest
        model = pack_model(layout, inverse=np.eye(3) / settings.ridge, estimate=np.zeros(3))
        z = (quadratic * model).reshape(layout.features, layout.padded_arms).sum(axis=0)
        assert z.shape == (8,)
        assert (z >= 0.0).all()
        assert z.max() <= 1.0 + 1e-12
        np.testing.assert_array_equal(z[len(contexts) :], z[0])
        assert z.max() == pytest.approx(1.0 if contexts.any() else 0.0)
        table = linear.reshape(layout.features, layout.padded_arms)
        assert (table[:, len(contexts) :] == table[:, :1]).all()


def test_root_scores_by_pairs_are_refused() -> None:
    layout = ScoreLayout(dim=3, arms=3)
    scale = root_scale(SETTINGS, terms=CiphertextTwin(SETTINGS).terms)
    with pytest.raises(InvalidInput, match="form must be 'arms'"):
        pack_root_contexts(layout, contexts=np.eye(3), scale=scale)


def play(
    keyed: Keyed,
    *,
    plan,
    contexts: Array,
    inverse: Array,
    w: Array,
    refresh: Refresher | None,
):
    """A whole round of the plan, the update test riding; the answer as it was decrypted."""
    settings = plan.request.settings()
    layout = ScoreLayout(dim=settings.dim, arms=settings.arms, form=plan.layout)
    scale = root_scale(settings, terms=CiphertextTwin(settings).terms)
    whole = argmax_cost(layout, sign=plan.sign, method=plan.method).levels
    differences = differences_of(
        keyed, layout, contexts=contexts, scale=scale, inverse=inverse, w=w, refresh=refresh,
        growth=np.eye(settings.dim), levels_after=whole,
    )  # fmt: skip
    steps = comparison_steps(
        keyed.engine, differences, layout=layout, sign=plan.sign, method=plan.method,
        rider=Rider(flip=-1),
    )  # fmt: skip
    answer = run_steps(steps, refresh=refresh)
    values = keyed.open(answer)
    return scale, read_answer(layout, values=values, method=plan.method, riding=True)


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("levels", ["planned", "others", "all"])
def test_root_round_runs_under_the_plan_of_the_toy(scheme: str, levels: str) -> None:
    """In the planned depth, in another one, and uncut; never more refreshes than planned."""
    plan = plan_of_toy()
    depth = {"planned": plan.parameters.depth, "others": 9, "all": plan.round_levels}[levels]
    settings, parameters = TOY.settings(), plan.parameters
    layout = ScoreLayout(dim=2, arms=2, form=plan.layout)
    steps = round_steps(settings, layout=layout, sign=plan.sign, method=plan.method)
    small = insecure_parameters(depth=depth, scale_bits=parameters.scale_bits)
    keyed = open_keyed(scheme, parameters=small, rotations=layout.rotations_for(plan.method))
    contexts = contexts_of(settings, arms=2, seed=3)
    inverse, w = np.array([[0.2, 0.05], [0.05, 0.6]]), np.array([0.3, -0.4])
    refresh = Refresher(keyed)
    with measure(keyed) as measured:
        scale, answer = play(
            keyed, plan=plan, contexts=contexts, inverse=inverse, w=w, refresh=refresh
        )
    if levels == "planned":
        assert 3 < refresh.count <= plan.refreshes_per_round
    if levels == "all":
        assert depth >= 39
        assert refresh.count == 0
    planned = sum((step.cost for step in steps), Cost())
    assert measured.cost == replace(planned, levels=0)
    scores = expected_scores(contexts, scale=scale, inverse=inverse, w=w)
    b = plain_comparison(scores, sign=plan.sign, scale=1.0, method=plan.method).value
    np.testing.assert_allclose(answer.comparison, b, atol=1e-3)
    trace = (np.trace(inverse) - 0.5) / 4.0
    assert answer.test == pytest.approx(-float(plan.sign(np.array(trace))), abs=1e-3)


@pytest.mark.parametrize("method", ["product", "sum"])
@pytest.mark.parametrize("depth", [5, 6, 7])
def test_comparison_is_cut_wherever_levels_run_out(method: str, depth: int) -> None:
    layout = ScoreLayout(dim=1, arms=5)
    parameters = insecure_parameters(depth=depth)
    keyed = open_keyed("simulate", parameters=parameters, rotations=layout.rotations_for(method))
    scores = np.random.default_rng(4).uniform(0, 1, 5)
    contexts = pack_contexts(layout, contexts=scores[:, None], gamma=0.0, scale=1.0)
    grid = contexts.reshape(layout.features, layout.grid)[0].copy()
    grid[0] = -0.7  # the update test
    late = keyed.engine.encrypt(np.tile(grid, layout.compare_slots // layout.grid), level=depth - 3)
    refresh = Refresher(keyed)
    steps = comparison_steps(
        keyed.engine, late, layout=layout, sign=SIGN, method=method, rider=Rider(flip=1)
    )
    values = keyed.open(run_steps(steps, refresh=refresh))
    found = read_answer(layout, values=values, method=method, riding=True)
    assert refresh.count >= 1
    assert min(refresh.left) >= 2
    b = plain_comparison(scores, sign=SIGN, scale=1.0, method=method).value
    np.testing.assert_allclose(found.comparison, b, atol=1e-6)
    assert found.test == pytest.approx(float(SIGN(np.array(-0.7))), abs=1e-5)


def test_root_levels_are_those_of_the_plan() -> None:
    plan = plan_of_toy()
    scale = root_scale(TOY.settings(), terms=CiphertextTwin(TOY.settings()).terms)
    assert plan.certificates["bonus"].levels == root_levels(scale.iterations)
