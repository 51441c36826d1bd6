"""The clear backend: the same interface and sizes, and plainly no secrecy."""

import numpy as np
import pytest

from helba.errors import DamagedData, Refused
from helba.garbling import EvaluatorSession, GarblerSession
from tests.garbling.parties import build_threshold, share

CIRCUIT = build_threshold(bits=8)


def draw():
    rng = np.random.default_rng(0)
    return share(rng.integers(-128, 128, size=(64, 1)), bits=8, rng=rng)


def test_clear_transfer_carries_the_bits_as_they_are(clear_parties):
    own, _ = draw()
    transfer = clear_parties[1].begin(CIRCUIT, shares=own)
    bits = np.unpackbits(transfer.columns[0], bitorder="little")[: 8 * 64].reshape(8, 64)
    assert np.array_equal(bits.T @ (1 << np.arange(8)), own[:, 0])


def test_clear_sessions_keep_the_same_rules(clear_parties):
    garbler, evaluator = clear_parties
    own, masks = draw()
    transfer = evaluator.begin(CIRCUIT, shares=own)
    tables = garbler.garble(CIRCUIT, shares=masks, transfer=transfer).tables
    with pytest.raises(Refused):
        garbler.garble(CIRCUIT, shares=masks, transfer=transfer)
    returned = evaluator.evaluate(tables).returned
    with pytest.raises(DamagedData):
        evaluator.evaluate(tables)
    garbler.finish(returned)
    with pytest.raises(DamagedData):
        garbler.finish(returned)


def test_clear_and_garbled_sessions_do_not_mix(clear_parties):
    garbler = type(clear_parties[0])()
    with pytest.raises(DamagedData, match="prime-order group"):
        EvaluatorSession().answer(garbler.offer())
    answer = type(clear_parties[1])().answer((real := GarblerSession()).offer())
    with pytest.raises(DamagedData, match="prime-order group"):
        real.complete(answer)
