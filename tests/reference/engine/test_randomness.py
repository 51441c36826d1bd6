"""No two processes make the same ciphertexts or keys: spawned ones differ, forked ones refuse."""

from __future__ import annotations

from pathlib import Path

import pytest

from helba.reference.engine import get_scheme
from helba.reference.planning.parameters import insecure_parameters
from tests.reference.engine.processes import run_module

pytestmark = pytest.mark.ckks

insecure_tiny = insecure_parameters(ring_dim=1 << 10, depth=3)


def test_spawned_processes_make_different_ciphertexts_and_keys(tmp_path: Path) -> None:
    scheme = get_scheme("ckks")
    public = tmp_path / "public"
    public.write_bytes(scheme.public_key_to_bytes(scheme.generate_keys(insecure_tiny).public))
    first, second = (
        run_module("tests.reference.engine.randomising", "fresh", str(public)) for _ in range(2)
    )
    assert set(first) == {"ciphertext", "public key", "secret key"}
    assert all(first[name] != second[name] for name in first)


def test_forked_child_refuses_everything_random() -> None:
    found = run_module("tests.reference.engine.randomising", "forked")
    assert set(found) == {"encrypt", "generate keys", "begin refresh", "answer refresh"}
    for answer in found.values():
        assert answer.startswith("EngineError: this process was forked")


def test_without_the_guard_a_forked_child_repeats_its_parent() -> None:
    found = run_module("tests.reference.engine.randomising", "unguarded")
    assert found["child"] == found["parent"]
