"""One user's answer from the comparison vector of all: cleared of the others, and flooded.

For users > 1, in two steps, the first one once for a batch:

1. A fresh encryption of noise is added, uniform in [-f/2, f/2] and independent in every slot. It
   covers what CKKS left in the low digits, and it re-randomises.
2. For each user a product with 0 and 1 clears the slots of all others (1 level), and more noise is
   added in the clear, in [-f/2, f/2].

A single user needs the first step alone, up to f, and no level.

Encoding noise takes as long as the product, so answers share it: users form a table, and an answer
gets the noise of its row and that of its column, each uniform in [-f/4, f/4], drawn for the batch.

What a user can see. The second polynomial of a fresh encryption looks uniform, so after step 1 that
of the comparison vector does; each answer's is a public function of it (a public product, rounded).
Hence what users hold, several of them together as well, can be made from uniform polynomials and
from what they decrypt. In their own slots that is b and noise. In the slots of others it is noise
and m v, for their value v and the encoding error m of the mask, which is public: |m| is about
sqrt(N/12) 2^-scale_bits, 1e-11 where f is 1e-3. No combination of up to three answers cancels their
noise; four users at the corners of a rectangle of the table, who put their answers together, could
take it off the slots of others, and then nothing but rounding is claimed to cover m v.

Noise in the slots is real. A user can read the imaginary parts off the polynomial, too: in the
slots of others they hold such rounding, in its own also the error that CKKS made there.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from helba.engine import EncryptedVector, Engine
from helba.engine.batching import EncodedVector
from helba.engine.parallel import run_parallel
from helba.errors import LevelsExhausted, WrongVector, require_positive
from helba.planning.packing import next_power_of_two
from helba.planning.score import ScoreLayout

__all__ = ["Clearing", "answer_of"]

Array = NDArray[np.float64]


def answer_of(
    engine: Engine, comparison: EncryptedVector, *, layout: ScoreLayout, user: int, flood: float
) -> EncryptedVector:
    """Return what one user may get, on the last level. Of several users, ask `Clearing`."""
    (answer,) = Clearing(engine, layout=layout, flood=flood).answers(comparison, users=(user,))
    return answer


@dataclass(frozen=True, eq=False)
class Clearing:
    """Makes the answers of batch after batch; the encoded masks are kept, two towers each."""

    engine: Engine
    layout: ScoreLayout = field(kw_only=True)
    flood: float = field(kw_only=True)
    _masks: dict[int, EncodedVector] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        require_positive("flood", self.flood)

    def answers(
        self, comparison: EncryptedVector, *, users: Iterable[int] | None = None, threads: int = 1
    ) -> list[EncryptedVector]:
        """Return the answers of `users`, or of all, from one batch. To be sent, each, once."""
        wanted = list(range(self.layout.users) if users is None else users)
        return run_parallel(self._answering(comparison, wanted), wanted, threads=threads)

    def each(self, comparison: EncryptedVector) -> Iterator[EncryptedVector]:
        """Return the answers of all users, each made when it is asked for.

        A thousand take half a gigabyte; one that is sent before the next is made spares that.
        """
        wanted = list(range(self.layout.users))
        return map(self._answering(comparison, wanted), wanted)

    def _answering(
        self, comparison: EncryptedVector, wanted: Sequence[int]
    ) -> Callable[[int], EncryptedVector]:
        """What makes the answer of one of the `wanted` users from a batch that is flooded once."""
        engine, layout = self.engine, self.layout
        if comparison.slots != layout.compare_slots:
            raise WrongVector(
                f"a comparison of {comparison.slots} slots meets {layout.compare_slots}"
            )
        for user in wanted:
            layout.slots_of(user, among=0)  # refuses a user that is none
        needed = 1 if layout.users > 1 else 0
        if comparison.levels_left < needed:
            raise LevelsExhausted("clearing the answers of several users needs a level, none left")
        level = max(comparison.level, engine.parameters.depth - needed)
        low = engine.lower(comparison, level)
        first = self.flood if layout.users == 1 else self.flood / 2.0
        noise = draw_noise(comparison.slots, flood=first)
        flooded = engine.add(low, engine.encrypt(noise, level=level))
        if layout.users == 1:
            return lambda _: flooded
        width = next_power_of_two(math.isqrt(layout.users))
        rows = self._draw({user // width for user in wanted}, flooded)
        columns = self._draw({user % width for user in wanted}, flooded)

        def answer(user: int) -> EncryptedVector:
            cleared = engine.multiply_encoded(flooded, self._mask(user, flooded))
            return engine.add_encoded(cleared, rows[user // width], columns[user % width])

        return answer

    def _mask(self, user: int, flooded: EncryptedVector) -> EncodedVector:
        mask = self._masks.get(user)
        if mask is None or mask.level != flooded.level:
            own = self.layout.slots_of(user, among=flooded.slots)
            mask = self.engine.encode(own.astype(np.float64), level=flooded.level)
            self._masks[user] = mask
        return mask

    def _draw(self, names: Iterable[int], flooded: EncryptedVector) -> dict[int, EncodedVector]:
        """Noise for each row or column, for what follows the product."""
        return {
            name: self.engine.encode(
                draw_noise(flooded.slots, flood=self.flood / 4.0), level=flooded.level + 1
            )
            for name in names
        }


def draw_noise(count: int, *, flood: float) -> Array:
    """Return `count` independent numbers, uniform in [-flood, flood], by the system's generator.

    In steps of 2^-31 flood: finer than the rounding that ends every product.
    """
    words = np.frombuffer(secrets.token_bytes(4 * count), dtype=np.int32)
    return words.astype(np.float64) * (flood * 2.0**-31)
