"""Runs on the simulator: what is reported, what is certified, and what an interruption leaves."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from helba.errors import InvalidInput, MissingPackage, RunFailed
from helba.lab.play.encrypted import EncryptedPlay, make_play, plan_play
from helba.lab.play.single import SingleRequest, run_single
from helba.lab.rows import COLUMNS, read_column
from helba.lab.runner import policy_for, settings_for
from helba.problems import Problem, make_problem
from helba.reference.protocol import ReferenceBandit
from helba.reference.twin.ciphertext import CiphertextTwin

ONLY_ENCRYPTED = {
    *("keys", "bits_returned", "bit_budget"),
    *("refresh", "security", "rejected", "lag", "bytes_up", "bytes_down", "bytes_up_per_round"),
    *("bytes_down_per_round", "seconds_setup", "seconds_per_round_without_updates"),
    *("seconds_per_update", "peak_memory_bytes", "parameters", "overflows"),
}


def toy_request(**changes: object) -> SingleRequest:
    told = {"problem": "toy", "horizon": 25, "engine": "simulate", "profile": "ciphertext"}
    return SingleRequest(**{**told, **changes})


def open_toy(*, horizon: int, seed: int = 0) -> tuple[Problem, EncryptedPlay]:
    problem = make_problem("toy", seed=seed)
    settings = settings_for(problem, horizon=horizon)
    deployment = plan_play(settings, engine="simulate", security=128, refresh="client", keys="own")
    return problem, make_play(deployment)


def test_encrypted_run_reports_the_documented_fields(tmp_path):
    report = run_single(toy_request(), out=tmp_path / "out").as_json()
    assert set(report) >= ONLY_ENCRYPTED
    assert (report["engine"], report["refresh"], report["security"]) == ("simulate", "client", 128)
    assert report["keys"] == "own"
    assert 0 < report["bits_returned"] < report["bit_budget"]
    assert (report["profile"], report["bonus"]) == ("ciphertext", "quadratic")
    assert set(report["parameters"]) >= {"ring_dim", "log2_qp", "depth", "scale_bits", "digits"}
    assert report["bytes_up"] == pytest.approx(25 * report["bytes_up_per_round"])
    assert report["bytes_up"] > 0
    assert report["seconds"] == pytest.approx(
        25 * report["seconds_per_round_without_updates"]
        + report["updates"] * report["seconds_per_update"]
    )
    assert json.loads((tmp_path / "out" / "run.json").read_text())["agreement"] == 1.0


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"keys": "shared"},
        {"keys": "switched"},
        {"schedule": "public"},
        {"bonus": "sqrt"},
        {"profile": "paper", "horizon": 12},
        {"refresh": "bootstrap", "security": 192, "horizon": 12},
        {"problem": "synthetic", "dim": 4, "arms": 5, "horizon": 60},
        {"problem": "replay", "horizon": 20, "arms": 4},
    ],
)
def test_encrypted_run_agrees_with_its_twin_outside_of_certified_ties(changes):
    found = run_single(toy_request(**changes))
    assert found.outcome.decided == found.request.horizon
    assert found.outcome.disagreements_outside_ties == 0
    assert found.outcome.overflows == 0
    report = found.as_json()
    assert report["updates"] > 0
    assert report["rejected"] == 0
    # A certificate that calls every round a tie says nothing.
    assert found.outcome.ties < found.request.horizon / 2


def test_encrypted_run_writes_the_regret_of_what_it_played(tmp_path):
    found = run_single(toy_request(beside=("oful",)), out=tmp_path / "out")
    arms = read_column(found.rows, column="arm").astype(int)
    shown = list(make_problem("toy", seed=0).rounds(25))
    gaps = [r.means.max() - r.means[arm] for r, arm in zip(shown, arms, strict=True)]
    assert read_column(found.rows, column="regret") == pytest.approx(np.cumsum(gaps))
    assert set(found.beside) == {"oful"}
    assert found.plot.exists()


def test_encrypted_play_calls_a_gap_below_the_resolution_a_tie():
    problem, play = open_toy(horizon=40)
    twin = CiphertextTwin(play.settings, accuracy=play.deployment.accuracy)
    compared = 0
    for shown in problem.rounds(8):
        # Near the threshold an update test may say either, and then the terms differ from there on.
        if play.bandit.terms.residual != twin.terms.residual:
            break
        compared += 1
        arm = play.select(shown.contexts)
        twin.select(shown.contexts)
        # The encrypted comparison only adds to what the twin itself cannot tell.
        assert play.decision.tolerance > twin.decision.tolerance
        assert play.decision.gap == pytest.approx(twin.decision.gap, rel=1e-3)
        play.update(shown.contexts[arm], float(shown.rewards[arm]))
        twin.update(shown.contexts[arm], float(shown.rewards[arm]))
    assert compared >= 2
    x = np.array([0.3, 0.4])
    play.select(np.stack([x, x + 1e-9]))
    assert play.decision.tie
    play.select(np.stack([x, -5.0 * x]))
    assert not play.decision.tie


def test_encrypted_play_with_another_bandits_arm_disagrees_outside_ties(monkeypatch):
    chosen = ReferenceBandit._choose

    def choose_another(self: ReferenceBandit, contexts: np.ndarray) -> int:
        return 1 - chosen(self, contexts)

    monkeypatch.setattr(ReferenceBandit, "_choose", choose_another)
    found = run_single(toy_request())
    assert found.outcome.agreement == 0.0
    assert found.outcome.disagreements_outside_ties >= 20


SHARES_FIELDS = {
    *("opener", "security", "rejected", "tests", "resolution", "bytes_up", "bytes_down"),
    *("bytes_up_per_round", "bytes_down_per_round", "seconds_per_round_without_updates"),
    *("seconds_per_update", "server_seconds_per_recommendation", "peak_memory_bytes"),
    *("user_seconds_per_recommendation", "opener_seconds_per_recommendation", "parameters"),
}


@pytest.mark.parametrize("opener", ["users", "authority"])
def test_run_on_shares_agrees_with_its_twin_and_reports_the_documented_fields(opener):
    found = run_single(toy_request(profile=None, opener=opener, horizon=60))
    report = found.as_json()
    assert report["profile"] == "shares"
    assert set(report) >= SHARES_FIELDS
    assert set(report["parameters"]) >= {"ring_dim", "log2_qp", "primes", "share_bits"}
    assert report["agreement"] == 1.0
    assert report["disagreements_outside_ties"] == 0
    assert report["ties"] < 30
    assert report["resolution"] <= 1e-4
    assert report["regret"] <= report["regret_bound"]
    assert 20 <= report["updates"] <= report["update_bound"]


def test_options_of_the_reference_take_its_profile_and_are_refused_on_shares():
    assert toy_request(profile=None, refresh="client").options["profile"] == "ciphertext"
    with pytest.raises(InvalidInput, match="--refresh does not apply to the profile shares"):
        toy_request(profile="shares", refresh="client")
    with pytest.raises(InvalidInput, match="--opener does not apply to the profile paper"):
        toy_request(profile="paper", opener="users")


def test_encrypted_run_says_what_it_is(capsys):
    run_single(toy_request(horizon=3))
    said = capsys.readouterr().err
    assert "nothing is encrypted" in said
    assert "planning" in said
    assert "evaluation keys" in said


def test_encrypted_run_that_is_interrupted_keeps_its_rows(tmp_path, monkeypatch):
    learned = EncryptedPlay._learn

    def learn_six_times(self: EncryptedPlay, context: np.ndarray, reward: float) -> None:
        if self.round == 7:
            raise KeyboardInterrupt
        learned(self, context, reward)

    monkeypatch.setattr(EncryptedPlay, "_learn", learn_six_times)
    out = tmp_path / "out"
    with pytest.raises(RunFailed, match=r"after 6 of 25 rounds; their rows are in .*rows\.csv"):
        run_single(toy_request(), out=out)
    assert read_column(out / "rows.csv", column="round").tolist() == [1, 2, 3, 4, 5, 6]
    assert (out / "rows.csv").read_text().splitlines()[0] == ",".join(COLUMNS)
    monkeypatch.undo()
    again = run_single(toy_request(), out=out)
    assert len(read_column(again.rows, column="round")) == 25


def test_encrypted_run_without_openfhe_names_the_simulator(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openfhe", None)
    for name in [name for name in sys.modules if name.startswith("helba.reference.engine.ckks")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(MissingPackage, match=r"OpenFHE .* the simulator works without it"):
        run_single(toy_request(engine="ckks"), out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_encrypted_run_that_no_plan_allows_makes_no_folder(tmp_path):
    request = toy_request(profile="shares", problem="synthetic", dim=65, arms=2, horizon=100)
    with pytest.raises((InvalidInput, RunFailed)):
        run_single(request, out=tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_encrypted_settings_are_those_of_the_algorithms_name():
    problem = make_problem("toy", seed=0)
    named = policy_for("helba-paper", settings=settings_for(problem, horizon=9), problem_seed=0)
    assert (named.settings.profile, named.settings.bonus) == ("paper", "sqrt")
