"""One user's answer from the comparison vector of all, cleared of the others.

A product with 0 and 1 clears the slots of all others. It takes one level of the comparison vector,
and no rescaling of its own: the mask is split into parts with whole coefficients, and the vector is
made ready for each part once (`planning.clearing`, `engine.whole`). An answer is `unit` times the
comparison. What is left in the slots of others is m v, for their value v and the rounding m of the
mask's last part, which is public: about 1e-11 at most, with what rounding the numbers before the
parts adds, or the encoding error at the scale where that is short. Before an answer leaves it is
flooded: by whoever re-encrypts it to its user, each one anew (`engine.leaving`), or, where all
users share one key, here.

*Flooding for a shared key*, in two steps, the first one once for a batch:

1. The comparison vector is flooded by f/2, which also re-randomises it.
2. After the product, noise is added in the clear, in [-f/2, f/2] in every slot, in three parts,
   each uniform in [-f/6, f/6]. One is drawn for the answer alone; it is the same in all copies of
   the grid, as the comparison is, which makes it quick to encode. The other two differ between the
   copies, and answers share them: users form a table, and an answer gets the noise of its row and
   that of its column, drawn for the batch.

What a user can see. The second polynomial of a fresh encryption looks uniform, so after step 1 that
of the comparison vector does; each answer's is a public function of it (rounded, then public
products). Hence what users hold, several of them together as well, can be made from uniform
polynomials and from what they decrypt. In their own slots that is b and noise. In the slots of
others it is noise and m v, where f is 1e-3. No combination of answers, of however many users,
cancels their noise. Four users at the corners of a rectangle of the table could take off what the
copies of a slot differ by, and then see how the errors of CKKS differ between copies; the value is
the same in all of them. (The update test is not: it stands in one copy of the first user's slot.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, TypeVar

import numpy as np

from helba.errors import LevelsExhausted, WrongVector, require_positive
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.engine.batching import EncodedVector
from helba.reference.engine.chance import draw_uniform
from helba.reference.engine.parallel import run_parallel
from helba.reference.engine.whole import split_whole
from helba.reference.planning.clearing import MaskSplit, answer_unit, mask_split
from helba.reference.planning.packing import next_power_of_two
from helba.reference.planning.score import ScoreLayout

__all__ = ["Clearing"]

T = TypeVar("T")
Mask: TypeAlias = tuple[EncodedVector, ...]


@dataclass(frozen=True, eq=False)
class Clearing:
    """Makes the answers of batch after batch; the encoded masks are kept, three towers each.

    Entries are multiplied by `unit`. They are flooded by `flood`, before that, or not at all if it
    is None: then somebody else must, by `unit` times as much.
    """

    engine: Engine
    layout: ScoreLayout = field(kw_only=True)
    flood: float | None = field(kw_only=True)
    _masks: dict[int, Mask] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.flood is not None:
            require_positive("flood", self.flood)

    @cached_property
    def split(self) -> MaskSplit:
        """How masks are split, where there are several users."""
        return mask_split(self.layout, parameters=self.engine.parameters)

    @property
    def unit(self) -> float:
        """What entries of an answer are multiplied by."""
        return answer_unit(self.layout, parameters=self.engine.parameters)

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
        if layout.users == 1:
            alone = low if self.flood is None else engine.flood(low, amount=self.flood)
            return lambda _: alone
        if self.flood is None:
            parts = self._parts(low)
            return lambda user: engine.sum_whole(parts, self._mask(user, parts[0]))
        parts = self._parts(engine.flood(low, amount=self.flood / 2.0))
        return self._sharing(parts, wanted, flood=self.flood)

    def _parts(self, low: EncryptedVector) -> list[EncryptedVector]:
        """The comparison vector, for each part of a mask."""
        engine = self.engine
        scaled = [engine.multiply_scalar(low, factor) for factor in self.split.factors]
        return [engine.lower(each, each.level) for each in scaled]  # rescaled once for all users

    def _sharing(
        self, parts: Sequence[EncryptedVector], wanted: Sequence[int], *, flood: float
    ) -> Callable[[int], EncryptedVector]:
        """Step 2 for a shared key, with the noise of rows and columns and that of each answer."""
        engine, level, slots = self.engine, parts[0].level, parts[0].slots
        bound = flood * self.unit / 6.0
        width = next_power_of_two(math.isqrt(self.layout.users))

        def draw(count: int) -> EncodedVector:
            return engine.encode(draw_uniform(count, bound=bound), level=level, slots=slots)

        rows = {row: draw(slots) for row in {user // width for user in wanted}}
        columns = {column: draw(slots) for column in {user % width for user in wanted}}

        def answer(user: int) -> EncryptedVector:
            noise = (rows[user // width], columns[user % width], draw(self.layout.grid))
            return engine.sum_whole(parts, self._mask(user, parts[0]), summands=noise)

        return answer

    def _mask(self, user: int, part: EncryptedVector) -> Mask:
        """The parts of a user's mask, for vectors like `part`."""
        mask = self._masks.get(user)
        if mask is None or mask[0].level != part.level:
            own = self.layout.slots_of(user, among=self.layout.opponent_stride)  # of a period
            mask = tuple(
                self.engine.encode_whole(values, slots=part.slots, level=part.level)
                for values in split_whole(own.astype(np.float64), bits=self.split.bits)
            )
            self._masks[user] = mask
        return mask
