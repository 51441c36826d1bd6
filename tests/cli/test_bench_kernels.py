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
