from __future__ import annotations

import pytest

from helba.lab.bench import encrypted as bench_encrypted
from helba.lab.bench.encrypted import bench_keys, bench_ratio
from helba.lab.bench.shares import bench_round, bench_throughput, bench_update
from helba.lab.play.stopwatch import TimedServer
from helba.reference.protocol.serving.server import Status
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Report, TaskReply
from tests.reference.protocol.parties import TOY, deployment_of

CODEC, HELPER = Codec(deployment_of(TOY, scheme="simulate")), b"2" * 16
REPORT = CODEC.encode(Report(user=HELPER, round=b"3" * 16))


@pytest.mark.parametrize("opener", ["users", "authority"])
def test_bench_round_adds_the_parties_seconds_up(opener):
    report = bench_round([(2, 2), (3, 4)], rounds=2, engine="simulate", opener=opener)
    assert [(r["dim"], r["arms"]) for r in report["results"]] == [(2, 2), (3, 4)]
    for result in report["results"]:
        parts = [result[f"{party}_seconds"] for party in ("server", "user", "opener")]
        assert result["seconds"] == pytest.approx(sum(parts))
        assert result["server_seconds"] > 0
        assert result["bytes_up"] > 0
        assert set(result["parameters"]) >= {"ring_dim", "log2_qp", "share_bits"}


def test_bench_update_counts_both_parties():
    report = bench_update([(3, 4)], updates=2, engine="simulate")
    (result,) = report["results"]
    assert (result["updates"], result["rejected"]) == (2, 0)
    assert result["seconds"] == pytest.approx(result["server_seconds"] + result["opener_seconds"])


@pytest.mark.ckks
@pytest.mark.slow
def test_bench_throughput_counts_answers_of_all_processes():
    report = bench_throughput(dim=2, arms=2, users=3, seconds=0.2, processes=1)
    assert report["recommendations_per_second"] > report["rounds_per_second"] > 0
    assert (report["users_at_once"], report["processes"]) == (3, 1)


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
    monkeypatch.setattr("helba.lab.play.stopwatch.time.perf_counter", clock)
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


@pytest.fixture
def opened(monkeypatch):
    """The deployments that a benchmark opens, in their order."""
    made, make = [], bench_encrypted.make_play

    def watched(deployment):
        made.append(deployment)
        return make(deployment)

    monkeypatch.setattr(bench_encrypted, "make_play", watched)
    return made


def test_bench_ratio_plays_both_profiles(opened):
    report = bench_ratio(rounds=2, engine="simulate")
    shares, paper = report["shares_seconds_per_round"], report["paper_seconds_per_round"]
    assert report["ratio"] == pytest.approx(paper / shares)
    (deployment,) = opened
    assert (deployment.settings.profile, deployment.settings.bonus) == ("paper", "sqrt")
    assert report["paper"]["parameters"]["depth"] == deployment.parameters.depth
    assert report["shares"]["parameters"]["ring_dim"] == 8192


def test_bench_keys_compares_own_keys_with_a_shared_one(opened):
    report = bench_keys(rounds=2, engine="simulate")
    assert [each.keys for each in opened] == ["own", "shared"]
    assert report["ratio"] == pytest.approx(
        report["own_seconds_per_round"] / report["shared_seconds_per_round"]
    )
    assert set(report["parameters"]) == {"own", "shared"}
