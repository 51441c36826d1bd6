"""What the set-up does, and when it does nothing, on machines made of fakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Machine

STAMP = ".venv/helba-stamp"


@pytest.fixture
def ckks_machine(machine: Machine) -> Machine:
    machine.add_python("bin/python3.10", version="3.10.13")
    return machine


def run_pip(machine: Machine, **environment: str) -> list[str]:
    """Run set-up, which must succeed, and return its calls of pip."""
    result = machine.run("setup", **environment)
    assert result.returncode == 0, result.stderr
    return [line for line in machine.take_log() if line.startswith("-m pip")]


def test_setup_installs_from_locks_with_hashes_only(ckks_machine: Machine) -> None:
    *locked, project = run_pip(ckks_machine)
    assert [line.rsplit("/", 1)[-1] for line in locked] == ["py3.10.txt", "py3.10-ckks.txt"]
    assert all("--require-hashes --no-deps" in line for line in locked)
    assert "--no-deps --no-build-isolation --editable" in project


def test_second_setup_starts_no_pip_and_says_nothing(ckks_machine: Machine) -> None:
    run_pip(ckks_machine)
    result = ckks_machine.run("setup")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert not any("pip" in line for line in ckks_machine.take_log())


@pytest.mark.parametrize("name", ["pyproject.toml", "locks/py3.10.txt", "locks/py3.10-ckks.txt"])
def test_changed_input_installs_again_into_the_same_venv(ckks_machine: Machine, name: str) -> None:
    run_pip(ckks_machine)
    kept = ckks_machine.write(ckks_machine.checkout / ".venv/kept", "")
    with (ckks_machine.checkout / name).open("a") as file:
        file.write("\n")
    assert len(run_pip(ckks_machine)) == 3
    assert kept.exists()


def test_other_python_makes_the_venv_anew(ckks_machine: Machine) -> None:
    run_pip(ckks_machine)
    left_over = ckks_machine.write(ckks_machine.checkout / ".venv/left-over", "")
    ckks_machine.add_python("bin/python3.11", version="3.11.7")
    assert "py3.11.txt" in run_pip(ckks_machine, PYTHON="python3.11")[0]
    assert not left_over.exists()


def test_interrupted_setup_makes_the_venv_anew(ckks_machine: Machine) -> None:
    ckks_machine.fail_at("--editable")
    assert ckks_machine.run("setup").returncode != 0
    left_over = ckks_machine.write(ckks_machine.checkout / ".venv/left-over", "")
    ckks_machine.fail_at()
    ckks_machine.take_log()
    assert len(run_pip(ckks_machine)) == 3
    assert not left_over.exists()


def test_broken_venv_is_made_anew(ckks_machine: Machine) -> None:
    run_pip(ckks_machine)
    ckks_machine.add_failing_shim("a checkout/.venv/bin/python")
    assert len(run_pip(ckks_machine)) == 3


def test_moved_checkout_makes_the_venv_anew(ckks_machine: Machine) -> None:
    run_pip(ckks_machine)
    ckks_machine.checkout = ckks_machine.checkout.rename(ckks_machine.directory / "moved")
    assert len(run_pip(ckks_machine)) == 3


def test_banner_is_shown_on_every_run_without_ckks(machine: Machine) -> None:
    machine.add_python("bin/python3", version="3.11.7")
    for _ in range(2):
        banner = machine.run("setup").stderr
        assert "NO CKKS: OpenFHE cannot be loaded on CPython 3.11.7" in banner
        assert "no CPython 3.10 was found" in banner
        assert (
            "install CPython 3.10, or 3.12 with glibc 2.38 or later, or name one with PYTHON=..."
            in banner
        )
        assert "simulator" in banner
        assert "CKKS tests are skipped" in banner


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("py3.10-ckks.txt", "installing it failed: fake failure"),
        ("import openfhe", "importing it failed: fake failure"),
    ],
    ids=["install", "import"],
)
def test_openfhe_failing_is_not_fatal_and_says_why(
    ckks_machine: Machine, words: str, reason: str
) -> None:
    ckks_machine.fail_at(words)
    for _ in range(2):
        result = ckks_machine.run("setup")
        assert result.returncode == 0
        assert reason in result.stderr
        assert "make clean" in result.stderr
    assert (ckks_machine.checkout / STAMP).exists()


def test_setup_without_any_python_is_one_clear_line(machine: Machine) -> None:
    result = machine.run("setup")
    assert (result.returncode, result.stderr.count("\n")) == (1, 1)
