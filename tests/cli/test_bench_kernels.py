from __future__ import annotations

import json

import pytest

from helba.cli import main

PROMISED = {"seconds", "levels", "products", "rotations", "error", "overhead"}


@pytest.mark.ckks
def test_kernels_json_is_one_object_with_every_promised_key(capsys):
    code = main(["bench", "kernels", "--only", "estimate", "--repetitions", "1", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == 0
    assert set(report["kernels"]) == {"estimate d=8", "refined estimate d=8"}
    for found in report["kernels"].values():
        assert set(found) >= PROMISED
        assert 0 < found["error"] <= found["error_bound"]
        assert found["seconds"] > found["library_seconds"] > 0
    assert report["parameters"]["kernels"]["security"] == 128


@pytest.mark.ckks
def test_ring_kernels_stand_beside_the_slots(capsys):
    code = main(["bench", "kernels", "--only", "ring", "--repetitions", "1", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert code == 0
    assert {name.removeprefix("ring ") for name in report["kernels"]} == {
        "encrypt, 2 primes",
        "encrypt, 3 primes",
        "product, 2 primes",
        "product, 3 primes",
        "outer product",
        "open, server",
        "open, opener",
        "reopen, both",
    }
    for found in report["kernels"].values():
        assert 0 < found["error"] <= found["error_bound"]
        assert found["seconds"] > found["library_seconds"] > 0
    assert report["kernels"]["ring encrypt, 2 primes"]["bytes"] <= 0.22e6
    assert report["parameters"]["ring"] == {"ring_dim": 8192, "log2_qp": 214, "security": 128}


@pytest.mark.ckks
def test_ring_kernels_are_shown_to_people(capsys):
    assert main(["bench", "kernels", "--only", "ring open", "--repetitions", "1"]) == 0
    shown = capsys.readouterr().out
    assert "ring: N = 8192" in shown
    assert "ring open, server" in shown


def test_argmax_json_has_both_parties_for_each_number_of_arms(capsys):
    options = ["--arms", "2,5", "--lanes", "3", "--repetitions", "1", "--json"]
    assert main(["bench", "argmax", *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [row["arms"] for row in report["results"]] == [2, 5]
    for row in report["results"]:
        assert row["garbler_seconds"] > 0
        assert row["evaluator_seconds"] > 0
        assert row["bytes"] == row["bytes_to_garbler"] + row["bytes_to_evaluator"]
    assert main(["bench", "argmax", "--arms", "2", "--repetitions", "1"]) == 0
    assert "garbler_seconds" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--arms", "two"], "not a whole number"),
        (["--arms", ""], "expected one number or more"),
        (["--arms", ",", "--json"], "expected one number or more"),
        (["--arms", "0"], "arms must be at least 1"),
        (["--lanes", "0"], "lanes must be at least 1"),
        (["--bits", "70"], "bits must be at most 63"),
    ],
)
def test_argmax_refuses_in_one_line(options, words, capsys):
    assert main(["bench", "argmax", *options]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.ckks
def test_messages_stay_within_three_percent_of_entropy(capsys):
    assert main(["bench", "kernels", "--only", "messages", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [message["level"] for message in report["messages"]] == [0, 7, 14]
    assert all(0 < message["over_entropy"] < 0.03 for message in report["messages"])


@pytest.mark.ckks
def test_refresh_is_precise_and_shown_to_people(capsys):
    assert main(["bench", "kernels", "--only", "refresh"]) == 0
    shown = capsys.readouterr().out
    assert "refresh" in shown
    assert "overhead" in shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--only", "nothing like it"], "part of a kernel's name"),
        (["--repetitions", "0"], "at least 1"),
    ],
)
def test_kernels_refuse_in_one_line(options, words, capsys):
    assert main(["bench", "kernels", *options]) == 2
    assert words in capsys.readouterr().err
