"""What circuits are held to: the cost that planning predicts, the noise the simulator bounds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from helba.engine import EncryptedVector
from helba.engine.simulator import SimulatedEngine
from helba.planning.cost import Cost
from tests.engines import Desk


@dataclass
class Measured:
    """Filled when the block ends."""

    cost: Cost | None = None

    def at(self, start: int, result: EncryptedVector) -> Cost:
        assert self.cost is not None
        return self.cost + Cost(levels=result.level - start)


@contextmanager
def measure(desk: Desk) -> Iterator[Measured]:
    measured = Measured()
    with desk.engine.count() as tally:
        yield measured
    measured.cost = Cost(
        products=tally.products, plain_products=tally.plain_products, rotations=tally.rotations
    )


def assert_close(
    desk: Desk,
    result: EncryptedVector,
    *,
    expected: NDArray[np.float64],
    error: float = 0.0,
    noise: float = 1e-6,
) -> None:
    """Within `error` and, on the simulator, rounding of float64; on CKKS, `noise` more.

    The simulator's own bound of CKKS's error must be below `noise`, so that it is no mere guess.
    """
    slack = noise
    if isinstance(desk.engine, SimulatedEngine):
        assert desk.engine.noise_bound(result) <= noise
        slack = 1e-10
    assert np.abs(desk.open(result) - expected).max() <= error + slack
