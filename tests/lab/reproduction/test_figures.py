"""Figure 1 and 2, Table 1 and the bounds from small runs, in the simulator throughout."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest

from helba.lab.reproduction.estimate import Estimate
from helba.lab.reproduction.part import bounds, figure1, figure2, table1
from helba.lab.reproduction.part.bounds import growth_updates, split_updates
from helba.lab.reproduction.scope import Scope
from helba.lab.runner import settings_for
from helba.problems import make_problem
from tests.lab.reproduction.pretence import pretend

SCOPE = Scope(quick=True, repetitions=3, horizon=12, encrypted_repetitions=1)
SECTIONS = {"figure1": figure1, "figure2": figure2, "table1": table1, "bounds": bounds}


@pytest.fixture(scope="module")
def results():
    return pretend(unit for module in SECTIONS.values() for unit in module.units(SCOPE))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("sections")


@pytest.fixture(scope="module")
def sections(results, folder):
    return {
        name: module.assemble(results, scope=SCOPE, folder=folder / name)
        for name, module in SECTIONS.items()
    }


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def table_of(section, name: str) -> list[dict[str, object]]:
    (table,) = (table for table in section.tables if table.name == name)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def test_every_section_writes_its_tables_and_the_rows_of_its_figures(sections, folder):
    for name, section in sections.items():
        assert section.name == name
        for table in section.tables:
            written = rows_of(folder / name / f"{table.name}.csv")
            assert len(written) == len(table.rows) > 0
            assert tuple(written[0]) == tuple(table.columns)
        for figure in section.figures:
            assert figure.png.read_bytes().startswith(b"\x89PNG")
            assert "<svg" in figure.svg.read_text(encoding="utf-8")
            assert rows_of(figure.rows)


def test_figure_1_tells_ciphertexts_and_simulator_apart_in_legend_and_rows(sections):
    (figure,) = sections["figure1"].figures
    rows = rows_of(figure.rows)
    played = Counter((row["algorithm"], row["engine"], row["repetition"]) for row in rows)
    assert set(played.values()) == {SCOPE.horizon}
    assert {(e, r) for name, e, r in played if name == "helba" and e != "plain"} == {
        ("ckks", "0"),
        ("simulate", "1"),
        ("simulate", "2"),
    }
    assert {e for name, e, _ in played if name == "oful"} == {"plain"}
    listed = {
        (row["algorithm"], row["engine"]): row["repetitions"]
        for row in table_of(sections["figure1"], "regret")
    }
    assert listed["HELBA", "ckks"] == 1
    assert listed["HELBA", "simulate"] == 2
    assert listed["HELBA, plaintext twin", "plain"] == 3
    assert listed["OFUL, tuned radius", "plain"] == 3


def test_figure_1_has_a_legend_entry_for_each_way_of_playing(results, tmp_path, monkeypatch):
    labels = []
    real = figure1.draw_lines

    def draw(lines, **options):
        labels.extend(line.label for line in lines)
        return real(lines, **options)

    monkeypatch.setattr(figure1, "draw_lines", draw)
    figure1.assemble(results, scope=SCOPE, folder=tmp_path)
    assert "HELBA, CKKS (1 of 3)" in labels
    assert "HELBA, simulator (2 of 3)" in labels
    assert "HELBA, sqrt bonus, simulator (3 of 3)" in labels
    assert "HELBA, plain twin" in labels
    assert len(set(labels)) == len(labels)


def test_figure_1_pairs_every_repetition_with_its_twin(sections, results):
    rows = table_of(sections["figure1"], "paired")
    counts = [(row["algorithm"], row["engine"], row["repetitions"]) for row in rows]
    assert counts == [
        ("HELBA", "ckks", 1),
        ("HELBA", "simulate", 2),
        ("HELBA, sqrt bonus", "simulate", 3),
    ]
    # Only a certified tie may go another way than in the clear.
    runs = [found for found in results.values() if found.get("algorithm") == "helba"]
    tied = sum(found["ties"] > 0 for found in runs if found["engine"] != "plain")
    assert sum(row["repetitions_that_differ"] for row in rows[:2]) <= tied
    assert all(found["disagreements_outside_ties"] == 0 for found in runs if "ties" in found)


def test_figure_1_says_what_a_quick_reproduction_spares(sections):
    (sample,) = table_of(sections["figure1"], "sqrt-sample")
    assert (sample["engine"], sample["rounds"]) == ("ckks", SCOPE.sqrt_sample_rounds)
    assert any("1 of 3 repetitions on CKKS" in text for text in sections["figure1"].paragraphs)


def test_simulated_reproduction_says_that_nothing_was_encrypted(tmp_path):
    scope = Scope(quick=True, repetitions=3, horizon=12, encrypted_repetitions=1, engine="simulate")
    for module, words in ((figure1, "Nothing here was encrypted"), (table1, "nothing encrypted")):
        section = module.assemble(pretend(module.units(scope)), scope=scope, folder=tmp_path)
        assert any(words in text for text in section.paragraphs)
        assert {run["engine"] for run in section.runs} == {"simulate"}


def test_figure_2_and_table_1_share_their_runs_with_figure_1():
    names = {name: {unit.name for unit in module.units(SCOPE)} for name, module in SECTIONS.items()}
    assert names["figure2"] == names["table1"]
    assert len(names["figure2"] & names["figure1"]) == 1
    assert names["bounds"] < names["figure1"]


def test_table_1_compares_the_same_rounds_at_every_level(sections):
    rows = table_of(sections["table1"], "time-by-security")
    assert [row["kappa"] for row in rows] == [128, 192, 256]
    assert {row["rounds"] for row in rows} == {SCOPE.kappa_rounds}
    assert rows[0]["ratio"] == 1.0
    assert [row["ratio_paper"] for row in rows] == [1.0, 1.016, 1.026]
    assert all(row["log2_QP"] <= row["limit"] for row in rows)
    assert all(row["seconds"] > 0 and row["updates"] >= 1 for row in rows)
    refused = table_of(sections["table1"], "paper-parameters")
    assert all(row["verdict"].startswith("refused") for row in refused)
    assert [row["limit"] for row in refused] == [1747, 1199, 929]


def test_table_1_says_when_others_disturbed_the_measurement(results, tmp_path):
    clean = {name: {**found, "waiting_share": 0.01} for name, found in results.items()}
    busy = {name: {**found, "waiting_share": 0.4} for name, found in results.items()}
    words = "Not a clean measurement"
    for found, disturbed in ((clean, False), (busy, True), (results, False)):
        section = table1.assemble(found, scope=SCOPE, folder=tmp_path)
        assert any(words in text for text in section.paragraphs) == disturbed


def test_bounds_are_not_passed(sections):
    rows = table_of(sections["bounds"], "observed")
    assert {(row["algorithm"], row["engine"]) for row in rows} >= {
        ("oful", "plain"),
        ("helba", "ckks"),
        ("helba", "simulate"),
        ("helba-sqrt", "simulate"),
    }
    for row in rows:
        assert row["updates_most"] <= row["updates_bound"]
        assert row["regret_most"] <= row["regret_bound"]
    assert table_of(sections["bounds"], "depth")[-1]["step"] == "total"


def test_bound_that_is_passed_is_said(results, tmp_path, sections):
    assert "No run passed any of them." in sections["bounds"].paragraphs[0]
    (name,) = (name for name in results if name.startswith("toy-ckks-helba-128-seed-0"))
    broken = {**results, name: {**results[name], "regret_bound": 0.0}}
    section = bounds.assemble(broken, scope=SCOPE, folder=tmp_path)
    assert "PASSED by 1 runs" in section.paragraphs[0]
    assert "helba (ckks, seed 0)" in section.paragraphs[0]


def test_growth_rule_alone_forces_32_updates_in_130_rounds():
    """Erratum 16: the paper tells about 20."""
    settings = settings_for(make_problem("toy"), horizon=130)
    assert growth_updates(settings) == 32


def test_updates_are_told_apart_by_their_rule():
    settings = settings_for(make_problem("toy"), horizon=12)
    # Growth makes round 2 due after 1, then 3; one after round 1 is the trace rule's alone.
    assert split_updates([0, 1, 2], settings=settings) == (2, 0)
    assert split_updates([1, 2, 2], settings=settings) == (1, 1)


def test_quick_reproduction_of_the_paper_is_expected_within_6_minutes():
    quick = Scope(quick=True, encrypted_repetitions=1)
    everything = {unit.name: unit for module in SECTIONS.values() for unit in module.units(quick)}
    assert Estimate(list(everything.values()), processes=2).left() < 6 * 60


def test_full_reproduction_plays_every_round_on_ciphertexts():
    full = Scope()
    units = figure1.units(full)
    real = [unit for unit in units if unit.kind == "ckks"]
    assert len(real) == 3
    assert not any("rounds" in unit.arguments for unit in real)
    assert len([unit for unit in units if unit.arguments.get("engine") == "simulate"]) == 47
    assert {unit.arguments["security"] for unit in figure2.units(full)} == {128, 192, 256}
    everything = {unit.name: unit for module in SECTIONS.values() for unit in module.units(full)}
    assert Estimate(list(everything.values()), processes=2).left() < 35 * 60
