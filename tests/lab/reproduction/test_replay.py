import pytest

from helba.lab.reproduction.part import replay
from helba.lab.reproduction.scope import Scope
from tests.lab.reproduction.section_work import (
    TINY,
    assert_tables_are_on_disk,
    do_units,
)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replay")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay, "DIM", 4)
        patch.setattr(replay, "HORIZON", 30)
        patch.setattr(replay, "QUICK_ROUNDS", 12)
        results = do_units(replay)
        section = replay.assemble(results, scope=TINY, folder=folder)
    return results, section, folder


def test_full_replay_plays_two_hundred_rounds_of_the_whole_problem():
    unit = replay.units(Scope())[0]
    assert unit.arguments["rounds"] == unit.arguments["horizon"] == 200
    assert (unit.arguments["dim"], unit.arguments["arms"]) == (16, 10)
    assert unit.kind == "ckks"


def test_replay_table_and_curves_are_on_disk(made):
    _, section, folder = made
    assert_tables_are_on_disk(section, folder=folder)


def test_replay_compares_all_algorithms_on_the_same_rounds(made):
    results, section, _ = made
    rows = section.tables[0].rows
    assert [row[0] for row in rows][:2] == ["HELBA, simulator", "HELBA, in the clear"]
    assert len(rows) == 5
    assert rows[0][1] == results["replay-encrypted"]["regret"]
    first = results["replay-clear-uniform"]["rows"]
    assert rows[-1][1] == next(row["first_regret"] for row in first if row["round"] == 12)


def test_replay_on_ciphertexts_makes_the_mistakes_of_its_twin(made):
    results, section, _ = made
    assert results["replay-encrypted"]["disagreements_outside_ties"] == 0
    assert section.tables[0].rows[0][1] == section.tables[0].rows[1][1]


def test_simulated_replay_says_that_nothing_was_encrypted(made):
    _, section, _ = made
    assert "nothing was encrypted" in " ".join(section.paragraphs)


@pytest.mark.ckks
@pytest.mark.slow
def test_replay_on_ckks_plays_as_in_the_clear(monkeypatch, tmp_path):
    monkeypatch.setattr(replay, "DIM", 2)
    monkeypatch.setattr(replay, "ARMS", 2)
    monkeypatch.setattr(replay, "HORIZON", 20)
    monkeypatch.setattr(replay, "QUICK_ROUNDS", 3)
    scope = Scope(quick=True, repetitions=2, horizon=12, encrypted_repetitions=1)
    section = replay.assemble(do_units(replay, scope=scope), scope=scope, folder=tmp_path)
    assert "nothing was encrypted" not in " ".join(section.paragraphs)
    rows = section.tables[0].rows
    assert rows[0][0] == "HELBA, CKKS"
    assert rows[0][1] == rows[1][1]
    assert section.runs[0]["parameters"]["security"] == 128
