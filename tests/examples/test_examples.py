"""Every example runs as a reader would run it, and its own assertions hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_examples_are_numbered_without_a_gap() -> None:
    numbers = [int(path.name.split("_")[0]) for path in sorted(EXAMPLES.glob("*.py"))]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) >= 5


@pytest.mark.ckks
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_example_runs_and_asserts_what_it_says(path: Path) -> None:
    assert "assert " in path.read_text()
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    shown = done.stdout.count("EncryptedVector") + done.stdout.count("Ciphertext(")
    assert shown >= 3
