"""Plans for many users in one ciphertext."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helba.errors import InvalidInput
from helba.reference.planning.clearing import clearing_noise, leaving_noise
from helba.reference.planning.draft import LEAST_COVER
from helba.reference.planning.planner import make_plan
from helba.reference.planning.request import KEY_MODES, PlanRequest
from helba.reference.planning.score import ScoreLayout

TOY = PlanRequest(dim=2, arms=2, horizon=130)


def test_plan_for_many_has_a_level_for_clearing_and_keys_for_its_strides() -> None:
    many = make_plan(replace(TOY, users=512))
    assert (make_plan(TOY).users, many.users) == (1, 512)
    assert many.as_json()["users"] == 512
    assert many.layout == "pairs"
    assert many.slots == 512 * 16 <= many.parameters.max_slots
    assert many.sign is not None
    assert many.method is not None
    assert many.round_levels == 1 + many.sign.levels + 1 <= many.parameters.depth
    layout = ScoreLayout(dim=2, arms=2, users=512)
    assert set(layout.rotations_for(many.method)) <= set(many.rotations)
    depth = next(choice for choice in many.reasons if choice.name == "depth")
    assert "clearing 1" in depth.reason


def test_noise_of_clearing_is_counted_and_small() -> None:
    plan = make_plan(replace(TOY, users=512))
    layout = ScoreLayout(dim=2, arms=2, users=512)
    added = clearing_noise(layout, parameters=plan.parameters)
    assert 0.0 < added < plan.comparison_error < plan.flood / 100
    assert clearing_noise(ScoreLayout(dim=2, arms=2), parameters=plan.parameters) == 0.0


@pytest.mark.parametrize("users", [1, 512])
def test_noise_of_leaving_is_counted_and_small(users: int) -> None:
    plan = make_plan(replace(TOY, users=users))
    layout = ScoreLayout(dim=2, arms=2, users=users)
    added = leaving_noise(layout.compare_slots, parameters=plan.parameters)
    added += clearing_noise(layout, parameters=plan.parameters)
    assert 0.0 < added < plan.comparison_error <= plan.flood / LEAST_COVER


def test_server_keeps_keys_for_each_user_by_the_mode() -> None:
    own, shared, switched = (make_plan(replace(TOY, keys=keys)) for keys in KEY_MODES)
    assert shared.reencryption_key_bytes == 0
    assert 0 < own.reencryption_key_bytes < own.switching_key_bytes / 2  # of the last levels only
    assert own.as_json()["re_encryption_key_bytes"] == own.reencryption_key_bytes
    inward = switched.switching_key_bytes
    assert switched.reencryption_key_bytes >= inward + own.reencryption_key_bytes
    with pytest.raises(InvalidInput, match="keys"):
        replace(TOY, keys="lost")


@pytest.mark.parametrize("changes", [{"profile": "paper", "bonus": "sqrt"}, {"bonus": "sqrt"}])
def test_users_share_only_where_scores_come_by_pairs(changes: dict[str, str]) -> None:
    with pytest.raises(InvalidInput, match="users must be 1, but for the ciphertext profile"):
        replace(TOY, users=2, **changes)  # type: ignore[arg-type]


def test_more_users_than_slots_are_refused_with_what_fits() -> None:
    with pytest.raises(InvalidInput, match="users must be a power of two"):
        replace(TOY, users=500)
    with pytest.raises(InvalidInput, match=r"users must be at most 1024 at 128 bits and N = 2\^15"):
        make_plan(replace(TOY, users=2048, ring_dim=1 << 15))
