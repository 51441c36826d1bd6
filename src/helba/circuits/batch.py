"""One user's answer from the comparison vector of all, cleared of the others.

A product with 0 and 1 clears the slots of all others (1 level). What is left there is m v, for
their value v and the encoding error m of the mask, which is public: |m| is about
sqrt(N/12) 2^-scale_bits, 1e-11. Before an answer leaves it is flooded: by whoever re-encrypts it to
its user, each one anew (`engine.leaving`), or, where all users share one key, here.

*Flooding for a shared key*, in two steps, the first one once for a batch:

1. The comparison vector is flooded by f/2, which also re-randomises it.
2. After the product, noise is added in the clear, in [-f/2, f/2] in every slot. Encoding noise
   takes as long as the product, so answers share it: users form a table, and an answer gets the
   noise of its row and that of its column, each uniform in [-f/4, f/4], drawn for the batch.

What a user can see. The second polynomial of a fresh encryption looks uniform, so after step 1 that
of the comparison vector does; each answer's is a public function of it (a public product, rounded).
Hence what users hold, several of them together as well, can be made from uniform polynomials and
from what they decrypt. In their own slots that is b and noise. In the slots of others it is noise
and m v, where f is 1e-3. No combination of up to three answers cancels their noise; four users at
the corners of a rectangle of the table, who put their answers together, could take it off the slots
of others, and then nothing but rounding is claimed to cover m v.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from helba.engine import EncryptedVector, Engine
from helba.engine.batching import EncodedVector
from helba.engine.chance import draw_uniform
from helba.engine.parallel import run_parallel
from helba.errors import LevelsExhausted, WrongVector, require_positive
from helba.planning.packing import next_power_of_two
from helba.planning.score import ScoreLayout

__all__ = ["Clearing"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Clearing:
    """Makes the answers of batch after batch; the encoded masks are kept, two towers each.

    They are flooded by `flood`, or not at all if that is None: then somebody else must.
    """

    engine: Engine
    layout: ScoreLayout = field(kw_only=True)
    flood: float | None = field(kw_only=True)
    _masks: dict[int, EncodedVector] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.flood is not None:
            require_positive("flood", self.flood)

    def answers(
        self,
        comparison: EncryptedVector,
        *,
        users: Iterable[int],
        finish: Callable[[int, EncryptedVector], T],
        threads: int = 1,
    ) -> list[T]:
        """Return what `finish` makes of the answer of each of `users`, from one batch."""
        wanted = list(users)
        answer = self._answering(comparison, wanted)
        return run_parallel(lambda user: finish(user, answer(user)), wanted, threads=threads)

    def each(self, comparison: EncryptedVector) -> Iterator[EncryptedVector]:
        """Return the answers of all users, each made when it is asked for.

        A thousand take half a gigabyte; one that is sent before the next is made spares that.
        """
        wanted = list(range(self.layout.users))
        return map(self._answering(comparison, wanted), wanted)

    def _answering(
        self, comparison: EncryptedVector, wanted: Sequence[int]
    ) -> Callable[[int], EncryptedVector]:
        """What makes the answer of one of the `wanted` users from a batch."""
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
        if self.flood is None:
            if layout.users == 1:
                return lambda _: low
            return lambda user: engine.multiply_encoded(low, self._mask(user, low))
        if layout.users == 1:
            flooded = engine.flood(low, amount=self.flood)
            return lambda _: flooded
        return self._sharing(engine.flood(low, amount=self.flood / 2.0), wanted, flood=self.flood)

    def _sharing(
        self, flooded: EncryptedVector, wanted: Sequence[int], *, flood: float
    ) -> Callable[[int], EncryptedVector]:
        """Step 2 for a shared key, with the noise of rows and columns."""
        engine = self.engine
        width = next_power_of_two(math.isqrt(self.layout.users))
        rows = self._draw({user // width for user in wanted}, flooded, flood=flood)
        columns = self._draw({user % width for user in wanted}, flooded, flood=flood)

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

    def _draw(
        self, names: Iterable[int], flooded: EncryptedVector, *, flood: float
    ) -> dict[int, EncodedVector]:
        """Noise for each row or column, for what follows the product."""
        return {
            name: self.engine.encode(
                draw_uniform(flooded.slots, bound=flood / 4.0), level=flooded.level + 1
            )
            for name in names
        }
