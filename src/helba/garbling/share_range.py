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
from helba.garbling.arithmetic import all_of
from helba.garbling.builder import FALSE, CircuitBuilder
from helba.garbling.circuit import ShareGroup

__all__ = ["PARITIES", "SHARE_BITS", "ShareRange"]

SHARE_BITS = 96
PARITIES = 40
_WORD_BYTES = SHARE_BITS // 8

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
    def shared_groups(self) -> tuple[ShareGroup, ShareGroup]:
        """Lower bits of the values, and parities of the upper ones."""
        offset = 1 << (self.low_bits - 1)
        return ShareGroup(self.values, self.low_bits, offset), ShareGroup(self.parities, 1)

    @property
    def garbler_group(self) -> ShareGroup:
        """For each value and parity a bit of the garbler alone."""
        return ShareGroup(self.values * self.parities, 1, garbler_only=True)

    def build(self, builder: CircuitBuilder, *, first: int, masks: int) -> int:
        """Return the wire that says whether all values are in range.

        `first` is the place of the lower bits among the builder's values, the parities follow them;
        `masks` is that of the garbler's own bits.
        """
        carries = [
            self._carry(builder, builder.evaluator[i], builder.garbler[i])
            for i in range(first, first + self.values)
        ]
        sums = []
        for parity in range(self.parities):
            place = first + self.values + parity
            (theirs,), (own,) = builder.evaluator[place], builder.garbler[place]
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
        low, high = self._cut(shares)
        return low, self._parities(high, seed=seed)

    def split_garbler(
        self, shares: NDArray[np.object_], *, seed: bytes
    ) -> tuple[Words, Words, Words]:
        """Return the garbler's part, for the shared groups and for its own."""
        low, _ = self._cut(shares)
        modulus, width = 1 << SHARE_BITS, SHARE_BITS - self.low_bits
        raised = ((1 << (self.low_bits - 1)) - shares) % modulus  # g'
        upper = raised >> self.low_bits
        complement = (1 << width) - 1 - upper  # u
        after = (complement + 1) % (1 << width)
        _, after_bits = self._cut(after << self.low_bits)
        _, changes = self._cut((complement ^ after) << self.low_bits)
        parities = self._parities(after_bits, seed=seed)
        lanes = len(shares)
        chosen = self._choices(seed).reshape(self.parities, self.values, width)
        bits = changes.reshape(lanes, self.values, width).astype(np.float32)
        masks = np.einsum("pvw,lvw->lvp", chosen, bits, optimize=True).astype(np.int64) & 1
        return low, parities, masks.reshape(lanes, -1).astype(np.uint64)

    def _cut(self, shares: NDArray[np.object_]) -> tuple[Words, NDArray[np.uint8]]:
        """The lower bits as words, and the upper ones as bits: (lanes, values x upper bits)."""
        if shares.ndim != 2 or shares.shape[1] != self.values:
            raise InvalidInput("shares", f"shape {shares.shape}", f"(lanes, {self.values})")
        lanes = len(shares)
        data = b"".join(int(each).to_bytes(_WORD_BYTES, "little") for each in shares.reshape(-1))
        packed = np.frombuffer(data, dtype=np.uint8).reshape(-1, _WORD_BYTES)
        words = packed[:, :8].copy().view("<u8").reshape(lanes, self.values)
        low = words & np.uint64((1 << self.low_bits) - 1)
        bits = np.unpackbits(packed, axis=1, bitorder="little")[:, self.low_bits :]
        return low, bits.reshape(lanes, -1)

    def _parities(self, bits: NDArray[np.uint8], *, seed: bytes) -> Words:
        counts = bits.astype(np.float32) @ self._choices(seed).T
        return counts.astype(np.uint64) & np.uint64(1)

    def _choices(self, seed: bytes) -> NDArray[np.float32]:
        """Which upper bits a parity takes: (parities, values x upper bits), exact in floats."""
        width = self.values * (SHARE_BITS - self.low_bits)
        count = self.parities * width
        stream = hashlib.shake_128(b"helba parities" + seed).digest(-(-count // 8))
        bits = np.unpackbits(np.frombuffer(stream, dtype=np.uint8), count=count)
        return bits.reshape(self.parities, width).astype(np.float32)
