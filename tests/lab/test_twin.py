"""The plaintext twin: its integers, its steps, and what it says of a decision."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.lab.play.twin import GridTwin, restore_contexts
from helba.learning.plan import OPENERS
from helba.learning.update_certificate import UpdateTerms
from helba.learning.update_plan import UpdatePlan
from tests.learning.driving import make_plan, make_settings, make_world


def make_twin(dim=3, *, arms=4, **others):
    told = {"growth": 1.0, "length": 2.0} | others
    return GridTwin(make_plan(make_settings(dim, arms=arms, **told)))


def draw_contexts(rng, twin, *, arms=None):
    """Contexts up to the length that the plan allows."""
    s = twin.plan.settings
    contexts = rng.normal(size=(arms or s.arms, s.dim))
    contexts /= np.linalg.norm(contexts, axis=1, keepdims=True)
    return contexts * s.length * rng.uniform(0.2, 1.0, (len(contexts), 1))


def learn(twin, rng, *, reports):
    for context in draw_contexts(rng, twin, arms=reports):
        twin.learn(context, float(np.clip(context.sum() + rng.normal(), -2.0, 2.0)))


def next_terms(twin, **others):
    """An update with all that the twin has learned since the last."""
    unseen = twin.samples - twin.batch.samples
    told = {"before": twin.batch, "samples": twin.samples, "untested": unseen} | others
    return UpdateTerms(**told)


def play(twin, rng, *, updates=3):
    for _ in range(updates):
        learn(twin, rng, reports=max(2, twin.samples))
        twin.follow(next_terms(twin))
    return twin


# -- what it learns


@given(seed=st.integers(0, 2**32), dim=st.integers(1, 4))
@settings(max_examples=30)
def test_sums_are_those_of_rounded_reports(seed, dim):
    """In integers of the plan, without any error of doubles."""
    rng, twin = np.random.default_rng(seed), make_twin(dim)
    rounding, total = twin.plan.rounding, np.zeros((dim + 1, dim + 1), dtype=object)
    for context in draw_contexts(rng, twin, arms=20):
        reward = float(rng.uniform(-2.0, 2.0))
        report = rounding.round_report(context, reward).astype(object)
        total += np.outer(report, report)
        twin.learn(context, reward)
    s, peak = twin.plan.settings, rounding.peak
    design = np.array(total[:-1, :-1] * s.length**2 / peak**2, dtype=float)
    response = np.array(total[:-1, -1] * s.length * s.reward_max / peak**2, dtype=float)
    assert twin.design == pytest.approx(design + s.ridge * np.eye(dim), rel=1e-12)
    assert twin.response == pytest.approx(response, rel=1e-12, abs=1e-12)
    assert twin.samples == 20


@given(seed=st.integers(0, 2**32))
@settings(max_examples=20)
def test_reports_that_round_alike_are_the_same_to_it(seed):
    rng, one, other = np.random.default_rng(seed), make_twin(), make_twin()
    rounding = one.plan.rounding
    unit = one.plan.settings.length / rounding.peak
    for context in draw_contexts(rng, one, arms=6):
        exact = restore_contexts(rounding, rounding.round_contexts(context))
        one.learn(exact, 0.5)
        other.learn(exact + unit * rng.uniform(-0.49, 0.49, 3), 0.5)
    terms = next_terms(one)
    for twin in (one, other):
        twin.follow(terms)
    assert (one.model == other.model).all()
    assert (one.design == other.design).all()


def test_learning_alone_changes_no_model():
    rng, twin = np.random.default_rng(0), make_twin()
    before = twin.model.copy()
    learn(twin, rng, reports=5)
    assert (twin.model == before).all()
    assert twin.batch.number == 0
    assert twin.resolution == 0.0


# -- its model


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("opener", OPENERS)
def test_first_model_is_the_one_that_the_server_encrypts(dim, opener):
    world = make_world(make_settings(dim), opener=opener, log2_ring_dim=9)
    entries = np.rint(world.read_model(world.begin().model)).astype(np.int64)
    assert (GridTwin(world.plan).model == entries).all()


@given(seed=st.integers(0, 2**32), dim=st.integers(1, 4), ratio=st.sampled_from([1.0, 30.0]))
@settings(max_examples=30)
def test_updates_stay_within_the_plans_certificates(seed, dim, ratio):
    """In doubles: what is left of Newton's steps, and of the refined estimate."""
    twin = play(make_twin(dim, ratio=ratio, length=1.0), np.random.default_rng(seed))
    values, vectors = np.linalg.eigh(twin.design)
    root = (vectors * np.sqrt(values)) @ vectors.T
    residual = np.linalg.norm(root @ twin.inverse @ root - np.eye(dim), 2)
    assert residual <= twin.batch.residual
    off = root @ (twin.estimate - np.linalg.solve(twin.design, twin.response))
    assert np.linalg.norm(off) <= twin.batch.estimate_error
    assert (twin.inverse == twin.inverse.T).all()


