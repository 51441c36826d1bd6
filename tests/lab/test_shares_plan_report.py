"""What a plan on shares predicts, beside what a run does."""

from __future__ import annotations

import numpy as np
import pytest

from helba.bandits.settings import Settings
from helba.in_process.bandit import EncryptedBandit
from helba.lab.plan.shares import describe_plan
from helba.protocol.deployment import SharesDeployment
from helba.ring.wire import dump_ciphertext, dump_key
from tests.parties.world import OPENERS, draw_contexts, make_deployment, make_settings
from tests.sweep import in_soak


def play(bandit: EncryptedBandit, *, rounds: int) -> None:
    rng = np.random.default_rng(1)
    for _ in range(rounds):
        contexts = draw_contexts(rng, bandit.settings)
        arm = bandit.select(contexts)
        bandit.update(contexts[arm], float(contexts[arm, 0]))


def open_bandit(settings: Settings, **chosen) -> tuple[EncryptedBandit, dict]:
    deployment = SharesDeployment.of(settings, **chosen)
    return EncryptedBandit(settings, deployment=deployment), describe_plan(deployment)


@pytest.mark.parametrize(
    ("opener", "dim", "ridge", "schedule", "growth", "horizon"),
    [
        ("users", 2, 1 / 30, "trace", 0.1, 40),
        ("authority", 8, 1 / 30, "public", 0.1, 40),
        # An update takes 180 reports that no test has seen.
        ("authority", 8, 1.0, "public", 5.0, 220),
        in_soak("users", 8, 1.0, "public", 5.0, 220),
        in_soak("users", 8, 1 / 30, "public", 0.1, 40),
        in_soak("authority", 2, 1 / 30, "trace", 0.1, 40),
        in_soak("users", 2, 1.0, "trace", 0.1, 40),
        in_soak("authority", 2, 1.0, "trace", 0.1, 40),
    ],
)
def test_plan_counts_every_failure_that_a_run_does(opener, dim, ridge, schedule, growth, horizon):
    settings = make_settings(dim, 3, ridge=ridge, schedule=schedule, growth=growth, horizon=horizon)
    bandit, report = open_bandit(settings, opener=opener, engine="simulate")
    play(bandit, rounds=settings.horizon)
    status = bandit.server.state
    assert status.updates >= 3
    assert 0.0 < status.failure <= report["failure_probability"] < 1e-6


@pytest.mark.parametrize(
    ("dim", "arms", "schedule", "horizon"),
    [
        (2, 2, "trace", 60),
        (8, 3, "public", 60),
        in_soak(2, 2, "public", 130),
        in_soak(8, 3, "trace", 40),
    ],
)
def test_no_update_of_a_run_is_worse_than_the_plan_promises(dim, arms, schedule, horizon):
    settings = make_settings(
        dim, arms, ridge=1 / 30, schedule=schedule, growth=0.1, horizon=horizon
    )
    bandit, report = open_bandit(settings, engine="simulate")
    promised, seen, rng = report["certificates"], 0, np.random.default_rng(2)
    for _ in range(horizon):
        context = draw_contexts(rng, settings)[0]
        bandit.update(context, float(context[0]))
        if bandit.updates == seen:
            continue
        seen, update = bandit.updates, bandit.deployment.update_plan(bandit.server.state.adopted)
        assert update.residual <= promised["inverse"] < 0.01
        assert update.estimate_error <= promised["estimate"]
        assert update.resolution <= report["resolution"] < 1e-4
        assert update.resolution * update.weights.span <= promised["score"]
        assert update.weights.radius <= report["radius"]
    assert seen > 10


def test_plan_of_a_million_reports_at_a_small_ridge_promises_a_hundredth():
    settings = make_settings(32, 4, ridge=1 / 30, schedule="trace", growth=0.1, horizon=10**6)
    report = describe_plan(SharesDeployment.of(settings))
    assert report["certificates"]["inverse"] < 0.01


@pytest.mark.parametrize("opener", OPENERS)
def test_failure_grows_with_the_horizon(opener):
    found = [
        describe_plan(make_deployment(make_settings(2, 3, horizon=T), opener=opener, log2=None))
        for T in (10, 10**6)
    ]
    assert found[0]["failure_probability"] < found[1]["failure_probability"] < 1e-3


def test_plan_knows_the_bytes_of_shares():
    settings = make_settings(2, 3)
    bandit, report = open_bandit(settings, opener="authority", engine="simulate")
    play(bandit, rounds=1)
    before = bandit.ledger.bytes_up, bandit.ledger.bytes_down
    play(bandit, rounds=1)
    after = bandit.ledger.bytes_up, bandit.ledger.bytes_down
    assert after[0] - before[0] == report["bytes_up"]
    assert after[1] - before[1] == report["bytes_down"]


@pytest.mark.ckks
@pytest.mark.parametrize("opener", OPENERS)
def test_plan_knows_the_bytes_and_keys_of_128_bits(opener):
    settings = make_settings(2, 3, growth=20.0)
    bandit, report = open_bandit(settings, opener=opener, engine="ckks")
    play(bandit, rounds=1)
    before = bandit.ledger.bytes_up, bandit.ledger.bytes_down
    play(bandit, rounds=1)
    after = bandit.ledger.bytes_up, bandit.ledger.bytes_down
    assert after[0] - before[0] == pytest.approx(report["bytes_up"], rel=0.01)
    assert after[1] - before[1] == pytest.approx(report["bytes_down"], rel=0.01)
    ring, learned = bandit.server.ring, bandit.server.state.learned
    keys = len(dump_key(ring.evaluation_key))
    assert keys == pytest.approx(report["evaluation_key_bytes"], rel=0.01)
    stacks = (learned.rows, learned.columns, learned.design)
    parts = [part for stack in stacks for part in stack.parts.values()]
    backend = ring.public_key.backend
    state = sum(len(dump_ciphertext(part, backend=backend)) for part in parts)
    assert keys + state < report["memory_bytes"] < 10 * (keys + state)
