"""Draws of helba's own come from a generator that each test seeds: a statistic is the same always.

What OpenFHE draws is not seeded. Nothing but tests may do this: a seed is a key.
"""

from __future__ import annotations

import hashlib
import secrets

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def seeded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    seed = hashlib.blake2b(request.node.nodeid.encode(), digest_size=8).digest()
    number = int.from_bytes(seed, "little")
    generator, names = np.random.default_rng(number), np.random.default_rng([number, 1])

    def token_bytes(count: int = 32) -> bytes:
        return generator.bytes(count)

    def token_hex(count: int = 32) -> str:
        return names.bytes(count).hex()  # of keys, which tests share: not every test makes them

    def randbelow(bound: int) -> int:
        return int(generator.integers(bound))

    monkeypatch.setattr(secrets, "token_bytes", token_bytes)
    monkeypatch.setattr(secrets, "token_hex", token_hex)
    monkeypatch.setattr(secrets, "randbelow", randbelow)
