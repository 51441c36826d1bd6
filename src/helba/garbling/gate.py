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
    tables = np.empty((TABLE_LABELS * circuit.and_gates * inputs.shape[1], 2), dtype=np.uint64)
    work = _Work(circuit, inputs=inputs, key=key, copies=2)
    offsets = np.tile(offset, (work.capacity, 1))
    for step in work.run(constant=offset):
        half = step.gates * work.lanes
        count = 2 * half
        first, tweaks = work.next_tweaks(count)
        table = tables[first : first + count]
        both = work.labels[: 2 * count].reshape(2, count, 2)
        zero = work.gather(step, out=both[0])
        np.bitwise_xor(zero, offsets[:count], out=both[1])
        hashes = work.hash(both, tweaks=tweaks, first=first)
        masks = work.mask(zero)
        np.bitwise_xor(hashes[0], hashes[1], out=table)
        table[:half] ^= np.bitwise_and(masks[half:], offsets[:half], out=both[1, :half])
        masks &= table
        masks ^= hashes[0]
        np.bitwise_xor(masks[:half], masks[half:], out=work.targets(step))
        table[half:] ^= zero[:half]
    return tables, work.outputs


def evaluate(circuit: Circuit, *, inputs: Labels, tables: Labels, key: bytes) -> Labels:
    """Return the labels of the outputs, given one label of every input; shapes as in `garble`.

    Damaged tables or labels give other labels, never an error.
    """
    work = _Work(circuit, inputs=inputs, key=key, copies=1)
    for step in work.run(constant=np.zeros(2, dtype=np.uint64)):
        half = step.gates * work.lanes
        count = 2 * half
        first, tweaks = work.next_tweaks(count)
        table = tables[first : first + count]
        labels = work.gather(step, out=work.labels[:count])
        hashes = work.hash(labels, tweaks=tweaks, first=first)
        masks = work.mask(labels)
        masks[:half] &= table[:half]
        labels[:half] ^= table[half:]
        masks[half:] &= labels[:half]
        masks ^= hashes
        np.bitwise_xor(masks[:half], masks[half:], out=work.targets(step))
    return work.outputs


class _Work:
    """Buffers of one run, and the order of lanes, tables and tweaks that both parties follow."""

    def __init__(self, circuit: Circuit, *, inputs: Labels, key: bytes, copies: int) -> None:
        self._circuit, self._inputs = circuit, inputs
        self._places = np.concatenate([circuit.user_outputs, circuit.returned_outputs])
        self.outputs = np.empty((len(self._places), inputs.shape[1], 2), dtype=np.uint64)
        self.lanes = min(inputs.shape[1], max(1, _BLOCK_BYTES // (16 * circuit.wires)))
        self.capacity = 2 * circuit.widest_and * self.lanes
        widest = 2 * circuit.widest_step * self.lanes
        self.hash = TweakHash(key, capacity=copies * self.capacity).hash
        self.labels = np.empty((max(copies * self.capacity, widest), 2), dtype=np.uint64)
        self._masks = np.empty((self.capacity, 2), dtype=np.uint64)
        self._colours = np.empty(self.capacity, dtype=np.intp)
        self._tweaks = np.zeros((self.capacity, 2), dtype=np.uint64)
        self._numbers = np.arange(self.capacity, dtype=np.uint64)
        self._wires = np.empty((circuit.wires, 2 * self.lanes), dtype=np.uint64)
        self._used = 0

    def run(self, *, constant: Labels) -> Iterator[Step]:
        """Yield every step of AND gates, for one block of lanes after the other.

        The wires then hold what the step needs: `constant` for the constant one, and all before it.
        """
        for first in range(0, self._inputs.shape[1], self.lanes):
            block = slice(first, first + self.lanes)
            inputs = self._inputs[:, block]
            if inputs.shape[1] != self.lanes:
                self.lanes = inputs.shape[1]
                self._wires = np.empty((self._circuit.wires, 2 * self.lanes), dtype=np.uint64)
            self._wires[0].reshape(-1, 2)[...] = constant
            self._wires[1 : 1 + len(inputs)].reshape(inputs.shape)[...] = inputs
            for step in self._circuit.steps:
                if step.is_and:
                    yield step
                else:
                    self._xor(step)
            self.outputs[:, block] = self._wires[self._places].reshape(-1, self.lanes, 2)

    def next_tweaks(self, count: int) -> tuple[int, Labels]:
        """Return the next `count` tweaks and the number of the first; no two are equal."""
        first, tweaks = self._used, self._tweaks[:count]
        np.add(self._numbers[:count], np.uint64(first), out=tweaks[:, 0])
        self._used += count
        return first, tweaks

    def gather(self, step: Step, *, out: Labels) -> Labels:
        """Write the labels of a step's left inputs and then its right ones to `out`."""
        # Indices are right by construction; 'clip' spares numpy a copy.
        self._wires.take(step.inputs, axis=0, out=out.reshape(2 * step.gates, -1), mode="clip")
        return out

    def _xor(self, step: Step) -> None:
        gates, wires = step.gates, self._wires
        labels = self.labels[: 2 * gates * self.lanes].reshape(2 * gates, -1)
        wires.take(step.inputs, axis=0, out=labels, mode="clip")
        np.bitwise_xor(labels[:gates], labels[gates:], out=wires[step.start : step.stop])

    def targets(self, step: Step) -> Labels:
        """Return the wires that a step writes, as labels."""
        return self._wires[step.start : step.stop].reshape(-1, 2)

    def mask(self, labels: Labels) -> Labels:
        """Return all ones where a label's colour is 1, zeros elsewhere."""
        colours = self._colours[: len(labels)]
        np.bitwise_and(labels[:, 0], _LOWEST, out=colours.view(np.uint64))
        masks = self._masks[: len(labels)]
        _MASKS.take(colours, axis=0, out=masks, mode="clip")
        return masks
