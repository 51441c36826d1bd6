"""Latencies and rates are those of the last minute, the histogram is of all rounds."""

from __future__ import annotations

import pytest

from helba.service.meter import BOUNDS, Meter


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_latencies_are_percentiles_of_the_last_minute() -> None:
    clock = Clock()
    meter = Meter(clock=clock)
    assert meter.latency_ms() == {"p50": None, "p95": None}
    meter.add_rounds(1, seconds=50.0)
    clock.now += 61.0
    for number in range(1, 102):
        meter.add_rounds(1, seconds=0.001 * number)
    assert meter.latency_ms() == {"p50": 51.0, "p95": 96.0}
    assert meter.rounds == 102


def test_rate_is_that_of_the_last_minute_or_since_the_start() -> None:
    clock = Clock()
    meter = Meter(clock=clock)
    assert meter.rounds_per_second() == 0.0
    clock.now += 10.0
    meter.add_rounds(20, seconds=0.1)
    assert meter.rounds_per_second() == pytest.approx(2.0)
    clock.now += 50.0
    assert meter.rounds_per_second() == pytest.approx(20 / 60, abs=1e-3)
    clock.now += 11.0
    assert meter.rounds_per_second() == 0.0


def test_rate_of_more_rounds_than_are_kept_is_not_too_low() -> None:
    clock = Clock()
    meter = Meter(clock=clock)
    for _ in range(50):
        clock.now += 1.0
        meter.add_rounds(100, seconds=0.1)
    assert meter.rounds_per_second() == pytest.approx(100.0, rel=0.1)


def test_histogram_counts_all_rounds_within_each_bound() -> None:
    clock = Clock()
    meter = Meter(clock=clock)
    meter.add_rounds(3, seconds=BOUNDS[1])
    clock.now += 1000.0
    meter.add_rounds(1, seconds=2 * BOUNDS[-1])
    found = meter.histogram()
    assert found.within == (0, *[3] * (len(BOUNDS) - 1), 4)
    assert found.seconds == pytest.approx(3 * BOUNDS[1] + 2 * BOUNDS[-1])
