"""No bytes crash the process, fill its memory, or become something the engine cannot use."""

from __future__ import annotations

import pytest

from tests.reference.engine.processes import run_module
from tests.sweep import sweep

pytestmark = [pytest.mark.ckks, pytest.mark.slow]

HARMLESS = ("payload flips, sealed", "block offset flips, sealed", "key: header flip, sealed")


def test_damaged_and_forged_bytes_are_refused_or_harmless() -> None:
    found = run_module("tests.reference.engine.fuzzing", str(sweep(120, long=600)))
    refused, accepted = found["refused"], found["accepted"]
    assert sum(refused.values()) + sum(accepted.values()) > 5000
    # A changed residue is a residue, and nobody but its maker knows a key's tag: only a signature
    # would tell. All else is noticed.
    assert all(name.endswith(HARMLESS) for name in accepted)
    assert accepted["payload flips, sealed"] > sweep(20, long=100)
    for name in (
        "header flip, sealed",
        "flip",
        "cut",
        "extended",
        "cut, sealed",
        "extended, sealed",
        "random payload, sealed",
        "false level",
        "false slots",
        "false length",
        "foreign tag",
        "residues past the modulus",
        "0 elements",
        "40 elements",
        "foreign context",
        "foreign context, sealed",
        "empty",
    ):
        assert refused[name] > 0, name
    assert found["growth_megabytes"] < 50
    assert found["contexts"][0] == found["contexts"][1]
