from __future__ import annotations

from dataclasses import replace

import pytest

from helba.errors import InvalidInput
from helba.lab.comparison import sensitivity as module
from helba.lab.comparison.sensitivity import (
    ALGORITHMS,
    FACTORS,
    QUANTITIES,
    SensitivityRequest,
    measure,
)
from helba.lab.runner import settings_for
from helba.problems import make_problem


@pytest.fixture(scope="module")
def effects():
    request = SensitivityRequest(problem="synthetic", horizon=20, repetitions=2, dim=2, arms=3)
    return measure(request, jobs=1)


def test_sensitivity_covers_every_belief_of_every_algorithm(effects):
    cells = {(effect.algorithm, effect.quantity, effect.factor) for effect in effects}
    assert len(cells) == len(effects) == len(ALGORITHMS) * len(QUANTITIES) * len(FACTORS)


def test_sensitivity_counts_runs_that_the_policy_refuses(effects):
    for effect in effects:
        too_short = effect.quantity == "length" and effect.factor < 1
        assert effect.refused == (2 if too_short else 0)
        assert (effect.regret is None) == too_short


def test_sensitivity_of_the_truth_is_the_same_under_every_quantity(effects):
    for algorithm in ALGORITHMS:
        truths = {e.regret for e in effects if e.algorithm == algorithm and e.factor == 1.0}
        assert len(truths) == 1


def test_sensitivity_request_names_the_value_and_what_is_allowed():
    with pytest.raises(InvalidInput, match="repetitions must be at least 1, got 0"):
        SensitivityRequest(problem="toy", horizon=10, repetitions=0)


@pytest.mark.parametrize("quantity", list(QUANTITIES))
def test_sensitivity_tells_the_policy_the_factor_and_nothing_else(quantity, monkeypatch):
    request = SensitivityRequest(problem="toy", horizon=5, repetitions=1)
    truth, told = settings_for(make_problem("toy"), horizon=5), []
    real = module.policy_for

    def listen(algorithm, *, settings, problem_seed):
        told.append(settings)
        return real(algorithm, settings=settings, problem_seed=problem_seed)

    monkeypatch.setattr(module, "policy_for", listen)
    job = module.Job(request=request, algorithm="oful", quantity=quantity, factor=4.0, repetition=0)
    module.run_job(job)
    assert told == [replace(truth, **{quantity: 4.0 * getattr(truth, quantity)})]
