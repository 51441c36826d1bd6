from __future__ import annotations

import json

import pytest

from helba.errors import InvalidInput, RunFailed
from helba.lab.bench.plain import bench_plain
from helba.lab.plan.depth import tabulate_depth
from helba.lab.play import single
from helba.lab.play.single import SingleRequest, run_single
from helba.lab.rows import read_column

FIELDS = (
    *("problem", "algorithm", "engine", "profile", "bonus", "refresh", "security", "horizon"),
    *("seed", "regret", "updates", "seconds", "seconds_per_round", "agreement", "bytes_up"),
    *("bytes_down", "parameters", "ties", "clipped", "regret_bound", "update_bound"),
)


def test_single_run_reports_the_documented_fields():
    report = run_single(SingleRequest(problem="toy", horizon=40)).as_json()
    assert set(report) >= set(FIELDS)
    assert (report["profile"], report["bonus"]) == ("shares", "quadratic")
    assert report["engine"] == "plain"
    assert (report["dim"], report["arms"]) == (2, 2)
    assert 0.9 <= report["agreement"] <= 1.0
    assert report["parameters"] is None


def test_single_run_has_a_regret_bound_only_where_rewards_are_linear():
    bounds = {
        problem: run_single(SingleRequest(problem=problem, horizon=20, algorithm="oful"))
        for problem in ("toy", "replay")
    }
    assert bounds["toy"].outcome.regret_bound > bounds["toy"].outcome.regret
    assert bounds["replay"].outcome.regret_bound is None


def test_single_run_without_counterpart_has_no_agreement():
    report = run_single(SingleRequest(problem="toy", horizon=20, algorithm="oful")).as_json()
    assert report["agreement"] is None
    assert report["bonus"] is None


def test_single_run_of_the_paper_takes_the_papers_bonus():
    named = SingleRequest(problem="toy", horizon=10, algorithm="helba-paper")
    spelled = SingleRequest(problem="toy", horizon=10, profile="paper")
    for request in (named, spelled):
        report = run_single(request).as_json()
        assert (report["profile"], report["bonus"]) == ("paper", "sqrt")


def test_single_run_writes_rows_and_plot(tmp_path):
    request = SingleRequest(problem="toy", horizon=20, algorithm="rsoful", seed=2)
    found = run_single(request, out=tmp_path / "out")
    assert read_column(found.rows, column="regret")[-1] == found.outcome.regret
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "rows.csv",
        "run.json",
        "regret.png",
        "regret.svg",
    }
    assert json.loads((tmp_path / "out" / "run.json").read_text())["seed"] == 2
    again = run_single(request, out=tmp_path / "out")
    assert again.outcome.regret == found.outcome.regret


def test_single_run_on_the_simulator_draws_all_its_luck_from_the_seed(tmp_path, monkeypatch):
    plays = []

    class WatchedPlay(single.SharesPlay):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            plays.append(self)

    monkeypatch.setattr(single, "SharesPlay", WatchedPlay)

    def play(seed):
        request = SingleRequest(problem="toy", horizon=15, engine="simulate", seed=seed)
        rows = run_single(request, out=tmp_path).rows.read_text()
        bandit = plays.pop().bandit
        places = bandit.deployment.plan.inner(1).model_places.places
        reader, learned = bandit.parties.authority.make_opener(), bandit.server.state.learned
        return rows, list(reader.decrypt(learned.model, places=places))

    assert play(3) == play(3)
    assert play(3) != play(4)