@given(seed=st.integers(0, 2**32), dim=st.integers(1, 4))
@settings(max_examples=30)
def test_model_has_the_nearest_integers_of_the_index(seed, dim):
    """w_i x_i and (gamma/2) x_i A_ij x_j in units of the score, each off by half a unit."""
    twin = play(make_twin(dim), np.random.default_rng(seed), updates=2)
    plan, weights = twin.plan, twin.plan.weigh(twin.batch)
    step = plan.settings.length / plan.rounding.peak
    linear = twin.estimate * step * weights.unit
    assert np.abs(twin.model[:dim] - linear).max() <= 0.5 + 1e-6
    quadratic = np.zeros((dim, dim))
    quadratic[np.triu_indices(dim)] = twin.model[dim:]
    exact = weights.gamma * plan.settings.length * step * weights.unit * twin.inverse
    exact[np.diag_indices(dim)] /= 2.0
    assert np.abs(quadratic - np.triu(exact)).max() <= 0.5 + 1e-6


@given(seed=st.integers(0, 2**32), dim=st.integers(1, 4))
@settings(max_examples=30)
def test_scores_fit_their_bits_and_are_the_index_up_to_rounding(seed, dim):
    rng = np.random.default_rng(seed)
    twin = play(make_twin(dim), rng)
    plan, weights = twin.plan, twin.plan.weigh(twin.batch)
    contexts = draw_contexts(rng, twin, arms=50)
    rounded = plan.rounding.round_contexts(contexts)
    scores = plan.rounding.make_features(rounded) @ twin.model
    assert np.abs(scores).max() < 2**plan.score_bits
    exact = restore_contexts(plan.rounding, rounded)
    index = exact @ twin.estimate
    index += weights.gamma / 2.0 * ((exact @ twin.inverse) * exact).sum(axis=1)
    # one unit in each entry of the model, and features that were rounded
    features = 0.5 * plan.rounding.features * np.abs(twin.model[dim:]).max()
    units = plan.rounding.peak * (math.sqrt(dim) + (dim + 1) / 2.0) + features
    assert np.abs(scores / weights.unit - index).max() <= units / weights.unit


def test_cold_start_forgets_the_inverse_before():
    rng = np.random.default_rng(1)
    twin, wrong = (play(make_twin(), np.random.default_rng(2), updates=2) for _ in range(2))
    wrong.inverse = 7.0 * np.ones((3, 3))
    contexts = draw_contexts(rng, twin, arms=4)
    for each in (twin, wrong):
        for context in contexts:
            each.learn(context, 1.0)
        each.follow(next_terms(each, cold=True))
    assert (wrong.model == twin.model).all()
    values, vectors = np.linalg.eigh(twin.design)
    root = (vectors * np.sqrt(values)) @ vectors.T
    residual = np.linalg.norm(root @ wrong.inverse @ root - np.eye(3), 2)
    assert residual <= wrong.batch.residual


def test_batch_and_resolution_are_those_of_the_update():
    twin = make_twin()
    learn(twin, np.random.default_rng(3), reports=5)
    terms = next_terms(twin)
    twin.follow(terms)
    update = UpdatePlan(twin.plan, terms)
    assert twin.batch == update.after
    assert twin.resolution == update.resolution > 0.0
    assert twin.batch.samples == twin.samples == 5


# -- what it says of a decision


@given(seed=st.integers(0, 2**32), arm=st.integers(0, 3))
@settings(max_examples=40)
def test_decision_compares_the_arm_with_the_best_integer_score(seed, arm):
    rng = np.random.default_rng(seed)
    twin = play(make_twin(), rng, updates=1)
    plan, contexts = twin.plan, draw_contexts(rng, twin)
    features = plan.rounding.make_features(plan.rounding.round_contexts(contexts))
    scores = [
        sum(int(a) * int(b) for a, b in zip(row, twin.model, strict=True)) for row in features
    ]
    unit = plan.weigh(twin.batch).span / 2.0**plan.score_bits
    ordered = sorted(scores)
    decision = twin.decide(contexts, arm=arm)
    assert decision.exact_arm == scores.index(ordered[-1])
    assert decision.loss == pytest.approx((ordered[-1] - scores[arm]) * unit)
    assert decision.gap == pytest.approx((ordered[-1] - ordered[-2]) * unit)
    assert decision.tolerance == twin.resolution * plan.weigh(twin.batch).span
    assert decision.agrees == (arm == decision.exact_arm)


def test_equal_contexts_go_to_the_lowest_arm():
    twin = play(make_twin(), np.random.default_rng(4), updates=1)
    decision = twin.decide(np.tile([0.3, -0.4, 0.5], (4, 1)), arm=2)
    assert decision.exact_arm == 0
    assert decision.gap == decision.loss == 0.0
    assert decision.tie


def test_single_context_has_no_gap():
    twin = make_twin()
    assert twin.decide(np.array([[0.1, 0.2, 0.3]]), arm=0).gap == math.inf
