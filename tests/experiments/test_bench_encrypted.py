from __future__ import annotations

import pytest

from helba.errors import InvalidInput
from helba.experiments.bench_encrypted import (
    SIZES,
    bench_ratio,
    bench_round,
    bench_update,
    choose_sizes,
)
from helba.experiments.stopwatch import TimedServer
from helba.protocol.codec import Codec
from helba.protocol.messages import Report, TaskReply
from helba.protocol.server import Status
from tests.protocol.parties import TOY, deployment_of

CODEC, HELPER = Codec(deployment_of(TOY, scheme="simulate")), b"2" * 16
REPORT = CODEC.encode(Report(user=HELPER, round=b"3" * 16))


def test_bench_sizes_are_given_whole_or_not_at_all():
    assert choose_sizes(dim=None, arms=None) == SIZES
    assert choose_sizes(dim=3, arms=5) == ((3, 5),)
    with pytest.raises(InvalidInput, match="arms must be given too"):
        choose_sizes(dim=3, arms=None)


def test_bench_round_adds_the_servers_and_the_users_seconds_up():
    report = bench_round([(2, 2), (3, 4)], rounds=2, engine="simulate")
    assert [(r["dim"], r["arms"]) for r in report["results"]] == [(2, 2), (3, 4)]
    for result in report["results"]:
        assert result["seconds"] == pytest.approx(result["server_seconds"] + result["user_seconds"])
        assert result["server_seconds"] > 0
        assert result["bytes_up"] > 0
        assert set(result["parameters"]) >= {"ring_dim", "log2_qp", "depth", "scale_bits"}


def test_bench_update_counts_refreshes():
    report = bench_update([(3, 4)], updates=2, engine="simulate")
    (result,) = report["results"]
    assert (result["updates"], result["rejected"]) == (2, 0)
    assert result["refreshes"] >= 1
    assert result["seconds"] == pytest.approx(result["server_seconds"] + result["helper_seconds"])


class Clockwork:
    """Time that passes only when someone works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Workshop:
    """A server whose second report makes an update due, with one refresh; all takes known time."""

    def __init__(self, clock: Clockwork) -> None:
        self.clock = clock
        self.reports = self.updates = 0
        self.due = False

    def receive(self, data: bytes) -> tuple[bytes, ...]:
        self.clock.now += 8.0
        if data == REPORT:
            self.reports += 1
            self.due = self.reports == 2
        elif self.due:
            self.due = False
            self.updates += 1
        return ()

    def tasks(self, user: bytes) -> tuple[bytes, ...]:
        assert user == HELPER
        return (b"task",) if self.due else ()

    def notice(self) -> bytes:
        return b""

    def status(self) -> Status:
        return Status(
            round=0,
            samples=0,
            updates=self.updates,
            rejected=0,
            held=0,
            lag=0,
            stretch=0.0,
            levels_left=None,
            last_error=None,
            users=1,
            bits=0,
            bit_budget=1,
        )


def test_stopwatch_tells_server_from_user_and_round_from_update(monkeypatch):
    clock = Clockwork()
    monkeypatch.setattr("helba.experiments.stopwatch.time.perf_counter", clock)
    timed = TimedServer(Workshop(clock), codec=CODEC)
    share = TaskReply(user=HELPER, task=b"1" * 16, work="refresh", parts=(b"x",))
    for _ in range(2):
        with timed.recommending():
            clock.now += 1.0  # encrypts
            timed.receive(b"ask")
            clock.now += 2.0  # decrypts
        with timed.reporting():
            clock.now += 4.0  # encrypts
            timed.receive(REPORT)
            while timed.tasks(HELPER):
                clock.now += 0.5  # helps
                timed.receive(CODEC.encode(share))
    assert (timed.recommendation.server, timed.recommendation.user) == (16.0, 6.0)
    assert (timed.report.server, timed.report.user) == (8.0, 8.0)
    assert (timed.update.server, timed.update.user) == (16.0, 0.5)
    assert (timed.updates, timed.refreshes) == (1, 1)
    assert timed.seconds == clock.now


def test_bench_ratio_plays_both_profiles():
    report = bench_ratio(rounds=2, engine="simulate")
    fast, paper = report["fast_seconds_per_round"], report["paper_seconds_per_round"]
    assert report["ratio"] == pytest.approx(paper / fast)
    assert report["fast"]["parameters"] != report["paper"]["parameters"]