def test_single_run_leaves_other_peoples_folders_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("chapter 1")
    for content in (None, '{"a": 1}', "no json", "[1]"):
        if content is not None:
            (tmp_path / "run.json").write_text(content)
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(InvalidInput, match="or one that helba run wrote"):
            run_single(SingleRequest(problem="toy", horizon=20), out=tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_single_run_that_is_refused_makes_no_folder(tmp_path):
    for bad in ({"problem": "nope"}, {"problem": "toy", "dim": 5}):
        with pytest.raises(InvalidInput):
            run_single(SingleRequest(horizon=20, **bad), out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_single_run_notices_an_unwritable_folder_before_it_plays(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr("helba.lab.play.single.run_repetition", None)
    with pytest.raises(RunFailed, match="cannot write to"):
        run_single(SingleRequest(problem="toy", horizon=20), out=tmp_path / "file" / "sub")


def test_single_run_tunes_oful_when_asked():
    found = run_single(SingleRequest(problem="toy", horizon=10, algorithm="oful-tuned"))
    assert found.radius_scale <= 1.0


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine": "tfhe"}, "engine must be one of plain, ckks, simulate, got 'tfhe'"),
        ({"engine": "simulate", "algorithm": "ldp"}, "helba, helba-sqrt or helba-paper if encr"),
        ({"refresh": "client", "algorithm": "oful"}, "algorithm must be .* if encrypted"),
        ({"security": 129}, "security must be one of 128, 192, 256, got 129"),
        ({"algorithm": "sarsa"}, "algorithm must be one of .*, got 'sarsa'"),
        ({"algorithm": "helba-sqrt", "bonus": "quadratic"}, "bonus must be sqrt with helba-sqrt"),
        ({"horizon": 0}, "horizon must be at least 1, got 0"),
        ({"schedule": "daily"}, "schedule must be one of trace, public, got 'daily'"),
        ({"profile": "slow"}, "profile must be one of shares, ciphertext, paper, got 'slow'"),
        ({"algorithm": "oful", "bonus": "sqrt"}, "--bonus does not apply to the algorithm oful"),
        ({"engine": "plain", "opener": "users"}, "--opener does not apply to the engine plain"),
        ({"engine": "plain", "security": 192}, "--security does not apply to the engine plain"),
        ({"profile": "paper", "opener": "users"}, "--opener does not apply to the profile paper"),
        ({"keys": "own", "opener": "users"}, "--opener does not apply to the profile ciphertext"),
        ({"profile": "shares", "keys": "own"}, "--keys does not apply to the profile shares"),
    ],
)
def test_single_request_names_the_value_and_what_is_allowed(changes, words):
    with pytest.raises(InvalidInput, match=words):
        run_single(SingleRequest(**{"problem": "toy", "horizon": 10, **changes}))


def test_single_request_for_refresh_or_security_means_ciphertexts():
    assert SingleRequest(problem="toy", horizon=9).engine == "plain"
    assert SingleRequest(problem="toy", horizon=9, refresh="client").engine == "ckks"
    assert SingleRequest(problem="toy", horizon=9, security=192).engine == "ckks"


@pytest.mark.parametrize(
    ("options", "notes"),
    [
        ({"bonus": "sqrt"}, ["profile ciphertext, because of --bonus"]),
        ({"bonus": "sqrt", "profile": "ciphertext"}, []),
        ({"algorithm": "helba-sqrt"}, []),
        ({"profile": "paper"}, []),
    ],
)
def test_single_run_says_which_option_took_another_profile(options, notes, capsys):
    run_single(SingleRequest(problem="toy", horizon=9, **options))
    assert capsys.readouterr().err.splitlines() == notes


def test_single_run_plays_others_on_the_same_draw():
    request = SingleRequest(problem="toy", horizon=30, beside=("oful", "helba", "oful"))
    found = run_single(request)
    alone = run_single(SingleRequest(problem="toy", horizon=30, algorithm="oful"))
    assert set(found.beside) == {"oful"}
    assert found.beside["oful"].regret == alone.outcome.regret


def test_bench_takes_the_median_of_its_blocks():
    found = bench_plain(dim=4, arms=3, rounds=20, blocks=3)
    assert 0 < found.microseconds_min <= found.microseconds_per_round <= found.microseconds_max
    assert (found.dim, found.arms) == (4, 3)


def test_depth_table_has_a_row_for_each_step():
    rows = tabulate_depth(130)
    assert len(rows) > 3
    assert all(set(row) == {"step", "iterations", "levels", "note"} for row in rows)
