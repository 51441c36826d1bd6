"""The wheel, built for real: what is in it, and what it asks for."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (path,) = folder.glob("*.whl")
    return zipfile.ZipFile(path)


def test_wheel_says_that_it_is_typed(wheel: zipfile.ZipFile) -> None:
    assert "helba/py.typed" in wheel.namelist()


def test_wheel_holds_the_whole_package_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    files = {name for name in wheel.namelist() if ".dist-info/" not in name}
    source = ROOT / "src"
    expected = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert files == expected


def test_wheel_asks_for_extras_only_under_their_names(wheel: zipfile.ZipFile) -> None:
    (name,) = [name for name in wheel.namelist() if name.endswith("METADATA")]
    metadata = message_from_bytes(wheel.read(name))
    plain = [text for text in metadata.get_all("Requires-Dist", []) if "extra ==" not in text]
    assert any(text.startswith("numpy") for text in plain)
    assert not [text for text in plain if text.startswith(("matplotlib", "scikit-learn"))]
    assert {"ckks", "lab", "postgres", "service"} <= set(metadata.get_all("Provides-Extra", []))
