"""Answers are the argmax of integer scores, bit for bit, and the plaintext twin agrees.

The integers of the model are decrypted with the collective key; features, scores and their argmax
are computed anew, with Python's integers.
"""

from __future__ import annotations

import numpy as np
import pytest

from helba.lab.play.shares import SharesPlay
from helba.lab.play.twin import GridTwin
from helba.problems import make_problem
from helba.protocol.deployment import SharesDeployment
from helba.ring import insecure_parameters
from tests.parties.world import (
    OPENERS,
    World,
    draw_contexts,
    make_deployment,
    make_settings,
    sent,
)
from tests.sweep import in_soak, sweep

FEW_UNITS = 16  # of the grid, in an entry of the model; one or two below d = 16


def play(world: World, rng, *, rounds: int, rewards: bool = True) -> GridTwin:
    """Play rounds beside the twin, and check each; return the twin."""
    settings, member, twin = world.deployment.settings, world.users[0], GridTwin(world.plan)
    for _ in range(rounds):
        contexts = draw_contexts(rng, settings)
        arm = world.recommend(member, contexts)
        assert arm == world.best(contexts)
        decision = twin.decide(contexts, arm=arm)
        assert decision.agrees or decision.tie
        assert not decision.missed
        if not rewards:
            continue
        reward = contexts[arm].sum() / settings.length + 0.2 * rng.normal()
        reward = float(np.clip(reward, -settings.reward_max, settings.reward_max))
        before = world.server.state.learned.batch.number
        world.report(member, contexts[arm], reward)
        world.settle()
        twin.learn(contexts[arm], reward)
        if world.server.state.learned.batch.number > before:
            twin.follow(world.server.state.adopted)
            check_models(world, twin, rng)
    return twin


def check_models(world: World, twin: GridTwin, rng) -> None:
    """The two models differ by a few units, and no score by more than the plan's resolution."""
    apart = np.array(world.model()) - twin.model
    assert np.abs(apart).max() <= FEW_UNITS
    contexts = draw_contexts(rng, world.deployment.settings, arms=50)
    features = np.array([world.features(row) for row in contexts])
    assert np.abs(features @ apart).max() <= twin.resolution / 2.0 * 2.0**world.plan.score_bits


@pytest.mark.parametrize(("dim", "arms"), [(1, 2), (2, 3), (5, 4), (8, 3)])
def test_answer_is_the_argmax_of_the_integer_scores(engine, opener, dim, arms):
    settings = make_settings(dim, arms, growth=0.1)
    world = World(make_deployment(settings, engine=engine, opener=opener))
    play(world, np.random.default_rng(dim), rounds=8)
    assert world.server.state.learned.batch.number >= 6
    world.check_sums()


def test_answer_is_the_argmax_with_the_papers_update_rule(engine, opener):
    settings = make_settings(3, 4, growth=1.0, schedule="trace")
    world = World(make_deployment(settings, engine=engine, opener=opener))
    play(world, np.random.default_rng(5), rounds=10)
    status = world.status()
    assert status.tests > 3
    assert status.updates >= 3
    world.check_sums()


def closest(world: World, rng, *, pool: int = 3000):
    """Pairs of contexts with the nearest different scores of many, under the current model."""
    contexts = draw_contexts(rng, world.deployment.settings, arms=pool)
    scores = np.array(world.scores(contexts), dtype=np.int64)
    order = np.argsort(scores)
    gaps = np.diff(scores[order])
    pairs = [i for i in np.argsort(gaps) if gaps[i]][:4]
    return [(contexts[order[i]], contexts[order[i + 1]], int(gaps[i])) for i in pairs]


def test_scores_far_nearer_than_the_resolution_are_told_apart(engine, opener):
    """The grid decides, and no noise: the larger integer wins, on either side."""
    settings = make_settings(2, 2, growth=1.0)
    world = World(make_deployment(settings, engine=engine, opener=opener))
    rng = np.random.default_rng(11)
    world.learn(world.users[0], rng, count=6)
    assert world.server.state.learned.batch.number >= 1
    resolution = 1e-5 * 2.0**world.plan.score_bits
    for lower, higher, gap in closest(world, rng):
        assert 0 < gap < resolution
        assert world.recommend(world.users[0], [lower, higher]) == 1
        assert world.recommend(world.users[0], [higher, lower]) == 0


