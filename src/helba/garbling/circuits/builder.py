"""Building circuits gate by gate.

A wire under construction is a literal, 2 node + negated: NOT is free, constants and repeated gates
are folded, gates that no output needs are left out. `build` orders the gates by AND depth, and
within it by XOR depth, so that all independent gates of a kind stand in one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, groupby

import numpy as np
import numpy.typing as npt

from helba.errors import InvalidInput
from helba.garbling.circuits.circuit import Circuit, ShareGroup, Step

FALSE, TRUE = 0, 1
_Gate = tuple[bool, int, int]


class CircuitBuilder:
    """A circuit under construction; `evaluator` and `garbler` hold literals, value by value.

    Both have one list of bits, lowest first, for every value of every group; groups that are the
    garbler's alone come last. The garbler's bits are those of offset - share, so that a value is
    the sum of its two lists (see `arithmetic.add`).
    """

    def __init__(self, *groups: ShareGroup) -> None:
        self.groups = groups
        shared = [group for group in groups if not group.garbler_only]
        if list(groups[: len(shared)]) != shared:
            raise InvalidInput("groups", "another order", "those of the garbler alone last")
        self._gates: list[_Gate] = []
        self._known: dict[_Gate, int] = {}
        nodes = count(1)  # the evaluator's bits first, then the garbler's: digests depend on it
        self.evaluator, self.garbler = (
            [[2 * next(nodes) for _ in range(g.bits)] for g in part for _ in range(g.values)]
            for part in (shared, groups)
        )
        self._inputs = next(nodes) - 1

    def _gate(self, is_and: bool, left: int, right: int) -> int:
        gate = (is_and, left, right) if left < right else (is_and, right, left)
        node = self._known.get(gate)
        if node is None:
            self._gates.append(gate)
            node = self._known[gate] = self._inputs + len(self._gates)
        return 2 * node

    def negate(self, wire: int) -> int:
        """Return NOT wire; free."""
        return wire ^ 1

    def xor(self, left: int, right: int) -> int:
        """Return left XOR right; free of tables."""
        negated, left, right = (left ^ right) & 1, left & ~1, right & ~1
        if left == right:
            return negated
        if FALSE in (left, right):
            return (left | right) ^ negated
        return self._gate(False, left, right) ^ negated

    def conjoin(self, left: int, right: int) -> int:
        """Return left AND right."""
        if FALSE in (left, right) or left == right ^ 1:
            return FALSE
        if left in (TRUE, right):
            return right
        if right == TRUE:
            return left
        return self._gate(True, left, right)

    def disjoin(self, left: int, right: int) -> int:
        """Return left OR right; one AND."""
        return self.conjoin(left ^ 1, right ^ 1) ^ 1

    def build(self, *, user: Sequence[int] = (), returned: Sequence[int] = ()) -> Circuit:
        """Return the circuit with these outputs: for the user, and returned to the garbler."""
        for wire in returned:
            if wire in (FALSE, TRUE):
                raise InvalidInput("returned", "a constant", "wires that depend on inputs")
        wires = {TRUE: 0} | {2 * node: node for node in range(1, self._inputs + 1)}
        steps = []
        end = self._inputs + 1
        for (_, level), gates in groupby(self._order([*user, *returned]), key=lambda g: g[0]):
            lefts, rights, start = [], [], end
            for _, left, right, output in gates:
                lefts.append(wires[left])
                rights.append(wires[right])
                wires[output] = end
                end += 1
            inputs = _freeze(lefts + rights)
            steps.append(Step(is_and=level == 0, inputs=inputs, start=start, stop=end))
        return Circuit(
            groups=self.groups,
            wires=end,
            steps=tuple(steps),
            user_outputs=_freeze([wires[w] for w in user]),
            returned_outputs=_freeze([wires[w] for w in returned]),
        )

    def _order(self, outputs: Sequence[int]) -> list[tuple[tuple[int, int], int, int, int]]:
        """Return the needed gates as ((AND depth, XOR depth), left, right, output), in order.

        AND gates have XOR depth 0. A negation is an XOR with the constant one.
        """
        needed = set()
        waiting = [wire >> 1 for wire in outputs]
        while waiting:
            node = waiting.pop()
            if node > self._inputs and node not in needed:
                needed.add(node)
                _, left, right = self._gates[node - self._inputs - 1]
                waiting += [left >> 1, right >> 1]
        places = {TRUE: (0, 0)} | {2 * node: (0, 0) for node in range(1, self._inputs + 1)}
        ordered = []

        def place(wire: int) -> tuple[int, int]:
            if wire not in places:  # a negation, or the constant zero
                ands, xors = (0, 0) if wire == FALSE else places[wire ^ 1]
                places[wire] = (ands, xors + 1)
                other = TRUE if wire == FALSE else wire ^ 1
                ordered.append((places[wire], TRUE, other, wire))
            return places[wire]

        for node in sorted(needed):
            is_and, left, right = self._gates[node - self._inputs - 1]
            latest = max(place(left), place(right))
            places[2 * node] = (latest[0] + 1, 0) if is_and else (latest[0], latest[1] + 1)
            ordered.append((places[2 * node], left, right, 2 * node))
        for wire in outputs:
            place(wire)
        return sorted(ordered, key=lambda gate: gate[0])


def join_copies(circuit: Circuit, *, copies: int) -> Circuit:
    """Return the circuit that runs copies of a circuit and returns the AND of their returned bits.

    The circuit has one group of values and returns one bit; the copies' values follow each other.
    To build thousands of equal gates one by one would take seconds.
    """
    copies = int(copies)  # numpy's integers have another digest
    (group,) = circuit.evaluator_groups
    (verdict,) = circuit.returned_outputs
    bits = circuit.input_bits
    number = np.arange(copies)[:, None]
    places = np.zeros((copies, circuit.wires), dtype=np.intp)
    places[:, 1 : 1 + bits] = 1 + bits * number + np.arange(bits)
    places[:, 1 + bits : 1 + 2 * bits] = 1 + bits * (copies + number) + np.arange(bits)
    end = 1 + 2 * bits * copies
    steps = []
    for step in circuit.steps:
        places[:, step.start : step.stop] = end + step.gates * number + np.arange(step.gates)
        inputs = _freeze(places[:, step.inputs].reshape(copies, 2, -1).swapaxes(0, 1).reshape(-1))
        steps.append(Step(step.is_and, inputs, start=end, stop=end + copies * step.gates))
        end += copies * step.gates
    verdicts = places[:, verdict]
    while len(verdicts) > 1:
        half = len(verdicts) // 2
        inputs = _freeze(verdicts[: 2 * half])
        steps.append(Step(is_and=True, inputs=inputs, start=end, stop=end + half))
        verdicts = np.concatenate([np.arange(end, end + half), verdicts[2 * half :]])
        end += half
    return Circuit(
        groups=(ShareGroup(copies * group.values, group.bits, group.offset),),
        wires=end,
        steps=tuple(steps),
        user_outputs=_freeze([]),
        returned_outputs=_freeze(verdicts),
    )


def _freeze(places: Sequence[int] | npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    array = np.array(places, dtype=np.intp)
    array.setflags(write=False)
    return array
