"""Which Python the set-up takes, on machines made of fakes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from conftest import Machine


def test_ckks_python_on_the_path_is_taken(machine: Machine) -> None:
    python = machine.add_python("bin/python3.10", version="3.10.13")
    assert machine.find() == [str(python), "3.10.13", "ckks"]


def test_pyenv_version_is_found_behind_a_failing_shim(machine: Machine) -> None:
    machine.add_failing_shim("bin/python3.10")
    machine.add_python("home/.pyenv/versions/3.10.9/bin/python3.10", version="3.10.9")
    newest = machine.add_python("home/.pyenv/versions/3.10.13/bin/python3.10", version="3.10.13")
    assert machine.find() == [str(newest), "3.10.13", "ckks"]


def test_pyenv_root_is_honoured(machine: Machine) -> None:
    python = machine.add_python("other/versions/3.10.13/bin/python3.10", version="3.10.13")
    found = machine.find(PYENV_ROOT=str(machine.directory / "other"))
    assert found == [str(python), "3.10.13", "ckks"]


@pytest.mark.parametrize(
    ("directory", "variable"),
    [
        ("home/.local/share/uv/python", "UNRELATED"),
        ("elsewhere", "UV_PYTHON_INSTALL_DIR"),
    ],
)
def test_uv_version_is_found(machine: Machine, directory: str, variable: str) -> None:
    name = f"{directory}/cpython-3.10.18-linux-x86_64-gnu/bin/python3.10"
    python = machine.add_python(name, version="3.10.18")
    found = machine.find(**{variable: str(machine.directory / directory)})
    assert found == [str(python), "3.10.18", "ckks"]


def test_second_python_on_the_path_is_found_behind_a_failing_first(machine: Machine) -> None:
    machine.add_failing_shim("bin/python3.10")
    python = machine.add_python("tools/python3.10", version="3.10.13")
    assert machine.find() == [str(python), "3.10.13", "ckks"]


def test_3_10_is_preferred_to_3_12_and_to_the_default(machine: Machine) -> None:
    machine.be("Linux x86_64", glibc="2.39")
    machine.add_python("bin/python3", version="3.13.0")
    machine.add_python("bin/python3.12", version="3.12.3")
    python = machine.add_python("home/.pyenv/versions/3.10.13/bin/python3.10", version="3.10.13")
    assert machine.find() == [str(python), "3.10.13", "ckks"]


@pytest.mark.parametrize(("glibc", "engine"), [("2.36", "core"), ("2.38", "ckks")])
def test_3_12_loads_openfhe_only_from_glibc_2_38_on(
    machine: Machine, glibc: str, engine: str
) -> None:
    machine.be("Linux x86_64", glibc=glibc)
    python = machine.add_python("bin/python3.12", version="3.12.3")
    assert machine.find()[:3] == [str(python), "3.12.3", engine]


@pytest.mark.parametrize(("system", "glibc"), [("Darwin arm64", "2.39"), ("Linux x86_64", "2.31")])
def test_machine_without_a_wheel_gets_the_core(machine: Machine, system: str, glibc: str) -> None:
    machine.be(system, glibc=glibc)
    machine.add_python("bin/python3.10", version="3.10.13")
    _, version, engine, reason = machine.find()
    assert (version, engine) == ("3.10.13", "core")
    assert "its wheel" in reason


def test_other_python_is_taken_without_ckks(machine: Machine) -> None:
    machine.add_failing_shim("bin/python3.10")
    python = machine.add_python("bin/python3", version="3.11.7")
    path, version, engine, reason = machine.find()
    assert (path, version, engine) == (str(python), "3.11.7", "core")
    assert reason.startswith("no CPython 3.10 was found")


@pytest.mark.parametrize(
    ("version", "kind", "pip"),
    [
        ("3.9.18", "cpython", "pip"),
        ("3.99.0", "cpython", "pip"),
        ("3.11.7", "pypy", "pip"),
        ("3.13.0", "cpythont", "pip"),
        ("3.11.7", "cpython", "no-pip"),
    ],
    ids=["old", "unlocked", "not-cpython", "free-threaded", "without-ensurepip"],
)
def test_unfit_python_is_passed_over(machine: Machine, version: str, kind: str, pip: str) -> None:
    machine.add_python("bin/python3", version=version, kind=kind, pip=pip)
    python = machine.add_python("bin/python3.11", version="3.11.7")
    assert machine.find()[0] == str(python)


def test_named_python_is_taken(machine: Machine) -> None:
    machine.add_python("bin/python3.10", version="3.10.13")
    python = machine.add_python("my python/python3", version="3.11.7")
    path, version, engine, reason = machine.find(PYTHON=str(python))
    assert (path, version, engine) == (str(python), "3.11.7", "core")
    assert reason == "it has no wheel for CPython 3.11"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("nowhere", "does not exist"),
        ("shim", "does not run"),
        ("old", "is Python 3.9.18, older than 3.10"),
        ("future", "is CPython 3.99, for which there is no lock file"),
    ],
)
def test_named_python_that_is_unfit_is_one_clear_line(
    machine: Machine, name: str, problem: str
) -> None:
    machine.add_python("bin/python3.10", version="3.10.13")
    machine.add_failing_shim("bin/shim")
    machine.add_python("bin/old", version="3.9.18")
    machine.add_python("bin/future", version="3.99.0")
    result = machine.run("find-python", PYTHON=name)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == f"helba: PYTHON={name} {problem}\n"


def test_no_python_at_all_is_one_clear_line(machine: Machine) -> None:
    machine.add_python("bin/python3", version="3.9.18")
    result = machine.run("find-python")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("helba: no CPython from 3.10 on was found")
    assert result.stderr.count("\n") == 1


def test_uv_installs_only_when_asked_and_needed(machine: Machine) -> None:
    fallback = machine.add_python("bin/python3", version="3.11.7")
    spare = machine.add_python("spare", version="3.10.18")
    target = machine.directory / "home/.local/share/uv/python/cpython-3.10.18/bin"
    machine.write(
        machine.bin / "uv",
        f'#!/usr/bin/env bash\nmkdir -p "{target}" && cp "{spare}" "{target}/python3.10"\n',
    )
    assert machine.find()[0] == str(fallback)
    assert machine.find("--install") == [f"{target}/python3.10", "3.10.18", "ckks"]


def test_uv_failing_leaves_the_fall_back(machine: Machine) -> None:
    python = machine.add_python("bin/python3", version="3.11.7")
    machine.add_failing_shim("bin/uv")
    assert machine.find("--install")[:3] == [str(python), "3.11.7", "core"]


def test_other_than_passes_over_that_version_and_the_named_one(machine: Machine) -> None:
    machine.add_python("bin/python3", version="3.10.13")
    machine.add_python("bin/python3.10", version="3.10.13")
    python = machine.add_python("bin/python3.12", version="3.12.3")
    found = machine.find("--other-than", "3.10", PYTHON="python3.10")
    assert found[:3] == [str(python), "3.12.3", "core"]