def test_ties_go_to_the_lowest_arm(engine, opener):
    settings = make_settings(2, 5)
    world = World(make_deployment(settings, engine=engine, opener=opener))
    member = world.users[0]
    # before any report the score is that of the length alone: other features, equal integers
    tied = [(0.1, 0.2), (0.6, 0.75), (-0.6, -0.75), (0.75, -0.6), (0.0, 0.5)]
    scores = world.scores(tied)
    assert scores[1] == scores[2] == scores[3] > max(scores[0], scores[4])
    assert world.recommend(member, tied) == 1
    assert world.recommend(member, tied[::-1]) == 1
    world.learn(member, np.random.default_rng(3), count=4)
    assert world.server.state.learned.batch.number >= 1
    contexts = draw_contexts(np.random.default_rng(4), settings, arms=3)
    best = contexts[world.best(contexts)]
    others = [row for row in contexts if row is not best][:1]
    rows = [*others, best, *others, best, best]
    assert world.scores(rows)[1] > world.scores(rows)[0] or world.best(rows) == 0
    assert world.recommend(member, rows) == world.best(rows)


def test_equal_contexts_give_arm_0(engine, opener):
    settings = make_settings(2, 5)
    world = World(make_deployment(settings, engine=engine, opener=opener))
    member = world.users[0]
    assert world.recommend(member, [(0.3, -0.4)] * 5) == 0
    world.learn(member, np.random.default_rng(6), count=4)
    assert world.recommend(member, [(0.3, -0.4)] * 5) == 0
    assert world.recommend(member, np.zeros((5, 2))) == 0


def test_fewer_arms_than_announced_never_name_a_missing_one(engine, opener):
    settings = make_settings(2, 6)
    world = World(make_deployment(settings, engine=engine, opener=opener))
    rng = np.random.default_rng(8)
    for arms in range(1, 7):
        contexts = draw_contexts(rng, settings, arms=arms)
        arm = world.recommend(world.users[0], contexts)
        assert arm == world.best(contexts) < arms
        world.learn(world.users[0], rng, count=1)


def test_missing_arm_is_not_named_where_all_others_have_scores_below_zero(opener):
    settings = make_settings(2, 6, noise=0.01, parameter_bound=0.5, growth=3.0)
    world = World(make_deployment(settings, opener=opener))
    (member,) = world.users
    for _ in range(64):
        world.report(member, (0.9, 0.1), -0.4)
        world.settle()
    contexts = [(0.5, 0.0), (0.3, 0.05), (0.8, 0.1)]
    assert max(world.scores(contexts)) < 0
    assert world.recommend(member, contexts) == world.best(contexts) == 1


def test_full_product_of_asks_is_exact():
    """At the sizes of 128 bits: as many users as the plan puts side by side; the grid is theirs."""
    settings = make_settings(2, 2)
    world = World(make_deployment(settings, opener="authority", log2=None))
    assert world.plan.lanes == 819
    rng, (member,) = np.random.default_rng(9), world.users
    world.learn(member, rng, count=4)
    rows = [draw_contexts(rng, settings) for _ in range(world.plan.lanes)]
    names = [sent(member.user.ask(contexts)) for contexts in rows]
    for each in names:
        world.post(member, each)
    while world.flight:  # all of them wait before the first is scored
        world.deliver(world.flight.pop(0))
    world.settle()
    tasks = [parcel for parcel in world.log if parcel.kind == "CompareTask"]
    assert [each.message.work.count for each in tasks if each.subject == "ask"] == [819]
    model = world.model()
    for each, contexts in zip(names, rows, strict=True):
        assert member.arms[each.name] == world.best(contexts, model)


# -- full security


@pytest.mark.ckks
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(("dim", "arms"), [(2, 2), (5, 50)])
def test_answers_are_exact_at_128_bits(opener, dim, arms):
    settings = make_settings(dim, arms)
    world = World(make_deployment(settings, engine="ckks", opener=opener, log2=None))
    assert world.plan.parameters.security == 128
    play(world, np.random.default_rng(dim), rounds=3)
    assert world.server.state.learned.batch.number >= 1
    world.check_sums()


