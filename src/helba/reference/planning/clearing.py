"""What it costs to give each of many users its own answer (`circuits.batch`): levels and noise.

The mask of a user is split into `PARTS` polynomials with whole coefficients (`engine.whole`). What
they multiply was rescaled before, once for all users, so its rounding grows by the values of the
parts: 2^bits of the first one; of those after it the rounding of the one before, which the mask's
2p coefficients make 2^(difference of bits) times their spread. Two things keep that small:

- Answers are `unit` times the comparison, as much as the last prime holds: it is longer than the
  scale, and rounding does not grow with what is rounded.
- The bits are chosen so that all parts add the same. The last one has as many as leave `MOST_LEFT`
  of others, or the scale's own if they are fewer.

OpenFHE's decryption refuses what errs by more than 2^-5, and judges by the imaginary parts of the
slots. There the flood of s slots shows by amount/(4 sqrt(3 s)): that limits the unit where slots
are few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from helba.reference.planning.cost import Cost
from helba.reference.planning.flooding import FLOOD
from helba.reference.planning.noise import NoiseModel
from helba.reference.planning.parameters import Parameters
from helba.reference.planning.score import ScoreLayout

__all__ = [
    "MaskSplit",
    "answer_unit",
    "clearing_cost",
    "clearing_noise",
    "leaving_noise",
    "mask_split",
]

# Of a slot that is cleared: a comparison, or an update test with its noise, and the flood.
LARGEST_VALUE = 4.0
PARTS = 3
# Bits that an engine wants free above the largest value on its last level.
SPARE_BITS = 2
# What a decryption may err by without being refused, with two bits to spare.
MOST_SEEN = 2.0**-7
# Of the values of others, in a slot that is cleared.
MOST_LEFT = 1e-11
# Standard deviations of the largest value among the slots of a mask's part.
PART_TAILS = 6.0


@dataclass(frozen=True, kw_only=True)
class MaskSplit:
    """`unit` times a mask is the sum of part_j unit/2^bits_j."""

    unit: float
    bits: tuple[int, ...]

    @property
    def factors(self) -> tuple[float, ...]:
        """What the comparison vector is multiplied by before it meets each part."""
        return tuple(self.unit * 2.0**-bits for bits in self.bits)


def answer_unit(layout: ScoreLayout, *, parameters: Parameters) -> float:
    """Return what entries of an answer are multiplied by: 1 for one user, who is not cleared."""
    if layout.users == 1:
        return 1.0
    room = parameters.first_bits - parameters.scale_bits - SPARE_BITS - math.log2(LARGEST_VALUE)
    seen = FLOOD / (4.0 * math.sqrt(3.0 * layout.compare_slots))
    return float(2.0 ** max(0, math.floor(min(room, math.log2(MOST_SEEN / seen)))))


def mask_split(layout: ScoreLayout, *, parameters: Parameters) -> MaskSplit:
    """Return how masks of several users are split."""
    spread = math.log2(_spread(layout))
    last = min(parameters.scale_bits, math.ceil(spread - math.log2(MOST_LEFT)))
    first = (last + (PARTS - 1) * spread) / PARTS
    bits = tuple(round(first + (last - first) * part / (PARTS - 1)) for part in range(PARTS))
    return MaskSplit(unit=answer_unit(layout, parameters=parameters), bits=bits)


def clearing_cost(layout: ScoreLayout) -> Cost:
    """Cost of the answers of all users: the level of the parts, then a product with each."""
    if layout.users == 1:
        return Cost()
    return Cost(levels=1, plain_products=PARTS * (1 + layout.users))


def clearing_noise(layout: ScoreLayout, *, parameters: Parameters) -> float:
    """Return a bound on what clearing adds to an entry, beside the flood itself.

    The flood is encrypted; what meets the parts was multiplied by a rounded number and rescaled;
    the last part is rounded; noise is encoded once more.
    """
    if layout.users == 1:
        return 0.0
    model, slots = NoiseModel(parameters), layout.compare_slots
    split, spread = mask_split(layout, parameters=parameters), _spread(layout)
    first, *later = split.bits
    steps = [after - before for before, after in zip(split.bits, later, strict=False)]
    largest = [2.0**first + spread, *(2.0**step * spread for step in steps)]
    rescaled = model.rescaling(slots) * math.hypot(*largest)  # independent of one another
    multiplied = LARGEST_VALUE * 2.0**-parameters.scale_bits * sum(largest)
    left = LARGEST_VALUE * spread * 2.0 ** -split.bits[-1]
    encoded = 3.0 * model.encoding(slots)
    return model.encryption(slots) + left + (rescaled + multiplied + encoded) / split.unit


def leaving_noise(slots: int, *, parameters: Parameters) -> float:
    """Return a bound on what leaving adds to an entry, beside the flood: both are under one key.

    The vector is re-encrypted to its user on the last level, and the flood is encrypted.
    """
    model = NoiseModel(parameters)
    return model.encryption(slots) + model.reencryption(slots, level=parameters.depth)


def _spread(layout: ScoreLayout) -> float:
    """What rounding the coefficients of a mask to whole numbers makes of its slots, at most."""
    return PART_TAILS * math.sqrt(2.0 * layout.opponent_stride / 12.0)
