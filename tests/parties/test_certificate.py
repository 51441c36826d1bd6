"""The bounds that a run states: the worst certificates of its models and tests, each counted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.in_process.bandit import EncryptedBandit
from helba.learning.plan import SharesPlan
from helba.protocol.deployment import SharesDeployment
from tests.parties.world import draw_contexts, make_deployment, make_settings


class Played:
    """A bandit after some rounds, with the certificates of every model that it had."""

    def __init__(self, *, rounds: int = 12, **others) -> None:
        told = {"schedule": "trace", "growth": 0.5, "horizon": 10**6, "noise": 0.01}
        settings = make_settings(2, 3, **(told | others))
        deployment = make_deployment(settings)
        self.bandit = EncryptedBandit(settings, deployment=deployment)
        self.plan, rng = deployment.plan, np.random.default_rng(5)
        self.batches, self.resolutions = [self.bandit.server.state.learned.batch], []
        for _ in range(rounds):
            contexts = draw_contexts(rng, settings)
            arm = self.bandit.select(contexts)
            self.bandit.update(contexts[arm], float(contexts[arm, 0]))
            batch = self.bandit.server.state.learned.batch
            if batch != self.batches[-1]:
                self.batches.append(batch)
                update = deployment.update_plan(self.bandit.server.state.adopted)
                self.resolutions.append(update.resolution)


@pytest.fixture(scope="module")
def played() -> Played:
    return Played()


def test_run_keeps_the_worst_certificate_of_its_models(played):
    worst, plan, batches = played.bandit._certified, played.plan, played.batches
    assert len(batches) > 3
    assert worst.residual == max(batch.residual for batch in batches)
    assert worst.estimate_error == max(batch.estimate_error for batch in batches) > 0.0
    misses = [
        resolution * plan.weigh(batch).span + plan.rounding_tolerance(batch)
        for resolution, batch in zip(played.resolutions, batches[1:], strict=True)
    ]
    assert worst.tolerance == max(misses) > 0.0
    assert worst.band > 0.0


@pytest.mark.parametrize("name", ["residual", "estimate_error", "tolerance", "band"])
def test_regret_bound_counts_every_certificate(played, monkeypatch, name):
    bandit = played.bandit
    bound = bandit.regret_bound()
    monkeypatch.setattr(bandit, "_certified", replace(bandit._certified, **{name: 0.0}))
    assert bandit.regret_bound() < bound


def test_regret_bound_counts_what_rounding_does_to_the_estimate(played, monkeypatch):
    bound = played.bandit.regret_bound()
    monkeypatch.setattr(type(played.plan), "rounding_error", lambda _, samples: 0.0 * samples)
    assert played.bandit.regret_bound() < bound


@pytest.mark.parametrize("name", ["residual", "band"])
def test_update_bound_counts_what_a_test_may_miss(played, monkeypatch, name):
    bandit = played.bandit
    bound = bandit.update_bound()
    assert bandit.updates <= bound
    monkeypatch.setattr(bandit, "_certified", replace(bandit._certified, **{name: 0.0}))
    assert bandit.update_bound() < bound


def test_update_bound_counts_sums_that_are_full(played):
    plan = played.plan
    most = plan.settings.horizon / plan.most_unseen
    settings = replace(played.bandit.settings, schedule="public")
    deployment = SharesDeployment(plan=replace(plan, settings=settings), engine="simulate")
    public = EncryptedBandit(settings, deployment=deployment)
    assert public.update_bound() > most > 0.0
    growth = np.log(settings.horizon) / np.log1p(settings.growth)
    assert public.update_bound() >= growth + settings.horizon / deployment.plan.most_unseen


@pytest.mark.parametrize("resolved", [1, 2])
def test_there_is_no_regret_bound_past_the_reports_that_a_test_resolves(monkeypatch, resolved):
    monkeypatch.setattr(SharesPlan, "most_tested", resolved)
    played = Played(rounds=2, growth=20.0, trace_threshold=50.0)
    assert len(played.batches) == 1
    assert (played.bandit.regret_bound() is None) == (resolved < 2)
