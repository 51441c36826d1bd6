from __future__ import annotations

import json
from pathlib import Path

import pytest

from helba.cli import main

RUN = ["run", "toy", "--horizon", "20"]
COMPARE = ["compare", "toy", "--horizon", "10", "--repetitions", "2", "--jobs", "1"]
SENSITIVITY = ["sensitivity", "toy", "--horizon", "5", "--repetitions", "1", "--jobs", "1"]
BENCH = ["bench", "plain", "--dim", "3", "--arms", "2"]


def reject_constant(name: str) -> None:
    raise AssertionError(f"{name} is not strict JSON")


def test_cli_json_is_exactly_one_object(capsys, tmp_path):
    commands = [
        RUN,
        [*RUN, "--out", str(tmp_path / "run")],
        [*COMPARE, "--algorithms", "oful, uniform", "--out", str(tmp_path / "compare")],
        SENSITIVITY,
        BENCH,
        ["paper", "depth", "--round", "50"],
    ]
    for command in commands:
        assert main([*command, "--json"]) == 0
        text = capsys.readouterr().out
        assert isinstance(json.loads(text, parse_constant=reject_constant), dict)


def test_cli_prints_tables_and_where_the_plot_is(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([*COMPARE, "--algorithms", "oful,uniform"]) == 0
    text = capsys.readouterr().out
    assert "oful" in text
    plot = Path("results") / "compare-toy-d2-k2-t10-s0" / "regret.png"
    assert str(plot) in text
    assert plot.exists()


@pytest.mark.parametrize(
    "command", [RUN, SENSITIVITY, BENCH, ["paper", "depth"], ["--version"], ["--help"], []]
)
def test_cli_prints_for_people_without_json(command, capsys):
    assert main(command) == 0
    captured = capsys.readouterr()
    assert captured.out.strip()
    assert not captured.err


def test_cli_horizon_is_130_on_the_toy_problem(capsys):
    assert main(["run", "toy", "--algorithm", "uniform", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["horizon"] == 130
    assert main(["run", "synthetic", "--algorithm", "uniform", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["horizon"] == 1000


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["run", "chess"], ["'chess'", "toy", "replay"]),
        (["run"], ["PROBLEM"]),
        (["run", "toy", "--horizon", "many"], ["--horizon", "'many'", "whole number"]),
        (["run", "toy", "--horizon", "0"], ["horizon", "0", "at least 1"]),
        (["run", "toy", "--dim", "3"], ["dim", "3", "2"]),
        (["run", "toy", "--engine", "tfhe"], ["'tfhe'", "plain, ckks, simulate"]),
        (["run", "toy", "--engine", "ckks", "--algorithm", "oful"], ["'oful'", "if encrypted"]),
        (["run", "toy", "--security", "100"], ["security", "100", "128, 192, 256"]),
        (["run", "toy", "--refresh", "never"], ["'never'", "client, bootstrap, none"]),
        (["run", "toy", "--beside", "oful,x"], ["beside", "'x'", "rsoful"]),
        (["run", "toy", "--algorithm", "x"], ["'x'", "helba-paper"]),
        (["run", "toy", "--bonus", "x"], ["'x'", "quadratic", "sqrt"]),
        (["run", "toy", "--seed", "-4"], ["seed", "-4"]),
        (["run", "toy", "--engine", "plain", "--opener", "users"], ["--opener", "engine plain"]),
        (["run", "toy", "--profile", "paper", "--opener", "users"], ["--opener", "profile paper"]),
        (["run", "toy", "--colour"], ["--colour"]),
        (["compare", "toy", "--algorithms", "oful,x"], ["'x'", "rsoful"]),
        (["compare", "toy", "--algorithms", ""], ["algorithms", "at least one"]),
        (["compare", "toy", "--jobs", "0"], ["jobs", "0", "at least 1"]),
        (["compare", "toy", "--repetitions", "0"], ["repetitions", "0"]),
        (["sensitivity", "toy", "--repetitions", "-1"], ["repetitions", "-1"]),
        (["bench", "plain", "--arms", "1"], ["arms", "1", "at least 2"]),
        (["bench"], ["command"]),
        (["bench", "round", "--dim", "4"], ["arms", "go together"]),
        (["bench", "round", "--rounds", "0"], ["rounds", "0", "at least 1"]),
        (["bench", "update", "--updates", "0"], ["updates", "0", "at least 1"]),
        (["bench", "ratio", "--rounds", "131"], ["rounds", "131", "at most 130"]),
        (["bench", "round", "--opener", "x"], ["opener", "'x'", "users, authority"]),
        (["bench", "update", "--opener", "x"], ["opener", "'x'", "users, authority"]),
        (["bench", "throughput", "--seconds", "0"], ["seconds", "greater than 0"]),
        (["bench", "throughput", "--users", "0"], ["users", "0", "at least 1"]),
        (["bench", "throughput", "--opener", "authority"], ["--opener"]),
        (["fly"], ["fly"]),
        (["paper", "depth", "--round", "0"], ["round", "0"]),
    ],
)
def test_cli_usage_error_is_one_line_and_code_2(command, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(command) == 2
    captured = capsys.readouterr()
    assert not captured.out
    assert captured.err.count("\n") == 1
    for word in words:
        assert word in captured.err
    assert not list(tmp_path.iterdir())


def test_cli_failure_is_one_line_and_code_1(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    assert main([*RUN, "--out", str(tmp_path / "file" / "sub")]) == 1
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "cannot write to" in captured.err
