"""`helba run` on the simulator and, once, on real ciphertexts."""

from __future__ import annotations

import json
from functools import partial

import pytest

from helba.cli import main

SIMULATED = ["run", "toy", "--horizon", "12", "--engine", "simulate"]


def test_cli_simulated_run_is_one_json_object_and_says_what_it_is(capsys):
    assert main([*SIMULATED, "--schedule", "public", "--json"]) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert report["engine"] == "simulate"
    assert report["disagreements_outside_ties"] == 0
    assert set(report["beside"]) == {"helba"}
    assert "nothing is encrypted" in captured.err


def test_cli_names_the_option_that_took_another_profile(capsys):
    assert main([*SIMULATED, "--keys", "own", "--json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["profile"] == "ciphertext"
    assert captured.err.splitlines()[0] == "profile ciphertext, because of --keys"


def test_cli_simulated_run_shows_people_the_others_and_the_plot(capsys, tmp_path):
    out = str(tmp_path / "out")
    assert main([*SIMULATED, "--beside", "oful, uniform", "--out", out]) == 0
    shown = capsys.readouterr().out
    for words in ("helba, simulate", "oful, in the clear", "uniform, in the clear", "regret.png"):
        assert words in shown


def test_cli_benches_show_people_a_column_for_each_size(capsys, monkeypatch):
    from helba.lab.bench import shares as shares_bench

    monkeypatch.setattr(
        shares_bench, "bench_round", partial(shares_bench.bench_round, engine="simulate")
    )
    monkeypatch.setattr(shares_bench, "ROUND_SIZES", ((2, 2), (2, 3)))
    assert main(["bench", "round", "--rounds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert next(line for line in lines if "arms" in line).replace("│", " ").split()[1:] == [
        "2",
        "3",
    ]
    assert any("parameters ring_dim" in line for line in lines)


@pytest.mark.ckks
@pytest.mark.slow
def test_cli_plays_on_ciphertexts(capsys, tmp_path):
    out = tmp_path / "out"
    command = [
        "run",
        "toy",
        "--profile",
        "ciphertext",
        "--horizon",
        "2",
        "--security",
        "128",
        "--out",
        str(out),
        "--json",
    ]
    assert main(command) == 0
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert (report["engine"], report["security"]) == ("ckks", 128)
    assert report["disagreements_outside_ties"] == 0
    assert report["bytes_up"] > 10**6
    assert report["updates"] > 0
    assert "making" in captured.err
    assert len((out / "rows.csv").read_text().splitlines()) == 3
