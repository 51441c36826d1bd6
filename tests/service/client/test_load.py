"""Load in processes of its own: what it counts is what the server has."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helba.cli import main
from helba.errors import InvalidInput, RunFailed
from helba.service.client.figure import Tally, describe_latency, read_metrics
from helba.service.client.load import LoadRequest, Moment, run_load
from tests.reference.protocol.parties import TOY, Table
from tests.service.client.fake import QUICK, Fake, serving


@pytest.fixture
def fake() -> Iterator[Fake]:
    # A load plays for some seconds: a horizon that no machine reaches in them.
    with serving(Fake(replace(TOY, horizon=20_000))) as found:
        yield found


def request(fake: Fake, **options: Any) -> LoadRequest:
    given = {"users": 3, "seconds": 1.5, "patience": QUICK, "allow_insecure": True}
    return LoadRequest(authority=fake.url, **{**given, **options})


def test_figures_read_the_server_and_survive_nonsense() -> None:
    text = (
        '# HELP x\nhelba_cpu_seconds_total{process="front"} 1.5\n'
        'helba_cpu_seconds_total{process="evaluator-main"} 2\n'
        'helba_cpu_seconds_total{process="x"} .e\n'
        'helba_resident_bytes{process="front"} 1.048576e+06\nother{process="y"} 3\n'
    )
    found = read_metrics(text)
    assert found.total_cpu_seconds == 3.5
    assert found.resident_bytes == {"front": 2.0**20}
    assert describe_latency([])["p50"] is None
    assert describe_latency([0.1, 0.3])["p50"] == pytest.approx(200.0)
    tally = Tally(asked=2, acknowledged=1)
    tally.add(Tally(asked=1, acknowledged=1, ask_seconds=[0.5]))
    assert tally.describe(seconds=4.0)["rounds_per_second"] == 0.5


def test_load_refuses_what_it_cannot_run() -> None:
    for wrong in ({"users": 0}, {"seconds": 0.0}, {"processes": 0}, {"authority": "x"}):
        with pytest.raises(InvalidInput):
            LoadRequest(**{"authority": "http://127.0.0.1:1", **wrong})


@pytest.mark.slow
def test_load_acknowledges_what_the_server_has_learnt(fake: Fake, tmp_path: Path) -> None:
    moments: list[Moment] = []
    before = os.environ.get("OMP_NUM_THREADS")
    faults = ["busy", "lost", "cut", "broken"]
    fake.order("POST", "rewards", *faults)
    report = run_load(request(fake, alone_seconds=0.5, out=tmp_path / "out"), show=moments.append)
    assert os.environ.get("OMP_NUM_THREADS") == before
    assert moments[0].phase == "enrolling"
    assert moments[-1].phase == "together"
    together, alone = report["together"], report["alone"]
    done = together["acknowledged_rewards"] + alone["acknowledged_rewards"]
    assert together["acknowledged_rewards"] > 0
    assert report["speedup"] > 0.0
    assert not report["interrupted"]
    assert report["unsure_rewards"] == 0
    errors = together["errors"].get("Unavailable", 0) + alone["errors"].get("Unavailable", 0)
    assert errors == 1
    assert together["retries"] + alone["retries"] >= 3
    assert together["ask_ms"]["p95"] >= together["ask_ms"]["p50"] > 0.0
    assert together["client_cpu_seconds"] > 0.0
    assert report["memory"][0]["server_bytes"] == {"front": 1e6}
    assert len(fake.names) == 3

    lines = (tmp_path / "out" / "acknowledged.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert len({row["round"] for row in rows}) == len(rows) == done
    assert done == sum(each.reported for each in fake.server.rounds.values())
    assert json.loads((tmp_path / "out" / "report.json").read_text())["users"] == 3
    contexts = np.array([row["context"] for row in rows])
    table = Table(fake.authority, server=fake.server, user=fake.authority.make_user())
    expected = fake.deployment.settings.ridge * np.eye(2) + contexts.T @ contexts
    with fake.new_client("last") as client:
        client.help()
    assert fake.server.samples == done
    assert table.design() == pytest.approx(expected, abs=1e-3)
    rewards = np.array([row["reward"] for row in rows])
    assert table.response() == pytest.approx(contexts.T @ rewards, abs=1e-3)


@pytest.mark.slow
def test_load_of_users_who_are_not_let_in_is_one_error(fake: Fake) -> None:
    fake.invitation = "helba_i_" + 43 * "x"
    with pytest.raises(RunFailed, match="invitation"):
        run_load(request(fake, users=1))


@pytest.mark.slow
def test_load_that_is_interrupted_reports_what_was_done(fake: Fake) -> None:
    def interrupt(moment: Moment) -> None:
        if moment.tally.acknowledged:
            raise KeyboardInterrupt

    report = run_load(request(fake, users=1, seconds=60.0), show=interrupt)
    assert report["interrupted"]
    assert report["together"]["acknowledged_rewards"] > 0
    assert report["together"]["seconds"] < 30.0


@pytest.mark.slow
def test_load_command_prints_one_json_object(capsys: Any) -> None:
    with serving(Fake(secure=True)) as fake:
        command = ["load", "--authority", fake.url, "--users", "2", "--seconds", "2", "--json"]
        assert main([*command, "--processes", "1"]) == 0
        captured = capsys.readouterr()
        report = json.loads(captured.out)
        assert (report["users"], report["processes"], report["problem"]) == (2, 1, "toy")
        assert report["together"]["rounds"] > 0
        assert "together" in captured.err
        assert "helba_u_" not in captured.err + captured.out
