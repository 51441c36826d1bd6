import pytest

from helba.lab.reproduction.part import replay
from helba.lab.reproduction.scope import Scope
from tests.lab.reproduction.pretence import pretend
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


@pytest.fixture
def encrypted(monkeypatch):
    """A scope of few rounds on ciphertexts."""
    monkeypatch.setattr(replay, "DIM", 2)
    monkeypatch.setattr(replay, "ARMS", 2)
    monkeypatch.setattr(replay, "HORIZON", 20)
    monkeypatch.setattr(replay, "QUICK_ROUNDS", 3)
    return Scope(quick=True, repetitions=2, horizon=12, encrypted_repetitions=1)


def require_encrypted(section):
    assert "nothing was encrypted" not in " ".join(section.paragraphs)
    rows = section.tables[0].rows
    assert rows[0][0] == "HELBA, CKKS"
    assert rows[0][1] == rows[1][1]
    assert section.runs[0]["parameters"]["security"] == 128


def test_replay_that_was_encrypted_says_so(encrypted, tmp_path):
    results = pretend(replay.units(encrypted))
    require_encrypted(replay.assemble(results, scope=encrypted, folder=tmp_path))


@pytest.mark.ckks
@pytest.mark.soak
def test_replay_on_ckks_plays_as_in_the_clear(encrypted, tmp_path):
    results = do_units(replay, scope=encrypted)
    require_encrypted(replay.assemble(results, scope=encrypted, folder=tmp_path))
