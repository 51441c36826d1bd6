from __future__ import annotations

import dataclasses
import os
import signal

import pytest

from helba.errors import RunFailed
from helba.lab.reproduction.execution import distinct, run_missing
from helba.lab.reproduction.result import SavedResults
from tests.lab.reproduction import work
from tests.lab.reproduction.work import unit


def run(units, *, out, processes=1):
    with SavedResults(out, units=units) as kept:
        run_missing(units, kept=kept, processes=processes)
        return kept.results


def test_unit_is_done_once_however_often_the_command_runs(tmp_path):
    mark = str(tmp_path / "mark")
    units = [unit(f"u{number}", number=number, mark=mark) for number in range(3)]
    first = run(units[:2], out=tmp_path / "out")
    second = run(units, out=tmp_path / "out")
    assert {name: found["number"] for name, found in second.items()} == {"u0": 0, "u1": 2, "u2": 4}
    assert second["u0"] == first["u0"]
    assert (tmp_path / "mark").read_text().split() == ["0", "1", "2"]


def test_every_finished_unit_is_a_line_with_the_time_left(tmp_path, capfd):
    run([unit(f"u{number}", number=number) for number in range(2)], out=tmp_path)
    lines = capfd.readouterr().err.splitlines()
    assert sum("of 2 units, about" in line and "left; unit u" in line for line in lines) == 2
    assert not any("doubling" in line for line in lines)  # they would talk across each other


def test_damaged_unit_is_done_again_and_said(tmp_path, capfd):
    one = unit("one", number=1)
    run([one], out=tmp_path)
    (path,) = tmp_path.glob("units/*.json")
    path.write_text("{")
    assert run([one], out=tmp_path)["one"]["number"] == 2
    assert "1 of 1 units are damaged and are done again" in capfd.readouterr().err


def test_failing_unit_is_named_and_the_finished_ones_are_kept(tmp_path):
    units = [unit("good", number=1), unit("bad", work=work.fail)]
    with pytest.raises(RunFailed, match="unit bad failed: no luck"):
        run(units, out=tmp_path)
    with SavedResults(tmp_path, units=units) as kept:
        assert set(kept.results) == {"good"}


def test_interrupt_says_what_is_kept(tmp_path):
    units = [unit("good", number=1), unit("stop", work=work.interrupt)]
    with pytest.raises(RunFailed) as caught:
        run(units, out=tmp_path)
    assert str(caught.value) == (
        "interrupted: 1 of 2 units are finished and kept; the same command resumes"
    )


def test_ciphertext_unit_runs_in_a_process_of_its_own_and_speaks_through_ours(tmp_path, capfd):
    units = [unit(f"u{number}", kind="ckks", number=number) for number in range(2)]
    results = run(units, out=tmp_path)
    processes = {found["process"] for found in results.values()}
    assert len(processes) == 2
    assert os.getpid() not in processes
    assert all("waiting_share" in found for found in results.values())
    assert capfd.readouterr().err.splitlines().count("  doubling") == 2


def test_ciphertext_unit_that_fails_or_dies_is_named(tmp_path):
    with pytest.raises(RunFailed, match="unit bad failed: no luck"):
        run([unit("bad", work=work.fail, kind="ckks")], out=tmp_path)
    with pytest.raises(RunFailed, match="unit dead: its process ended unexpectedly"):
        run([unit("dead", work=work.die, kind="ckks")], out=tmp_path)


@pytest.fixture
def interrupts():
    """A test run in the background hands down that SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(os.name == "nt", reason="signals are POSIX")
@pytest.mark.usefixtures("interrupts")
def test_interrupted_ciphertext_unit_is_ended_and_the_rest_kept(tmp_path):
    units = [
        unit("good", kind="ckks", number=1),
        unit("endless", work=work.interrupt_parent, kind="ckks"),
    ]
    with pytest.raises(RunFailed, match="interrupted: 1 of 2 units are finished and kept"):
        run(units, out=tmp_path)


def test_light_units_run_side_by_side(tmp_path):
    results = run(
        [unit(f"u{number}", number=number) for number in range(6)], out=tmp_path, processes=2
    )
    assert os.getpid() not in {found["process"] for found in results.values()}
    assert [results[f"u{number}"]["number"] for number in range(6)] == [0, 2, 4, 6, 8, 10]


def test_equal_units_of_several_sections_are_one_and_different_ones_are_refused():
    one = unit("one", number=1)
    assert distinct([one, unit("two", number=2), dataclasses.replace(one, title="same")]) == [
        one,
        unit("two", number=2),
    ]
    with pytest.raises(ValueError, match="two different units are called one"):
        distinct([one, unit("one", number=2)])
