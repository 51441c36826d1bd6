"""What update tests see of the design's growth since the update, and the tests that are out.

Growth that came in waits until a test may see it. A test that users have is not drawn again for the
same growth: several draws of its noise would thin it.
"""

from __future__ import annotations

import secrets
from collections.abc import Container
from dataclasses import dataclass, field

from helba.reference.circuits.comparison.argmax import Rider
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.engine.chance import draw_uniform
from helba.reference.protocol.deployment import NOISE_OF_TEST
from helba.reference.protocol.profiles.profile import RidingTest
from helba.reference.protocol.serving.ledger import Recent
from helba.reference.protocol.wire.messages import ID_BYTES


@dataclass(frozen=True, kw_only=True)
class UpdateTest:
    """A test that is out with users: its secret sign and noise, and the rewards that it saw."""

    flip: int
    noise: float
    batch: int
    covered: int

    def __repr__(self) -> str:
        return "<UpdateTest>"


@dataclass(frozen=True, kw_only=True)
class Growth:
    """What `count` rewards added, as tests see it; they are seen together or not at all."""

    vector: EncryptedVector
    count: int = 1


@dataclass(kw_only=True)
class GrowthTests:
    """The growth that tests see, `count` rewards of it, what waits, and the tests that are out."""

    seen: EncryptedVector | None = None
    count: int = 0
    waiting: list[Growth] = field(default_factory=list)
    out: dict[bytes, UpdateTest] = field(default_factory=dict, repr=False)
    closed: Recent = field(default_factory=Recent, repr=False)

    def show(self, engine: Engine, *, most: int | None = None) -> EncryptedVector | None:
        """Let tests see what waits, up to `most` rewards in all; return all that they see."""
        while self.waiting and (most is None or self.count + self.waiting[0].count <= most):
            newest = self.waiting.pop(0)
            vector = newest.vector
            self.seen = vector if self.seen is None else engine.add(self.seen, vector)
            self.count += newest.count
        return self.seen

    def riding(
        self, engine: Engine, *, batch: int, covered: int, most: int
    ) -> tuple[bytes, RidingTest] | None:
        """Return the name of a test and the test, which may see `most` rewards.

        None if there is nothing to see but the `covered` rewards of a test that said no.
        """
        growth = self.show(engine, most=most)
        if growth is None or self.count == covered:
            return None
        same = (n for n, t in self.out.items() if (t.batch, t.covered) == (batch, self.count))
        name = next(same, None)
        if name is None:
            name, flip = secrets.token_bytes(ID_BYTES), 2 * secrets.randbelow(2) - 1
            noise = float(draw_uniform(1, bound=NOISE_OF_TEST)[0])
            self.out[name] = UpdateTest(flip=flip, noise=noise, batch=batch, covered=self.count)
        test = self.out[name]
        return name, RidingTest(growth=growth, rider=Rider(flip=test.flip, noise=test.noise))

    def take(self, name: bytes) -> UpdateTest | None:
        """Return the test of that name, which is out no longer; None if there is none."""
        test = self.out.pop(name, None)
        if test is not None:
            self.closed.add(name)
        return test

    def restart(self, *, batches: Container[int]) -> None:
        """Begin a batch; tests of `batches` may still come back."""
        self.seen, self.count, self.waiting = None, 0, []
        for name in [name for name, test in self.out.items() if test.batch not in batches]:
            self.take(name)
