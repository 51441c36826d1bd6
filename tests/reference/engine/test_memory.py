"""Keys that the memory cannot hold are refused before they are made."""

from __future__ import annotations

from pathlib import Path

import pytest

from helba.errors import EngineError
from helba.reference.engine import get_scheme, memory
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.planning.sizes import ciphertext_bytes, switching_key_bytes, working_bytes

SMALL = insecure_parameters(ring_dim=1 << 10, depth=2)


def test_working_memory_is_that_of_keys_and_ciphertexts() -> None:
    held = working_bytes(SMALL, keys=0)
    assert held == 41 * ciphertext_bytes(SMALL)
    assert working_bytes(SMALL, keys=3) == 3 * switching_key_bytes(SMALL) + held


@pytest.mark.ckks
def test_keys_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    scheme, needed = get_scheme("ckks"), working_bytes(SMALL, keys=3)
    monkeypatch.setattr(memory, "free_memory", lambda: needed - 1)
    with pytest.raises(EngineError, match=r"3 evaluation keys of N = 1024, depth 2.* GB are free"):
        scheme.generate_keys(SMALL, rotations=(1, 2))
    scheme.generate_keys(SMALL, rotations=(1,))
    monkeypatch.setattr(memory, "free_memory", lambda: needed)
    assert len(scheme.generate_keys(SMALL, rotations=(1, 2)).evaluation.rotations) == 2


def test_nothing_is_refused_where_memory_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: None)
    memory.require_memory(SMALL, keys=1 << 40)


def test_free_memory_is_the_least_of_system_and_control_group(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "CONTROL_GROUP", tmp_path)
    assert memory.free_memory() is None
    (tmp_path / "meminfo").write_text("MemFree:  7 kB\nMemAvailable:     2000 kB\nBuffers: 1 kB\n")
    assert memory.free_memory() == 2000 * 1024
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("500000\n")
    assert memory.free_memory() == 2000 * 1024
    (tmp_path / "memory.max").write_text("1500000\n")
    assert memory.free_memory() == 1_000_000
    (tmp_path / "memory.current").write_text("1600000\n")
    assert memory.free_memory() == 0


def test_this_machine_says_how_much_is_free() -> None:
    if memory.MEMINFO.exists():
        free = memory.free_memory()
        assert free is not None
        assert 1 << 26 < free < 1 << 46