@pytest.mark.slow
@pytest.mark.ckks
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize(("dim", "arms"), [(32, 4), (5, 128)])
def test_answers_are_exact_in_blocks_and_with_many_arms(opener, dim, arms):
    settings = make_settings(dim, arms, growth=3.0)
    world = World(make_deployment(settings, engine="ckks", opener=opener, log2=None))
    play(world, np.random.default_rng(dim), rounds=5)
    assert world.server.state.learned.batch.number == 1
    world.check_sums()


@pytest.mark.ckks
@pytest.mark.parametrize("opener", OPENERS)
def test_every_circuit_runs_at_128_bits(opener):
    """Asks, folds, tests, updates and their checks: all that is garbled, on the secure ring."""
    settings = make_settings(2, 3, growth=1.0, schedule="trace", trace_threshold=4.0)
    world = World(make_deployment(settings, engine="ckks", opener=opener, log2=None), users=2)
    rng = np.random.default_rng(0)
    for _ in range(4):
        contexts = [draw_contexts(rng, settings) for _ in world.users]
        names = [world.ask(m, x) for m, x in zip(world.users, contexts, strict=True)]
        world.settle()
        for member, name, rows in zip(world.users, names, contexts, strict=True):
            assert member.arms[name] == world.best(rows)
        world.learn(world.users[0], rng)
    subjects = {parcel.subject for parcel in world.log if parcel.kind == "Tables"}
    folds = {"fold"} if opener == "authority" else set()
    assert subjects == {"ask", "test", "update"} | folds
    assert world.status().rejected == world.status().abandoned == 0
    world.check_sums()


@pytest.mark.slow
@pytest.mark.ckks
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("security", [192, 256])
def test_answers_are_exact_at_higher_security(opener, security):
    settings = make_settings(3, 4)
    deployment = SharesDeployment.of(settings, opener=opener, security=security)
    assert deployment.plan.parameters.security == security
    world = World(deployment)
    play(world, np.random.default_rng(security), rounds=4)
    assert world.server.state.learned.batch.number >= 1
    world.check_sums()


# -- the toy problem, and a long run


@pytest.mark.slow
@pytest.mark.ckks
@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("seed", [0, in_soak(1), in_soak(2)])
def test_toy_problem_agrees_with_the_twin_on_openfhe(opener, seed):
    problem = make_problem("toy", seed=seed)
    settings = make_settings(
        2,
        2,
        horizon=130,
        length=problem.length,
        reward_max=problem.reward_max,
        growth=0.1,
        schedule="trace",
    )
    deployment = SharesDeployment.of(settings, opener=opener, parameters=insecure_parameters(9))
    policy = SharesPlay(deployment)
    for turn in problem.rounds(40):
        arm = policy.select(turn.contexts)
        assert policy.decision.agrees or policy.decision.tie
        assert not policy.decision.missed
        policy.update(turn.contexts[arm], float(turn.rewards[arm]))
    assert policy.updates >= 10
    assert policy.bandit.server.state.rejected == 0


@pytest.mark.slow
@pytest.mark.parametrize("opener", OPENERS)
def test_simulated_rounds_agree_with_the_twin(opener):
    rounds = sweep(300, long=10_000)
    problem = make_problem("synthetic", dim=8, arms=8, seed=3)
    settings = make_settings(
        8, 8, horizon=rounds, reward_max=problem.reward_max, growth=0.1, schedule="trace"
    )
    policy = SharesPlay(SharesDeployment.of(settings, engine="simulate", opener=opener))
    agreed = 0
    for turn in problem.rounds(rounds):
        arm = policy.select(turn.contexts)
        decision = policy.decision
        assert decision.agrees or decision.tie
        agreed += decision.agrees
        policy.update(turn.contexts[arm], float(turn.rewards[arm]))
    assert agreed >= 0.999 * rounds
    status = policy.bandit.server.state
    assert status.samples == rounds
    assert status.rejected == status.abandoned == status.dropped_reports == 0
    assert policy.updates <= policy.update_bound()
