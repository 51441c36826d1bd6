"""Half gates: garbling and evaluating a circuit over many lanes at once.

Zahur, Rosulek, Evans, "Two Halves Make a Whole" (EUROCRYPT 2015, ePrint 2014/756), figure 2, with
free XOR (Kolesnikov, Schneider, ICALP 2008): a wire has two labels, W for zero and W xor R for one,
with one secret offset R whose lowest bit is 1, so that the lowest bit of a label, its colour, tells
the two apart and says nothing about the bit. An AND gate costs two ciphertexts; with colours pa and
pb of its zero labels A and B, and two tweaks j and j' of its own,

    garbler's half    TG = H(A, j) xor H(A xor R, j) xor pb R     WG = H(A, j) xor pa TG
    evaluator's half  TE = H(B, j') xor H(B xor R, j') xor A      WE = H(B, j') xor pb (TE xor A)

and the output's zero label is WG xor WE. Their theorem: the scheme is private, oblivious and
authentic if H is (tweakable) circular correlation robust for R, which `tweak_hash` is. Labels that
the evaluator holds may be of anybody's choice in that definition, so its input labels can come out
of the transfer, and the garbler's own can be expanded from a seed that the evaluator sees.

Tweaks number all halves of all gates and lanes of a circuit: no two are equal. Gates of a step are
one call. Lanes are worked through in blocks, so that the wires stay within some megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import numpy as np
import numpy.typing as npt

from helba.garbling.circuits.circuit import Circuit, Step
from helba.garbling.tweak_hash import Labels, TweakHash

TABLE_LABELS = 2
"""Labels in the table of one AND gate."""

# Part of the wire format: it decides the order of tables and tweaks. Another value needs another
# version of the messages.
_BLOCK_BYTES = 32 << 20
_LOWEST = np.uint64(1)
_MASKS = np.array([[0, 0], [2**64 - 1, 2**64 - 1]], dtype=np.uint64)


def take_colours(labels: Labels) -> npt.NDArray[np.bool_]:
    """Return the lowest bits of labels of shape (..., 2)."""
    return (labels[..., 0] & _LOWEST).astype(np.bool_)


def garble(
    circuit: Circuit, *, inputs: Labels, offset: Labels, key: bytes
) -> tuple[Labels, Labels]:
    """Return the tables, and the zero labels of the outputs: those for the user, then returned.

    `inputs` are the zero labels of the evaluator's and then the garbler's bits, of shape (bits,
    lanes, 2); outputs have the same shape; tables have shape (2 x gates x lanes, 2).
    """
    lanes = inputs.shape[1]
    tables = np.empty((TABLE_LABELS * circuit.and_gates * lanes, 2), dtype=np.uint64)
    outputs = _make_outputs(circuit, lanes)
    work = _Work(circuit, lanes=lanes, key=key, copies=2)
    offsets = np.tile(offset, (max(work.capacity, work.lanes), 1))
    for block in work.blocks():
        wires = work.place(inputs[:, block], constant=offsets)
        for step in circuit.steps:
            if not step.is_and:
                work.xor(wires, step)
                continue
            count, half = work.count(step)
            table = work.cut(tables, count)
            first, tweaks = work.next_tweaks(count)
            both = work.labels[: 2 * count].reshape(2, count, 2)
            zero = work.gather(wires, step, out=both[0])
            np.bitwise_xor(zero, offsets[:count], out=both[1])
            hashes = work.hash(both, tweaks=tweaks, first=first)
            masks = work.mask(zero)
            np.bitwise_xor(hashes[0], hashes[1], out=table)
            table[:half] ^= np.bitwise_and(masks[half:], offsets[:half], out=both[1, :half])
            masks &= table
            masks ^= hashes[0]
            np.bitwise_xor(masks[:half], masks[half:], out=work.outputs(wires, step))
            table[half:] ^= zero[:half]
        work.read(wires, outputs[:, block])
    return tables, outputs


def evaluate(circuit: Circuit, *, inputs: Labels, tables: Labels, key: bytes) -> Labels:
    """Return the labels of the outputs, given one label of every input; shapes as in `garble`.

    Damaged tables or labels give other labels, never an error.
    """
    lanes = inputs.shape[1]
    outputs = _make_outputs(circuit, lanes)
    work = _Work(circuit, lanes=lanes, key=key, copies=1)
    constant = np.zeros((work.lanes, 2), dtype=np.uint64)
    for block in work.blocks():
        wires = work.place(inputs[:, block], constant=constant)
        for step in circuit.steps:
            if not step.is_and:
                work.xor(wires, step)
                continue
            count, half = work.count(step)
            table = work.cut(tables, count)
            first, tweaks = work.next_tweaks(count)
            labels = work.gather(wires, step, out=work.labels[:count])
            hashes = work.hash(labels, tweaks=tweaks, first=first)
            masks = work.mask(labels)
            masks[:half] &= table[:half]
            labels[:half] ^= table[half:]
            masks[half:] &= labels[:half]
            masks ^= hashes
            np.bitwise_xor(masks[:half], masks[half:], out=work.outputs(wires, step))
        work.read(wires, outputs[:, block])
    return outputs


def _make_outputs(circuit: Circuit, lanes: int) -> Labels:
    count = len(circuit.user_outputs) + len(circuit.returned_outputs)
    return np.empty((count, lanes, 2), dtype=np.uint64)


class _Work:
    """Buffers of one run, and the order of lanes, tables and tweaks that both parties follow."""

    def __init__(self, circuit: Circuit, *, lanes: int, key: bytes, copies: int) -> None:
        self._circuit, self._all_lanes = circuit, lanes
        self.lanes = min(lanes, max(1, _BLOCK_BYTES // (16 * circuit.wires)))
        self.capacity = 2 * circuit.widest_and * self.lanes
        widest = 2 * circuit.widest_step * self.lanes
        self._hash = TweakHash(key, capacity=copies * self.capacity)
        self.labels = np.empty((max(copies * self.capacity, widest), 2), dtype=np.uint64)
        self._masks = np.empty((self.capacity, 2), dtype=np.uint64)
        self._colours = np.empty(self.capacity, dtype=np.intp)
        self._tweaks = np.zeros((self.capacity, 2), dtype=np.uint64)
        self._numbers = np.arange(self.capacity, dtype=np.uint64)
        self._wires = np.empty((circuit.wires, 2 * self.lanes), dtype=np.uint64)
        self._used = 0
        self.hash = self._hash.hash

    def blocks(self) -> Iterator[slice]:
        """Yield the lanes of one block after the other."""
        for first in range(0, self._all_lanes, self.lanes):
            last = min(first + self.lanes, self._all_lanes)
            if last - first != self.lanes:
                self.lanes = last - first
                self._wires = np.empty((self._circuit.wires, 2 * self.lanes), dtype=np.uint64)
            yield slice(first, last)

    def place(self, inputs: Labels, *, constant: Labels) -> Labels:
        """Return the wires of this block, with the constant one and the inputs in place."""
        self._wires[0] = constant[: self.lanes].reshape(-1)
        end = 1 + inputs.shape[0]
        self._wires[1:end].reshape(inputs.shape)[...] = inputs
        return self._wires

    def count(self, step: Step) -> tuple[int, int]:
        """Return the number of halves of a step's gates and lanes, and of one kind of them."""
        half = step.gates * self.lanes
        return 2 * half, half

    def cut(self, tables: Labels, count: int) -> Labels:
        """Return the tables of the step at hand: garbler's halves first."""
        return tables[self._used : self._used + count]

    def next_tweaks(self, count: int) -> tuple[int, Labels]:
        """Return the next `count` tweaks and the number of the first; no two are equal."""
        first, tweaks = self._used, self._tweaks[:count]
        np.add(self._numbers[:count], np.uint64(first), out=tweaks[:, 0])
        self._used += count
        return first, tweaks

    def gather(self, wires: Labels, step: Step, *, out: Labels) -> Labels:
        """Write the labels of a step's left inputs and then its right ones to `out`."""
        # Indices are right by construction; 'clip' spares numpy a copy.
        wires.take(step.inputs, axis=0, out=out.reshape(2 * step.gates, -1), mode="clip")
        return out

    def xor(self, wires: Labels, step: Step) -> None:
        """Run a step of XOR gates."""
        labels = self.labels[: 2 * step.gates * self.lanes].reshape(2 * step.gates, -1)
        wires.take(step.inputs, axis=0, out=labels, mode="clip")
        np.bitwise_xor(
            labels[: step.gates], labels[step.gates :], out=wires[step.start : step.stop]
        )

    def outputs(self, wires: Labels, step: Step) -> Labels:
        """Return the wires that a step writes, as labels."""
        return wires[step.start : step.stop].reshape(-1, 2)

    def mask(self, labels: Labels) -> Labels:
        """Return all ones where a label's colour is 1, zeros elsewhere."""
        colours = self._colours[: len(labels)]
        np.bitwise_and(labels[:, 0], _LOWEST, out=colours.view(np.uint64))
        masks = self._masks[: len(labels)]
        _MASKS.take(colours, axis=0, out=masks, mode="clip")
        return masks

    def read(self, wires: Labels, outputs: Labels) -> None:
        """Copy the labels of the outputs."""
        places = np.concatenate([self._circuit.user_outputs, self._circuit.returned_outputs])
        outputs[...] = cast(Labels, wires[places].reshape(outputs.shape))
