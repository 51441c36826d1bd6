"""How many rewards an update takes in: what a plan says is what an update can do."""

from __future__ import annotations

import pytest

from helba.errors import RunFailed
from helba.reference.planning.planner import make_plan
from helba.reference.planning.request import PlanRequest
from helba.reference.twin.terms import MOST_RESIDUAL, Accuracy

SMALL = PlanRequest(dim=2, arms=2, horizon=1000, length=5.5)


@pytest.mark.parametrize("horizon", [130, 1000, 20_000])
def test_plan_says_how_many_rewards_an_update_takes_in_the_worst_case(horizon: int) -> None:
    request = PlanRequest(dim=2, arms=2, horizon=horizon, length=5.5)
    plan, settings = make_plan(request), request.settings()
    most = plan.rewards_per_update
    assert most is not None
    assert plan.as_json()["rewards_per_update"] == most
    step = (1.0 + MOST_RESIDUAL) * settings.length**2 / settings.ridge
    assert plan.accuracy.plan_inverse(residual=MOST_RESIDUAL, reach=most * step).error <= 0.1
    with pytest.raises(RunFailed, match="noise"):
        plan.accuracy.plan_inverse(residual=MOST_RESIDUAL, reach=(most + 1) * step)


def test_batch_takes_one_reward_whatever_the_noise() -> None:
    noisy = Accuracy(inverse_error=0.01, product_noise=0.02)
    assert noisy.most_bridged(SMALL.settings(), most=8) == 1


def test_no_more_are_counted_than_are_asked_for() -> None:
    exact = Accuracy(inverse_error=0.01, product_noise=1e-12)
    assert exact.most_bridged(SMALL.settings(), most=8) == 8


def test_paper_profile_takes_any_number() -> None:
    plan = make_plan(PlanRequest(dim=2, arms=2, horizon=130, profile="paper", bonus="sqrt"))
    assert plan.rewards_per_update is None
