"""Requests that no plan meets: which limit is named, and what would be possible."""

from __future__ import annotations

import pytest

from helba.errors import HelbaError, InvalidInput
from helba.reference.planning.planner import make_plan
from helba.reference.planning.request import PlanRequest

TOY = {"dim": 2, "arms": 2, "horizon": 130, "length": 5.5}


@pytest.mark.parametrize(
    ("fields", "name", "words"),
    [
        ({"dim": 2, "arms": 2, "horizon": 130, "refresh": "none"}, "horizon", "levels"),
        ({"dim": 64, "arms": 1024, "horizon": 100}, "arms", "slots"),
        ({"dim": 512, "arms": 2, "horizon": 100}, "dim", "slots"),
        ({"dim": 8, "arms": 4, "horizon": 10**8}, "horizon", "noise"),
        (
            {**TOY, "ring_dim": 1 << 16, "depth": 100, "scale_bits": 49},
            "log2(QP)",
            "at most 1747",
        ),
        ({**TOY, "depth": 3}, "depth", "levels"),
        ({**TOY, "scale_bits": 35}, "scale_bits", "noise"),
    ],
)
def test_impossible_request_names_its_limit(fields, name, words):
    with pytest.raises(InvalidInput) as caught:
        make_plan(PlanRequest(**fields))
    assert caught.value.name == name
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "fields",
    [
        {"dim": 2, "arms": 2, "horizon": 130, "refresh": "none"},
        {"dim": 1000, "arms": 8, "horizon": 100},
        {"dim": 8, "arms": 8, "horizon": 100, "depth": 24},
    ],
    ids=["levels", "slots", "keys"],
)
def test_nearest_request_is_possible(fields):
    with pytest.raises(InvalidInput, match="at most about") as caught:
        make_plan(PlanRequest(**fields))
    name, most = caught.value.name, int(caught.value.allowed.split()[3])
    assert most < fields[name]
    nearest = make_plan(PlanRequest(**{**fields, name: most}))
    assert getattr(nearest.request, name) == most
    assert nearest.parameters.log2_qp <= nearest.max_log2_qp
    with pytest.raises(InvalidInput):  # to one part in twenty
        make_plan(PlanRequest(**{**fields, name: most + 1 + most // 10}))


def test_a_limit_of_memory_is_not_blamed_on_levels():
    with pytest.raises(InvalidInput, match="rotation keys pass 2 GiB"):
        make_plan(PlanRequest(dim=8, arms=8, horizon=100, depth=24))


def test_ring_without_room_is_refused():
    with pytest.raises(HelbaError, match=r"2\^13"):
        make_plan(PlanRequest(**TOY, ring_dim=1 << 13))


@pytest.mark.parametrize(
    "change", [{"refresh": "hope"}, {"security": 127}, {"ring_dim": 5}, {"dim": 0}, {"arms": 1}]
)
def test_request_that_makes_no_sense_is_refused(change):
    with pytest.raises(InvalidInput):
        PlanRequest(**{**TOY, **change})
