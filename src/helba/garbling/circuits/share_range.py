"""Ranges of values that are shared modulo 2^96, for a third of the gates of an adder.

A value is v = e - g modulo 2^96 with e the evaluator's and g the garbler's share. It lies in
[-2^(m-1), 2^(m-1)) if the upper 96 - m bits of v + 2^(m-1) = e + g' are zero, g' = 2^(m-1) - g.
With c the carry of the lower m bits that is

    e_high = u  if c = 1,    e_high = u + 1  if c = 0,      u = the complement of g'_high.

So every bit of e_high xor (u + 1) xor c (u xor (u + 1)) must be zero. Each party takes `parities`
random parities of all its upper bits, over all values of a lane: what is left for the circuit is
one bit of each party a parity, and c times a bit that the garbler knows, for each value. The random
choices come from a seed that is drawn when the shares are known; they are public.

If all values are in range the circuit says so, always; else it does so with probability
2^-parities. The check costs m + parities gates a value, and transfers m bits of it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput, require_whole
from helba.garbling.circuits.arithmetic import all_of
from helba.garbling.circuits.builder import FALSE, CircuitBuilder
from helba.garbling.circuits.circuit import ShareGroup

SHARE_BITS = 96
PARITIES = 40
_WORDS = 2  # of 64 bits, for a share
_SHARE_BYTES = 8 * _WORDS

Words = NDArray[np.uint64]


@dataclass(frozen=True)
class ShareRange:
    """A check that `values` values of a lane are within [-2^(low_bits - 1), 2^(low_bits - 1))."""

    values: int
    low_bits: int
    parities: int = PARITIES

    def __post_init__(self) -> None:
        require_whole("values", self.values, least=1, most=1 << 16)
        require_whole("low_bits", self.low_bits, least=2, most=60)
        require_whole("parities", self.parities, least=1, most=128)

    # -- the circuit

    @property
    def groups(self) -> tuple[ShareGroup, ShareGroup, ShareGroup]:
        """Lower bits of the values, parities of the upper ones, and the garbler's own bits.

        Of these there is one for each value and parity.
        """
        return (
            ShareGroup(self.values, self.low_bits, offset=1 << (self.low_bits - 1)),
            ShareGroup(self.parities, 1),
            ShareGroup(self.values * self.parities, 1, garbler_only=True),
        )

    def build(self, builder: CircuitBuilder, *, first: int) -> int:
        """Return the wire that says whether all values are in range.

        `first` is the place of the groups, one after the other, among the builder's values.
        """
        carries = [
            self._carry(builder, builder.evaluator[i], builder.garbler[i])
            for i in range(first, first + self.values)
        ]
        sums = []
        parities, masks = first + self.values, first + self.values + self.parities
        for parity in range(self.parities):
            (theirs,) = builder.evaluator[parities + parity]
            (own,) = builder.garbler[parities + parity]
            total = builder.xor(theirs, own)
            for value, carry in enumerate(carries):
                (mask,) = builder.garbler[masks + value * self.parities + parity]
                total = builder.xor(total, builder.conjoin(carry, mask))
            sums.append(builder.negate(total))
        return all_of(builder, sums)

    @staticmethod
    def _carry(builder: CircuitBuilder, left: list[int], right: list[int]) -> int:
        """The carry of left + right: c' = l xor (l xor r)(l xor c)."""
        carry = FALSE
        for a, b in zip(left, right, strict=True):
            changed = builder.conjoin(builder.xor(a, b), builder.xor(a, carry))
            carry = builder.xor(a, changed)
        return carry

    # -- shares

    def split_evaluator(self, shares: NDArray[np.object_], *, seed: bytes) -> tuple[Words, Words]:
        """Return the evaluator's part of values of shape (lanes, values), for the shared groups."""
        high = _cut(shares >> self.low_bits)
        return self._take_low(shares), _parity(high[:, None] & self._choices(seed), axes=(2, 3))

    def split_garbler(
        self, shares: NDArray[np.object_], *, seed: bytes
    ) -> tuple[Words, Words, Words]:
        """Return the garbler's part, for the shared groups and for its own."""
        low = self._take_low(shares)
        upper = ((1 << (self.low_bits - 1)) - shares) % (1 << SHARE_BITS) >> self.low_bits  # g'
        complement = self._every_bit ^ upper  # u
        after = _cut((complement + 1) & self._every_bit)
        chosen, changes = self._choices(seed), _cut(complement) ^ after
        parities = _parity(after[:, None] & chosen, axes=(2, 3))
        masks = _parity(changes[:, :, None] & chosen.transpose(1, 0, 2), axes=(3,))
        return low, parities, masks.reshape(len(shares), -1)

    def _take_low(self, shares: NDArray[np.object_]) -> Words:
        if shares.ndim != 2 or shares.shape[1] != self.values:
            raise InvalidInput("shares", f"shape {shares.shape}", f"(lanes, {self.values})")
        low: Words = (shares & ((1 << self.low_bits) - 1)).astype(np.uint64)
        return low

    @property
    def _every_bit(self) -> int:
        """A one for every upper bit."""
        return (1 << (SHARE_BITS - self.low_bits)) - 1

    def _choices(self, seed: bytes) -> Words:
        """The upper bits that each parity takes, as words: (parities, values, 2)."""
        size = self.parities * self.values * _SHARE_BYTES
        stream = hashlib.shake_128(b"helba parities" + seed).digest(size)
        drawn = np.frombuffer(stream, dtype="<u8").reshape(self.parities, self.values, _WORDS)
        return drawn & _cut(np.array([self._every_bit], dtype=object))


def _cut(numbers: NDArray[np.object_]) -> Words:
    """The numbers as two words each."""
    data = b"".join(each.to_bytes(_SHARE_BYTES, "little") for each in numbers.reshape(-1))
    return np.frombuffer(data, dtype="<u8").reshape(*numbers.shape, _WORDS)


def _parity(words: Words, *, axes: tuple[int, ...]) -> Words:
    """The parity of all bits of the words along these axes."""
    folded: Words = np.bitwise_xor.reduce(words, axis=axes)
    for shift in (32, 16, 8, 4, 2, 1):
        folded = folded ^ (folded >> np.uint64(shift))
    return folded & np.uint64(1)
