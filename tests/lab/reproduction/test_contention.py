from __future__ import annotations

from pathlib import Path

import pytest

from helba.lab.reproduction.contention import say_disturbed, waiting_share


def write(folder: Path, *threads: str) -> Path:
    for number, text in enumerate(threads):
        (folder / str(number)).mkdir()
        (folder / str(number) / "schedstat").write_text(text)
    return folder


def test_waiting_share_is_that_of_all_threads(tmp_path):
    assert waiting_share(write(tmp_path, "60 30 5\n", "10 0 1\n")) == pytest.approx(0.3)


def test_waiting_share_is_unknown_where_nobody_counts(tmp_path):
    assert waiting_share(tmp_path / "nowhere") is None
    assert waiting_share(write(tmp_path, "odd\n")) is None


def test_waiting_share_of_a_process_that_never_ran_is_unknown(tmp_path):
    assert waiting_share(write(tmp_path, "0 0 0\n")) is None


def test_runs_that_waited_are_named_with_their_share():
    runs = {"first": {"waiting_share": 0.01}, "two": {"waiting_share": 0.23}, "three": {}}
    (text,) = say_disturbed(runs)
    assert "two (23%)" in text
    assert "first" not in text
    assert "three" not in text
    assert say_disturbed({"first": runs["first"], "three": runs["three"]}) == []
