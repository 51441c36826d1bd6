"""What circuits are held to: the cost that planning predicts, the noise the simulator bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from helba.reference.engine import EncryptedVector
from helba.reference.engine.simulator import SimulatedEngine
from helba.reference.planning.cost.cost import Cost
from tests.engines import Keyed


@dataclass
class Measured:
    """Filled when the block ends."""

    cost: Cost | None = None
    operations: Counter[tuple[str, int]] | None = None

    def levels_of(self, *kinds: str) -> set[int]:
        """At which levels operations of these kinds were made."""
        assert self.operations is not None
        return {level for kind, level in self.operations if kind in kinds}

    def at(self, start: int, result: EncryptedVector) -> Cost:
        assert self.cost is not None
        return self.cost + Cost(levels=result.level - start)


@contextmanager
def measure(keyed: Keyed) -> Iterator[Measured]:
    measured = Measured()
    with keyed.engine.count() as tally:
        yield measured
    measured.cost = Cost(
        products=tally.products, plain_products=tally.plain_products, rotations=tally.rotations
    )
    measured.operations = tally.operations


class Refresher:
    """The masked refresh in one place; it keeps how many levels each vector had left."""

    def __init__(self, keyed: Keyed) -> None:
        self.keyed, self.left = keyed, list[int]()

    def __call__(self, vector: EncryptedVector) -> EncryptedVector:
        self.left.append(vector.levels_left)
        return self.keyed.engine.refresh(vector, secret_key=self.keyed.keys.secret)

    @property
    def count(self) -> int:
        return len(self.left)


@contextmanager
def assert_uses_every_key(keyed: Keyed) -> Iterator[None]:
    """All rotation keys that the keyed was opened with serve inside the block."""
    engine, used = keyed.engine, set[int]()
    find = engine._rotation_key

    def spy(steps: int, *, slots: int) -> int:
        key = find(steps, slots=slots)
        used.add(key)
        return key

    engine._rotation_key = spy  # type: ignore[method-assign]
    try:
        yield
    finally:
        del engine._rotation_key  # type: ignore[method-assign]
    assert engine.evaluation_key is not None
    assert used - {0} == engine.evaluation_key.rotations


def assert_close(
    keyed: Keyed,
    result: EncryptedVector,
    *,
    expected: NDArray[np.float64],
    error: float = 0.0,
    noise: float = 1e-6,
) -> None:
    """Within `error` and, on the simulator, rounding of float64; on CKKS, `noise` more.

    The simulator's own bound of CKKS's error must be near `noise`, so that it is no mere guess; it
    is that of a vector of all slots, though, where these have few.
    """
    slack = noise
    if isinstance(keyed.engine, SimulatedEngine):
        assert keyed.engine.noise_bound(result) <= 30.0 * noise
        slack = 1e-10
    assert np.abs(keyed.open(result) - expected).max() <= error + slack
