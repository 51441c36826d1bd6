"""Packages that are not installed: each use of one says in one line how to get it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from helba import extras
from helba.errors import MissingPackage

LAB = ("matplotlib", "sklearn")
SERVICE = tuple(sorted(set(extras.EXTRAS["service"]) - {"pydantic"}))  # typer may use it too
INSTALL_LAB, INSTALL_SERVICE = "pip install 'helba[lab]'", "pip install 'helba[service]'"


def run_without(
    modules: tuple[str, ...], arguments: list[str], *, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process that cannot import the modules."""
    code = (
        "import sys; sys.modules |= dict.fromkeys(" + repr(modules) + ");"
        "from helba.cli import main; sys.exit(main())"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "HELBA_PASSPHRASE": "some words of your own"},
    )


def test_run_without_matplotlib_writes_rows_and_skips_the_plot(tmp_path: Path) -> None:
    command = ["run", "toy", "--horizon", "10", "--out", "out", "--json"]
    done = run_without(LAB, command, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["plot"] is None
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"rows.csv", "run.json"}
    assert done.stderr.count("\n") == 1
    assert INSTALL_LAB in done.stderr


def test_comparison_without_matplotlib_is_resumed_and_drawn_with_it(tmp_path: Path) -> None:
    command = ["compare", "toy", "--horizon", "10", "--repetitions", "2", "--jobs", "1"]
    command += ["--algorithms", "oful,uniform", "--out", "out"]
    done = run_without(LAB, command, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list((tmp_path / "out" / "rows").iterdir())) == 4
    assert "plot:" not in done.stdout
    assert INSTALL_LAB in done.stderr
    again = run_without((), [*command, "--json"], folder=tmp_path)
    report = json.loads(again.stdout)
    assert report["resumed"] == 4
    assert (tmp_path / report["plot"]).exists()


@pytest.mark.parametrize(
    ("modules", "command", "package", "install"),
    [
        (LAB, ["run", "replay"], "scikit-learn", INSTALL_LAB),
        (LAB, ["compare", "replay"], "scikit-learn", INSTALL_LAB),
        (LAB, ["paper", "figure2", "--engine", "simulate"], "matplotlib", INSTALL_LAB),
        (SERVICE, ["serve", "keys/server"], "fastapi", INSTALL_SERVICE),
        (SERVICE, ["load", "--authority", "http://127.0.0.1:1"], "httpx", INSTALL_SERVICE),
        (SERVICE, ["authority", "serve", "keys", "--create", "toy"], "uvicorn", INSTALL_SERVICE),
        (SERVICE, ["authority", "sync", "keys"], "httpx", INSTALL_SERVICE),
        (SERVICE, ["client", "run", "alice", "toy"], "httpx", INSTALL_SERVICE),
        (SERVICE, ["client", "enrol", "a", "--authority", "http://h"], "httpx", INSTALL_SERVICE),
        (SERVICE, ["export", "keys", "file"], "sqlalchemy", INSTALL_SERVICE),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_command_without_its_package_is_one_line_that_installs_it(
    modules: tuple[str, ...], command: list[str], package: str, install: str, tmp_path: Path
) -> None:
    done = run_without(modules, command, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.count("\n") == 1
    assert package in done.stderr
    assert done.stderr.rstrip().endswith(install)
    assert not list(tmp_path.iterdir())


def test_keys_and_names_need_no_package_of_the_service(tmp_path: Path) -> None:
    command = ["keys", "create", "keys", "--dim", "2", "--arms", "2", "--horizon", "10"]
    done = run_without((*SERVICE, *LAB), [*command, "--engine", "simulate"], folder=tmp_path)
    assert done.returncode == 0, done.stderr
    code = (
        "import sys; sys.modules |= dict.fromkeys(" + repr((*SERVICE, *LAB)) + ");"
        "import helba; [getattr(helba, name) for name in dir(helba)]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("engine", ["ckks of the ring", "ckks of the reference"])
def test_openfhe_that_is_not_installed_names_its_command(engine: str, tmp_path: Path) -> None:
    command = ["run", "toy", "--engine", "ckks", "--horizon", "5"]
    if engine == "ckks of the reference":
        command += ["--profile", "ciphertext"]
    done = run_without(("openfhe",), command, folder=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    last = done.stderr.splitlines()[-1]
    assert "pip install 'helba[ckks]'" in last
    assert last.endswith("the simulator works without it")


def be(monkeypatch: pytest.MonkeyPatch, version: tuple[int, int], machine: str = "x86_64") -> None:
    monkeypatch.setattr(sys, "version_info", (*version, 0, "final", 0))
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "machine", lambda: machine)


NOT_FOUND = ModuleNotFoundError("No module named 'openfhe'", name="openfhe")


@pytest.mark.parametrize("version", [(3, 10), (3, 12)])
def test_openfhe_on_its_own_python_is_one_command_away(
    version: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    be(monkeypatch, version)
    text = str(extras.missing_openfhe(NOT_FOUND))
    assert text.startswith("OpenFHE is not installed: pip install 'helba[ckks]';")


@pytest.mark.parametrize(
    ("version", "machine"), [((3, 11), "x86_64"), ((3, 13), "x86_64"), ((3, 10), "aarch64")]
)
def test_openfhe_elsewhere_names_the_python_that_it_needs(
    version: tuple[int, int], machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    be(monkeypatch, version, machine)
    text = str(extras.missing_openfhe(NOT_FOUND))
    assert f"CPython {version[0]}.{version[1]} on Linux {machine}" in text
    assert "it needs CPython 3.10, or 3.12 with glibc 2.38, on Linux x86_64" in text
    assert "pip install 'helba[ckks]'" in text


def test_openfhe_that_does_not_load_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    be(monkeypatch, (3, 12))
    text = str(extras.missing_openfhe(ImportError("version `GLIBC_2.38' not found\nsecond line")))
    assert "installed and cannot be loaded (version `GLIBC_2.38' not found)" in text
    assert "second line" not in text


def test_module_of_no_extra_is_not_explained() -> None:
    assert extras.explain_missing(ModuleNotFoundError("no", name="helba.nowhere")) is None
    found = extras.explain_missing(ModuleNotFoundError("no", name="psycopg"))
    assert isinstance(found, MissingPackage)
    assert str(found).endswith("pip install 'helba[postgres]'")
