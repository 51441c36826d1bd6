"""Kills and crowds cost no acknowledged reward, and none counts twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.service.soak import crowding
from tests.service.soak.crowding import describe_memory, run_crowd
from tests.service.soak.killing import run_kills
from tests.service.soak.service import VICTIMS, Setting
from tests.sweep import in_soak, sweep

slow = pytest.mark.slow
ckks = pytest.mark.ckks


@slow
@ckks
@pytest.mark.parametrize(
    "bonus", [pytest.param("quadratic", id="whole"), in_soak("sqrt", id="cut")]
)
def test_kills_cost_no_acknowledged_reward_or_enrolment(tmp_path: Path, bonus: str) -> None:
    setting = Setting(bonus=bonus, insecure=True)
    kills = sweep(4, long=8)  # each process once, or twice
    report = run_kills(tmp_path, setting=setting, count=kills, users=3, seed=5)
    assert report["faults"] == []
    assert set(report["kills"]) == set(VICTIMS)
    assert sum(report["kills"].values()) == kills
    assert report["acknowledged_rewards"] == report["rewards_in_the_statistics"] > kills
    assert report["acknowledged_enrolments"] > 3
    assert report["recovery"]["all"]["without_loading"]["max"] < 10.0


@slow
@ckks
def test_crowd_meets_no_error_and_every_reward_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowding, "SAMPLE_SECONDS", sweep(0.2, long=1.0))
    users, seconds, alone = sweep((4, 2.5, 0.5), long=(8, 6.0, 3.0))
    setting = Setting(insecure=True)
    report = run_crowd(tmp_path, setting=setting, users=users, seconds=seconds, alone_seconds=alone)
    report["faults"] = [each for each in report["faults"] if "memory" not in each]  # too short
    assert report["faults"] == []
    assert report["together"]["errors"] == {}
    assert report["acknowledged_rewards"] == report["rewards_in_the_statistics"] > users
    assert report["speedup"] > 0
    assert {"evaluator-main", "front", "reader-main"} <= report["memory"].keys()


def test_memory_that_grows_is_told_from_memory_that_does_not() -> None:
    def samples(growth: float) -> list[tuple[float, dict[str, float]]]:
        return [
            (float(at), {"a": 1e8 * (1 + growth * at / 100) + (5e7 if at < 20 else 0.0)})
            for at in range(100)
        ]

    assert not describe_memory(samples(0.0))["a"]["grows"]
    assert not describe_memory(samples(-1.0))["a"]["grows"]
    assert describe_memory(samples(1.0))["a"]["grows"]
