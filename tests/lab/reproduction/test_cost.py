import math

import numpy as np
import pytest

from helba.errors import InvalidInput
from helba.lab.reproduction.cost import fit_exponent, split_cost


def test_exponent_of_an_exact_law_is_found_without_error():
    x = [2, 4, 8, 16, 32]
    law = fit_exponent(x, [3.0 * value**1.7 for value in x])
    assert law.slope == pytest.approx(1.7, abs=1e-12)
    assert law.error == pytest.approx(0.0, abs=1e-12)
    assert law.r_squared == pytest.approx(1.0)
    assert law.points == 5


def test_exponent_and_its_error_are_those_of_least_squares():
    x = np.array([2.0, 4.0, 8.0, 16.0, 32.0, 64.0])
    y = 0.5 * x**0.8 * np.exp([0.1, -0.2, 0.05, 0.15, -0.1, 0.02])
    law = fit_exponent(x.tolist(), y.tolist())
    (slope, _), covariance = np.polyfit(np.log(x), np.log(y), 1, cov=True)
    assert law.slope == pytest.approx(slope, rel=1e-9)
    assert law.error == pytest.approx(math.sqrt(covariance[0, 0]), rel=1e-9)
    assert law.r_squared == pytest.approx(np.corrcoef(np.log(x), np.log(y))[0, 1] ** 2, rel=1e-9)


def test_exponent_lies_within_its_error_of_the_truth_as_often_as_promised():
    x = np.array([2.0, 4.0, 8.0, 16.0, 32.0])
    generator = np.random.default_rng(1)
    misses = 0
    for _ in range(400):
        y = x**1.2 * np.exp(generator.normal(0.0, 0.1, len(x)))
        law = fit_exponent(x.tolist(), y.tolist())
        assert law.error is not None
        # Student's t with 3 degrees of freedom: 3.182 is passed in 5 % of the cases.
        misses += abs(law.slope - 1.2) > 3.182 * law.error
    assert 5 <= misses <= 40


def test_exponent_of_what_does_not_vary_is_zero_and_explains_nothing():
    law = fit_exponent([2, 4, 8], [7.0, 7.0, 7.0])
    assert law.slope == pytest.approx(0.0, abs=1e-12)
    assert law.r_squared is None


def test_two_points_have_a_slope_and_no_error():
    law = fit_exponent([1, 10], [1.0, 100.0])
    assert law.slope == pytest.approx(2.0)
    assert law.error is None


@pytest.mark.parametrize(
    ("x", "y"), [([1], [1.0]), ([2, 2], [1.0, 3.0]), ([1, 2], [0.0, 1.0]), ([1, 2, 3], [1.0, 2.0])]
)
def test_points_without_a_law_are_refused(x, y):
    with pytest.raises(InvalidInput):
        fit_exponent(x, y)


def row(number, *, updates, round_seconds, update_seconds, up):
    return {
        "round": number,
        "arm": 0,
        "regret": 0.0,
        "updates": updates,
        "agrees": True,
        "tie": None,
        "seconds": round_seconds + update_seconds,
        "server_recommendation_seconds": round_seconds / 2,
        "round_seconds": round_seconds,
        "update_seconds": update_seconds,
        "bytes_up": up,
        "bytes_down": up // 10,
    }


ROWS = [
    row(1, updates=0, round_seconds=9.0, update_seconds=0.0, up=100),
    row(2, updates=1, round_seconds=10.0, update_seconds=5.0, up=250),
    row(3, updates=2, round_seconds=11.0, update_seconds=12.0, up=400),
    row(4, updates=2, round_seconds=12.0, update_seconds=12.0, up=500),
]


def test_cost_counts_rounds_and_updates_apart():
    cost = split_cost(ROWS)
    assert cost.round == pytest.approx(1.0), "the first round warms up"
    assert cost.recommendation == pytest.approx(0.5)
    assert cost.update == pytest.approx(6.0)
    assert (cost.bytes_up, cost.update_bytes_up) == (100.0, 50.0)
    assert (cost.bytes_down, cost.update_bytes_down) == (10.0, 5.0)
    assert (cost.rounds, cost.updates) == (4, 2)


def test_cost_over_a_horizon_adds_the_share_of_its_updates():
    cost = split_cost(ROWS)
    assert cost.seconds_per_round(updates=20, horizon=100) == pytest.approx(1.0 + 6.0 * 0.2)
    assert cost.bytes_per_round(updates=20, horizon=100) == pytest.approx((110.0, 11.0))


def test_cost_of_what_was_not_seen_is_unknown():
    quiet = split_cost(ROWS[:1])
    assert quiet.update is None
    assert quiet.seconds_per_round(updates=3, horizon=10) is None
    assert quiet.seconds_per_round(updates=0, horizon=10) == pytest.approx(9.0)
