"""Helpers of these tests: two parties that are set up, and an opening from beginning to end."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from helba.garbling import (
    Circuit,
    EvaluatorSession,
    Garbled,
    GarblerSession,
    ReturnedMessage,
    SetupAnswer,
    SetupOffer,
    TablesMessage,
    TransferMessage,
    build_ranges_check,
    combine,
)
from helba.garbling.circuits.circuit import evaluate_bits
from helba.garbling.session import Evaluated


@dataclass
class Outcome:
    """Everything that one opening has produced."""

    transfer: TransferMessage
    garbled: Garbled
    evaluated: Evaluated
    user: np.ndarray
    returned: np.ndarray | None


def set_up(garbler: GarblerSession, evaluator: EvaluatorSession) -> None:
    offer = SetupOffer.from_bytes(garbler.offer().to_bytes())
    garbler.complete(SetupAnswer.from_bytes(evaluator.answer(offer).to_bytes()))


def open_shares(parties, circuit: Circuit, *, evaluator, garbler) -> Outcome:
    """Run an opening, every message as bytes."""
    lanes = circuit.split_garbler(garbler).shape[1]
    named = {"circuit": circuit, "lanes": lanes}
    one, other = parties
    transfer = other.begin(circuit, shares=evaluator).to_bytes()
    transfer = TransferMessage.from_bytes(transfer, **named)
    garbled = one.garble(circuit, shares=garbler, transfer=transfer)
    tables = TablesMessage.from_bytes(garbled.tables.to_bytes(), **named)
    evaluated = other.evaluate(tables)
    bits = None
    if evaluated.returned is not None:
        bits = one.finish(ReturnedMessage.from_bytes(evaluated.returned.to_bytes(), **named))
    user = combine(garbled.decoding, evaluated.colours)
    return Outcome(transfer, garbled, evaluated, user, bits)


def build_threshold(*, bits: int, limit: int = 0) -> Circuit:
    """Return the circuit for one signed value a lane that returns the bit value >= limit."""
    return build_ranges_check(((limit, (1 << (bits - 1)) - 1),), bits=bits)


def evaluate_clear(circuit: Circuit, *, evaluator, garbler):
    """Return the outputs for the user and the returned ones, each of shape (lanes, outputs).

    The oracle of garbling: it runs the same gates on the bits themselves.
    """
    bits = circuit.split_evaluator(evaluator), circuit.split_garbler(garbler)
    outputs = evaluate_bits(circuit, np.concatenate(bits)).T.copy()
    users = len(circuit.user_outputs)
    return outputs[:, :users], outputs[:, users:]


def share(values: np.ndarray, *, bits: int, rng: np.random.Generator):
    """Return the evaluator's and the garbler's shares of signed values; some masks are extreme."""
    modulus = (1 << bits) - 1
    masks = rng.integers(0, modulus, size=values.shape, dtype=np.uint64, endpoint=True)
    masks[rng.random(values.shape) < 0.05] = 0
    masks[rng.random(values.shape) < 0.05] = modulus
    own = (values.astype(np.int64).view(np.uint64) + masks) & np.uint64(modulus)
    return own, masks


def draw_values(shape, *, bits: int, rng: np.random.Generator) -> np.ndarray:
    """Return signed values modulo 2^bits with many ties, neighbours and extremes."""
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    values = rng.integers(low, high, size=shape, endpoint=True)
    special = np.array([low, low + 1, -2, -1, 0, 1, 2, high - 1, high])
    picked = rng.random(shape) < 0.4
    values[picked] = rng.choice(special, size=int(picked.sum()))
    ties = rng.random(shape[0]) < 0.3
    values[ties] = values[ties, :1] + rng.integers(-1, 1, size=(int(ties.sum()), shape[1]))
    return wrap(values, bits=bits)


def wrap(values: np.ndarray, *, bits: int) -> np.ndarray:
    """Return values modulo 2^bits as signed numbers."""
    return (values.astype(np.int64) << (64 - bits)) >> (64 - bits)
