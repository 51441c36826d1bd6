from __future__ import annotations

import dataclasses
import json

import pytest

from helba.errors import InvalidInput, RunFailed
from helba.lab.reproduction import result as module
from helba.lab.reproduction.result import SavedResults
from tests.lab.reproduction.work import unit

ONE, TWO = unit("one", number=1), unit("two", number=2)


@pytest.fixture
def folder(tmp_path):
    """A folder that keeps one of two units."""
    with SavedResults(tmp_path / "out", units=[ONE, TWO]) as kept:
        kept.record(ONE, result={"number": 2, "share": float("nan")}, seconds=1.5)
    return tmp_path / "out"


def test_finished_unit_is_kept_and_found_again(folder):
    with SavedResults(folder, units=[ONE, TWO]) as kept:
        assert kept.results == {"one": {"number": 2, "share": None}}
        assert kept.seconds == {"one": 1.5}
        assert kept.damaged == 0


@pytest.mark.parametrize("share", [0.0, 0.5, 0.99])
def test_half_written_unit_counts_as_not_finished(folder, share):
    with SavedResults(folder, units=[ONE]) as kept:
        path = kept.path_of(ONE)
    text = path.read_text()
    path.write_text(text[: int(share * len(text))])
    with SavedResults(folder, units=[ONE, TWO]) as kept:
        assert kept.results == {}
        assert kept.damaged == 1


def test_changed_value_in_a_unit_is_noticed(folder):
    (path,) = folder.glob("units/*.json")
    path.write_text(path.read_text().replace('"number": 2', '"number": 3'))
    with SavedResults(folder, units=[ONE]) as kept:
        assert kept.results == {}
        assert kept.damaged == 1


def test_units_of_other_arguments_lie_beside_each_other(folder):
    other = dataclasses.replace(ONE, arguments={"number": 7})
    with SavedResults(folder, units=[other]) as kept:
        assert kept.results == {}
        kept.record(other, result={"number": 14}, seconds=1.0)
    with SavedResults(folder, units=[ONE]) as kept:
        assert kept.results["one"]["number"] == 2
    assert len(list(folder.glob("units/*.json"))) == 2


def test_units_of_other_code_are_refused_unless_overwritten(folder, monkeypatch):
    monkeypatch.setattr(module, "_code_fingerprint", lambda: "another version")
    with pytest.raises(InvalidInput, match=r"--overwrite: .* 1 of 2 units that another version"):
        SavedResults(folder, units=[ONE, TWO])
    with SavedResults(folder, units=[ONE, TWO], overwrite=True) as kept:
        assert kept.results == {}


def test_folder_of_somebody_else_is_refused_and_stays_as_it_is(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(InvalidInput, match="a new or empty folder"):
        SavedResults(tmp_path, units=[ONE])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_folder_whose_manifest_is_not_ours_is_refused(tmp_path):
    (tmp_path / "paper.json").write_text(json.dumps({"title": "a paper"}))
    with pytest.raises(InvalidInput, match=r"paper\.json was written by helba paper"):
        SavedResults(tmp_path, units=[ONE])


def test_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(InvalidInput, match="this is a file"):
        SavedResults(tmp_path / "out", units=[ONE])


def test_folder_of_a_process_killed_at_its_start_is_ours(tmp_path):
    (tmp_path / ".lock").write_text("")
    (tmp_path / ".paper.json.123.part").write_text("{")
    with SavedResults(tmp_path, units=[ONE]) as kept:
        assert kept.results == {}


def test_part_of_a_unit_that_a_killed_process_left_is_removed(folder):
    part = folder / "units" / ".two.json.123.part"
    part.write_text("{")
    with SavedResults(folder, units=[ONE, TWO]) as kept:
        assert set(kept.results) == {"one"}
    assert not part.exists()


def test_folder_is_for_one_process_at_a_time(folder):
    with (
        SavedResults(folder, units=[ONE]),
        pytest.raises(RunFailed, match="in use by another process"),
    ):
        SavedResults(folder, units=[ONE])
    with SavedResults(folder, units=[ONE]) as kept:
        assert "one" in kept.results
