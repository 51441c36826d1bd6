"""Boolean circuits on shares as data: what they compute, and in which order.

A circuit works on values modulo 2^bits that are shared between two parties:

    value = evaluator's share - garbler's share + offset  (modulo 2^bits)

with a public offset that costs no gate, because the garbler adds it to its own share. It says
nothing about how many lanes (users, groups) are computed at once. Wire 0 is the constant one; then
come the evaluator's bits, the garbler's bits, and the gates in the order of the steps. A step holds
gates that do not depend on each other, all of one kind, so that each is one call on whole arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from helba.errors import InvalidInput, require_whole

MAX_LANES = 1 << 16
MAX_BITS = 128
"""Bits of a shared value: enough for inputs that are shared modulo 2^96."""

WORD_BITS = 64

Bits = npt.NDArray[np.bool_]
Shares: TypeAlias = "npt.NDArray[Any] | Sequence[npt.NDArray[Any]]"
"""Shares of shape (lanes, values): one array, or one array for every group of the circuit.

Words of 64 bits; for wider groups Python's integers, in arrays of objects.
"""


@dataclass(frozen=True)
class ShareGroup:
    """A number of values a lane, all of the same width and with the same public offset.

    Of a group that is `garbler_only` the evaluator has no share, and nothing is transferred: its
    values are minus what the garbler puts in, plus the offset.
    """

    values: int
    bits: int
    offset: int = 0
    garbler_only: bool = False

    def __post_init__(self) -> None:
        require_whole("values", self.values, least=1, most=1 << 16)
        require_whole("bits", self.bits, least=1, most=MAX_BITS)
        # Plain integers, reduced: equal groups then have equal digests.
        object.__setattr__(self, "values", int(self.values))
        object.__setattr__(self, "bits", int(self.bits))
        object.__setattr__(self, "offset", int(self.offset) % (1 << self.bits))


@dataclass(frozen=True, eq=False)
class Step:
    """Independent gates of one kind; `inputs` lists all left inputs, then all right ones."""

    is_and: bool
    inputs: npt.NDArray[np.intp]
    start: int
    stop: int

    @property
    def gates(self) -> int:
        """The number of gates."""
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class Circuit:
    """A circuit, ready to be run on any number of lanes. Made by `CircuitBuilder`."""

    groups: tuple[ShareGroup, ...]
    wires: int
    steps: tuple[Step, ...]
    user_outputs: npt.NDArray[np.intp]
    returned_outputs: npt.NDArray[np.intp]

    def __repr__(self) -> str:
        return f"Circuit({self.and_gates} AND gates, depth {self.depth})"

    @property
    def evaluator_groups(self) -> tuple[ShareGroup, ...]:
        """The groups of which the evaluator has a share."""
        return tuple(group for group in self.groups if not group.garbler_only)

    @cached_property
    def input_bits(self) -> int:
        """The number of bits that the evaluator puts in, a lane: what is transferred."""
        return sum(group.values * group.bits for group in self.evaluator_groups)

    @cached_property
    def garbler_bits(self) -> int:
        """The number of bits that the garbler puts in, a lane."""
        return sum(group.values * group.bits for group in self.groups)

    @cached_property
    def and_gates(self) -> int:
        """The number of AND gates, a lane."""
        return sum(step.gates for step in self.steps if step.is_and)

    @cached_property
    def depth(self) -> int:
        """The number of AND gates on the longest path."""
        return sum(step.is_and for step in self.steps)

    @cached_property
    def widest_and(self) -> int:
        """The largest number of AND gates of a step."""
        return max((step.gates for step in self.steps if step.is_and), default=0)

    @cached_property
    def widest_step(self) -> int:
        """The largest number of gates of a step."""
        return max((step.gates for step in self.steps), default=0)

    @cached_property
    def digest(self) -> bytes:
        """Sixteen bytes that name the circuit: equal for equal gates, inputs and outputs."""
        text = sha256(repr((self.groups, self.wires)).encode())
        for step in self.steps:
            text.update(repr((step.is_and, step.start, step.stop)).encode())
            text.update(step.inputs.astype("<i8").tobytes())
        for outputs in (self.user_outputs, self.returned_outputs):
            text.update(repr(len(outputs)).encode() + outputs.astype("<i8").tobytes())
        return text.digest()[:16]

    def split_evaluator(self, shares: Shares) -> Bits:
        """Return the evaluator's bits, of shape (bits, lanes), lowest bit of a value first."""
        groups = self.evaluator_groups
        arrays = _as_groups(groups, shares)
        return np.concatenate([_split(a, g) for a, g in zip(arrays, groups, strict=True)])

    def split_garbler(self, shares: Shares) -> Bits:
        """Return the bits of offset - share: what the garbler adds to the evaluator's share."""
        arrays = _as_groups(self.groups, shares)
        return np.concatenate(
            [_split(_minus(a, g), g) for a, g in zip(arrays, self.groups, strict=True)]
        )


