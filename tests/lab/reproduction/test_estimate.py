from __future__ import annotations

import dataclasses

import pytest

from helba.lab.progress import describe_seconds
from helba.lab.reproduction.estimate import Estimate
from tests.lab.reproduction.work import unit


def make(name: str, *, kind: str, seconds: float):
    return dataclasses.replace(unit(name, kind=kind), seconds=seconds)


LIGHT = [make(f"light{index}", kind="light", seconds=10.0) for index in range(4)]
SLOW = [make(f"slow{index}", kind="ckks", seconds=100.0) for index in range(2)]


def test_time_left_is_what_is_expected_until_something_is_measured():
    assert Estimate([*LIGHT, *SLOW], processes=2).left() == pytest.approx(40 / 2 + 200)


def test_time_left_is_scaled_by_what_units_of_its_kind_took():
    estimate = Estimate([*LIGHT, *SLOW], processes=2)
    estimate.finish(LIGHT[0], seconds=20.0)
    assert estimate.left() == pytest.approx(2 * (30 / 2 + 200))
    estimate.finish(SLOW[0], seconds=50.0)
    assert estimate.left() == pytest.approx(2 * 30 / 2 + 0.5 * 100)


def test_time_left_is_nothing_when_all_is_done():
    estimate = Estimate(SLOW, processes=1)
    for one in SLOW:
        estimate.start(one)
        estimate.finish(one, seconds=1.0)
    assert estimate.left() == 0.0


def test_running_unit_counts_for_what_is_left_of_it(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    estimate = Estimate(SLOW, processes=1)
    estimate.start(SLOW[0])
    now[0] += 30.0
    assert estimate.left() == pytest.approx(70 + 100)
    now[0] += 1000.0
    assert estimate.left() == pytest.approx(100)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (99.0, "99 s"), (99.7, "2 min"), (3000, "50 min"), (7500, "2 h 5 min")],
)
def test_seconds_are_told_as_people_do(seconds, text):
    assert describe_seconds(seconds) == text
