import pytest

from helba.lab.reproduction.part import comparison, privacy
from helba.lab.reproduction.scope import Scope
from tests.lab.reproduction.section_work import (
    TINY,
    assert_tables_are_on_disk,
    do_units,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comparison")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(privacy, "LONG", ((30, 2), (30, 2)))
        results = do_units(comparison)
        section = comparison.assemble(results, scope=TINY, folder=folder)
    return results, section, folder


def column(table, name):
    return [row[table.columns.index(name)] for row in table.rows]


def test_comparison_has_every_algorithm_with_regret_cost_security_and_trust(made):
    _, section, _ = made
    table = section.tables[0]
    names = " ".join(column(table, "algorithm"))
    for wanted in ("profile ciphertext", "square-root", "paper profile", "theoretical", "tuned"):
        assert wanted in names
    for epsilon in (0.5, 1, 2, 4, 8):
        assert f"LDP, epsilon = {epsilon:g}" in names
    for name in ("regret", "± se", "seconds a round", "bytes up a round", "bytes down a round"):
        assert all(value is not None for value in column(table, name))
    assert all(column(table, "who must be trusted with what"))


def test_comparison_tables_and_curves_are_on_disk(made):
    _, section, folder = made
    assert_tables_are_on_disk(section, folder=folder)


def test_simulated_comparison_claims_no_security(made):
    _, section, _ = made
    security = column(section.tables[0], "security")
    assert [text for text in security if "nothing was encrypted" in text] == security[:3]
    assert not any("bits" in text and "no bits" not in text for text in security)
    assert "nothing was encrypted" in " ".join(section.paragraphs)


def test_comparison_takes_regret_from_all_draws_and_not_from_the_timed_one(made):
    results, section, _ = made
    table = section.tables[0]
    assert column(table, "regret")[0] == results["comparison-clear-helba"]["regret"]
    assert len(results["comparison-clear-helba"]["regrets"]) == TINY.repetitions


def test_cost_of_a_run_that_stops_early_says_so(made):
    _, section, _ = made
    how = column(section.tables[0], "how the cost was found")
    assert "4 rounds measured" in how[0]
    assert "3 rounds measured" in how[1]
    assert "measured over all 12 rounds" in how[2]


def test_encrypted_runs_agree_with_their_twins(made):
    _, section, _ = made
    assert column(section.tables[1], "disagreements outside ties") == [0, 0, 0]


def test_bytes_in_the_clear_are_eight_for_each_number():
    assert comparison.plain_bytes(dim=2, arms=3) == (8 * (2 * 3 + 1), 8)
    assert privacy.private_bytes(dim=3) == (8 * (6 + 3), 8 * (6 + 3 + 1))


def test_encrypted_units_have_the_machine_to_themselves_only_on_ckks():
    kinds = {
        engine: {u.kind for u in comparison.units(Scope(engine=engine))[:3]}
        for engine in ("ckks", "simulate")
    }
    assert kinds == {"ckks": {"ckks"}, "simulate": {"light"}}
