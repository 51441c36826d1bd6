"""`helba paper` as people run it, in the simulator and small."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helba.cli import main
from helba.lab.command.paper import SECTIONS
from helba.lab.reproduction import run as run_module
from helba.lab.reproduction.part import privacy, replay, scaling
from tests.sweep import SOAK

HELBA = [sys.executable, "-m", "helba", "paper"]
SHORT = ["--quick", "--engine", "simulate", "--horizon", "6"]
SMALL = [*SHORT, "--repetitions", "2"]


def test_paper_depth_still_shows_the_levels_of_every_step(capsys):
    assert main(["paper", "depth", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"][-1]["step"] == "total"


def test_paper_writes_one_report_and_prints_the_same_as_json(tmp_path, capsys):
    arguments = ["paper", "figure2", *SHORT, "--out", str(tmp_path / "out"), "--jobs", "1"]
    assert main([*arguments, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed == json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
    assert printed["scope"]["horizon"] == 6
    assert [section["name"] for section in printed["sections"]] == ["figure2"]
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "Figure 2" in page
    assert "in the simulator: nothing is encrypted" in page
    for figure in printed["sections"][0]["figures"]:
        assert all((tmp_path / "out" / figure[name]).is_file() for name in ("png", "svg", "rows"))
    assert not any(unit["finished_before"] for unit in printed["units"])

    assert main([*arguments]) == 0
    caught = capsys.readouterr()
    assert "were finished before" in caught.err
    assert str(tmp_path / "out" / "report.html") in caught.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "plain"], "engine must be one of ckks, simulate"),
        (["--repetitions", "0"], "repetitions must be at least 1"),
        (["--encrypted", "9", "--repetitions", "3"], "encrypted must be at most the 3 repetitions"),
        (["--horizon", "1"], "horizon must be at least 2"),
        (["--horizon", "many"], "'many' is not a whole number"),
        (["--jobs", "0"], "jobs must be at least 1"),
    ],
)
def test_paper_refuses_bad_input_in_one_line(tmp_path, capsys, options, message):
    assert main(["paper", "all", "--out", str(tmp_path / "out"), *options]) == 2
    caught = capsys.readouterr()
    assert message in caught.err
    assert caught.err.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_section_refuses_an_option_that_it_does_not_read(capsys):
    assert main(["paper", "scaling", "--horizon", "200"]) == 2
    assert "No such option: --horizon" in capsys.readouterr().err


def test_paper_refuses_a_folder_of_somebody_else(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["paper", "bounds", *SMALL, "--out", str(tmp_path)]) == 2
    assert "a new or empty folder" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_paper_without_openfhe_says_what_to_add(tmp_path, capsys, monkeypatch):
    def refuse(name: str):
        raise run_module.RunFailed(f"OpenFHE cannot be loaded here ({name})")

    monkeypatch.setattr(run_module, "get_scheme", refuse)
    assert main(["paper", "table1", "--out", str(tmp_path / "out")]) == 1
    assert "add --engine simulate" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def start(arguments: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_for_units(process: subprocess.Popen[str], *, out: Path, count: int) -> None:
    give_up = time.monotonic() + 120
    while len(list(out.glob("units/*.json"))) < count:
        assert time.monotonic() < give_up
        assert process.poll() is None
        time.sleep(0.01)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="process groups and signals are POSIX")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_paper_that_is_stopped_keeps_its_units_and_resumes(tmp_path, number, capsys):
    command = ["figure1", *SMALL, "--out", str(tmp_path), "--json", "--jobs"]
    process = start([*HELBA, *command, "2"])
    try:
        wait_for_units(process, out=tmp_path, count=2)
        if number == signal.SIGKILL:
            process.kill()  # it alone: its helpers notice by themselves
        else:
            os.killpg(process.pid, number)  # the whole group, as a terminal does
        stdout, stderr = process.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert not stdout
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert "Traceback" not in stderr
        assert stderr.splitlines()[-1].endswith("are finished and kept; the same command resumes")
    kept = [json.loads(path.read_text()) for path in tmp_path.glob("units/*.json")]
    assert len(kept) >= 2

    assert main(["paper", *command, "1"]) == 0
    units = json.loads(capsys.readouterr().out)["units"]
    before = {unit["name"] for unit in units if unit["finished_before"]}
    assert before == {content["unit"] for content in kept}
    assert len(before) < len(units)
    assert not list(tmp_path.glob("units/.*"))


def make_sections_small(monkeypatch):
    """Fewer rounds and sizes than those of --quick."""
    monkeypatch.setattr(privacy, "LONG", ((20, 2), (20, 2)))
    monkeypatch.setattr(replay, "DIM", 4)
    monkeypatch.setattr(replay, "QUICK_ROUNDS", 4)
    monkeypatch.setattr(scaling, "QUICK_DIMS", (2, 4, 8))
    monkeypatch.setattr(scaling, "QUICK_ARMS", (2, 4, 8))
    monkeypatch.setattr(scaling, "QUICK_ROUNDS", 2)
    monkeypatch.setattr(scaling, "QUICK_BASE_ROUNDS", 8)
    monkeypatch.setattr(scaling, "QUICK_HORIZONS", (16, 32, 64))


@pytest.mark.slow
def test_paper_all_reproduces_every_section_in_the_simulator(tmp_path, capsys, monkeypatch):
    if not SOAK:
        make_sections_small(monkeypatch)
    arguments = ["paper", "all", *SMALL, "--out", str(tmp_path), "--jobs", "1", "--json"]
    assert main(arguments) == 0
    report = json.loads(capsys.readouterr().out)
    assert [section["name"] for section in report["sections"]] == list(SECTIONS)
    assert all(section["tables"] for section in report["sections"])
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for section in report["sections"]:
        assert section["title"] in page