def evaluate_bits(circuit: Circuit, inputs: Bits) -> Bits:
    """Return the output bits for the evaluator's and then the garbler's bits, all (bits, lanes)."""
    wires = np.empty((circuit.wires, inputs.shape[1]), dtype=np.bool_)
    wires[0] = True
    wires[1 : 1 + len(inputs)] = inputs
    for step in circuit.steps:
        both = wires.take(step.inputs, axis=0)
        combine = np.logical_and if step.is_and else np.logical_xor
        combine(both[: step.gates], both[step.gates :], out=wires[step.start : step.stop])
    outputs: Bits = wires[np.concatenate([circuit.user_outputs, circuit.returned_outputs])]
    return outputs


def _as_groups(groups: Sequence[ShareGroup], shares: Shares) -> list[npt.NDArray[Any]]:
    arrays = [shares] if isinstance(shares, np.ndarray) else list(shares)
    if len(arrays) != len(groups):
        raise InvalidInput("shares", f"{len(arrays)} arrays", f"{len(groups)} arrays")
    for array, group in zip(arrays, groups, strict=True):
        wide = group.bits > WORD_BITS
        wanted = np.dtype(object if wide else np.uint64)
        if array.dtype != wanted or array.ndim != 2 or array.shape[1] != group.values:
            raise InvalidInput(
                "shares",
                f"{array.dtype} of shape {array.shape}",
                f"{wanted} of shape (lanes, {group.values})",
            )
        if not _fits(array, group):
            raise InvalidInput("shares", "a number outside", f"from 0 to 2^{group.bits} - 1")
    lanes = {array.shape[0] for array in arrays}
    if len(lanes) != 1 or not 1 <= min(lanes) <= MAX_LANES:
        raise InvalidInput("lanes of the shares", sorted(lanes), f"one number, 1 to {MAX_LANES}")
    return arrays


def _fits(array: npt.NDArray[Any], group: ShareGroup) -> bool:
    if group.bits > WORD_BITS:
        return all(isinstance(v, int) and 0 <= v < 1 << group.bits for v in array.reshape(-1))
    return group.bits == WORD_BITS or not (array >> np.uint64(group.bits)).any()


def _minus(array: npt.NDArray[Any], group: ShareGroup) -> npt.NDArray[Any]:
    """Return offset - share; of words only the lowest bits count."""
    if group.bits > WORD_BITS:
        wide: npt.NDArray[Any] = (group.offset - array) % (1 << group.bits)
        return wide
    return np.uint64(group.offset) - array


def _split(values: npt.NDArray[Any], group: ShareGroup) -> Bits:
    if group.bits > WORD_BITS:
        size = MAX_BITS // 8
        data = b"".join(v.to_bytes(size, "little") for v in values.T.reshape(-1))
        packed = np.frombuffer(data, dtype=np.uint8).reshape(-1, values.shape[0], size)
        wide = np.unpackbits(packed, axis=2, count=group.bits, bitorder="little")
        return wide.transpose(0, 2, 1).reshape(-1, values.shape[0]).astype(np.bool_)
    places = np.arange(group.bits, dtype=np.uint64)
    bits = (values.T[:, None, :] >> places[None, :, None]) & np.uint64(1)
    return bits.reshape(-1, values.shape[0]).astype(np.bool_)
