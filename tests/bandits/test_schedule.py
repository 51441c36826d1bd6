import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.bandits.schedule import UpdateSchedule

from .play import linear_settings


def growth_updates(eta, horizon):
    schedule = UpdateSchedule(linear_settings(growth=eta, horizon=horizon), lag=1)
    times = []
    for t in range(1, horizon + 1):
        if schedule.due(round=t, passed=False):
            times.append(t)
            schedule.restart(round=t)
    return times


def test_growth_rule_reads_eta_as_the_decimal_it_was_written_as():
    """55 >= 1.1 * 50 holds, where floating point says 55.00000000000001."""
    assert 55 < (1 + 0.1) * 50
    schedule = UpdateSchedule(linear_settings(growth=0.1), lag=1)
    schedule.restart(round=50)
    assert schedule.due(round=55, passed=False)


def test_growth_rule_forces_32_updates_on_the_toy_problem():
    assert len(growth_updates(0.1, 130)) == 32


@given(st.sampled_from([0.01, 0.1, 0.25, 1.0]), st.integers(1, 400))
def test_every_round_of_a_batch_is_at_most_its_last_round(eta, horizon):
    schedule = UpdateSchedule(linear_settings(growth=eta, horizon=horizon), lag=0)
    for t in range(1, horizon + 1):
        assert t <= schedule.last_round
        if schedule.due(round=t, passed=False):
            schedule.restart(round=t)


@settings(max_examples=200)
@given(seed=st.integers(0, 2**32 - 1), lag=st.integers(0, 3), length=st.floats(0.3, 3.0))
def test_trace_bound_from_public_counts_holds(seed, lag, length):
    """The true Tr(A (V - V_j)) at an update never exceeds what counts allow."""
    rng = np.random.default_rng(seed)
    config = linear_settings(horizon=150, length=length, growth=0.3)
    schedule, trace = UpdateSchedule(config, lag=lag), 0.0
    for t in range(1, config.horizon + 1):
        # some play's ||x||_A^2, at most (1 + e) L^2/lambda with e = 0
        trace += rng.choice([0.0, 1.0, rng.random()]) * length**2
        if schedule.due(round=t, passed=trace >= config.trace_threshold):
            bound = schedule.trace_bound(residual=0.0)
            assert trace <= bound + 1e-9
            schedule.restart(round=t)
            trace = 0.0


def test_trace_bound_uses_the_answers_residual_and_band():
    """Many short plays: the last answer says more than their number."""
    schedule = UpdateSchedule(linear_settings(growth=10.0), lag=1, band=0.25)
    for t in range(1, 9):
        assert not schedule.due(round=t, passed=False)
    assert schedule.trace_bound(residual=0.5) == pytest.approx(1.25 + 1.5)
    schedule.due(round=9, passed=True)
    assert not schedule.known  # it arrives a round later
    assert schedule.due(round=10, passed=True)
    assert schedule.trace_bound(residual=0.0) == pytest.approx(1.25 + 2.0)


def test_public_schedule_never_asks():
    schedule = UpdateSchedule(linear_settings(growth=10.0, schedule="public"), lag=0)
    assert not any(schedule.due(round=t, passed=True) for t in range(1, 11))
    assert schedule.trace_bound(residual=0.1) == pytest.approx(10 * 1.1)


def test_last_round_is_no_later_than_the_horizon():
    schedule = UpdateSchedule(linear_settings(growth=1.0, horizon=15), lag=0)
    schedule.restart(round=10)
    assert schedule.last_round == 15


def test_trace_bound_is_tight_for_full_length_plays():
    """One play short of C, then one more that the test saw and one that it did not."""
    schedule = UpdateSchedule(linear_settings(length=0.7, growth=10.0), lag=1)
    trace = 0.0
    for t in range(1, 10):
        trace += 0.49
        if schedule.due(round=t, passed=trace >= 1.0):
            break
    assert (t, trace) == (4, pytest.approx(1.96))
    assert schedule.trace_bound(residual=0.0) == pytest.approx(1.96)
