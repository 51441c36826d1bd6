"""What the planner chooses: keys that fit memory, the way of the argmax, cuts of long rounds."""

from __future__ import annotations

import pytest

from helba.reference.planning.cost.paper_workload import paper_tie_noise
from helba.reference.planning.draft import LEAST_COVER, MOST_TIE_NOISE
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.planning.planner import make_plan
from helba.reference.planning.request import PlanRequest


@pytest.mark.parametrize(
    ("dim", "arms", "gibibytes"), [(16, 16, 2), (16, 64, 2), (8, 16, 2), (32, 4, 4), (32, 32, 4)]
)
def test_rotation_keys_stay_within_their_memory(dim: int, arms: int, gibibytes: int) -> None:
    plan = make_plan(PlanRequest(dim=dim, arms=arms, horizon=1000))
    assert 0 < len(plan.rotations) * plan.switching_key_bytes <= gibibytes << 30


def test_argmax_by_product_is_preferred_where_it_fits_and_can_be_told() -> None:
    assert make_plan(PlanRequest(dim=8, arms=8, horizon=1000)).method == "product"
    crowded = make_plan(PlanRequest(dim=16, arms=16, horizon=1000))
    assert crowded.method == "sum"
    assert "do not fit" in next(c.reason for c in crowded.reasons if c.name == "argmax")
    told = make_plan(PlanRequest(dim=8, arms=8, horizon=1000, argmax="sum"))
    assert told.method == "sum"
    assert (
        told.seconds_per_round
        < make_plan(PlanRequest(dim=8, arms=8, horizon=1000)).seconds_per_round
    )


@pytest.mark.parametrize(("dim", "arms"), [(2, 2), (4, 8), (16, 16), (4, 64)])
def test_flood_of_an_answer_covers_the_error_of_ckks(dim: int, arms: int) -> None:
    plan = make_plan(PlanRequest(dim=dim, arms=arms, horizon=1000))
    assert LEAST_COVER * plan.comparison_error <= plan.flood


def test_long_rounds_of_the_paper_are_cut_and_not_refused_for_their_depth():
    plan = make_plan(PlanRequest(dim=4, arms=8, horizon=1000, profile="paper", bonus="sqrt"))
    assert plan.refreshes_per_round > 10
    assert plan.round_levels > 100 > plan.parameters.depth


def test_comparisons_of_the_paper_need_a_scale_that_survives_ties():
    settings = PlanRequest(dim=2, arms=2, horizon=10000, profile="paper", bonus="sqrt").settings()
    noise = [
        paper_tie_noise(settings, parameters=insecure_parameters(scale_bits=bits, depth=8))
        for bits in (25, 50)
    ]
    assert noise[0] > MOST_TIE_NOISE > noise[1] > 0
