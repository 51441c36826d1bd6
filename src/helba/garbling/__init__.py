"""Garbled circuits for two parties: the garbler (server) and the evaluator (opener).

Each holds one share of every value, value = evaluator's share - garbler's share modulo 2^bits, and
both learn nothing but what a circuit gives them: the outputs for a user are known only to who has
the garbler's decoding bits *and* the evaluator's colours, a returned bit only to the garbler.
Honest-but-curious parties; `session` and `returned` say what others gain. The package knows shares
and bits, and nothing of rings or bandits.

    builder, arithmetic      circuits gate by gate         circuit   circuits as data
    argmax, check            the circuits that are needed  message   messages and their bytes
    share_range              ranges of values modulo 2^96  session   both parties' state machines
    tweak_hash, gate         half gates                    clear     the same, without secrecy
    base_transfer, transfer  the evaluator's input labels  returned  labels that go back
    confidential             objects that hold secrets

    garbler, evaluator = GarblerSession(), EvaluatorSession()
    garbler.complete(evaluator.answer(garbler.offer()))

    circuit = build_argmax(2, bits=40)
    transfer = evaluator.begin(circuit, shares=opened)
    garbled = garbler.garble(circuit, shares=masks, transfer=transfer)
    evaluated = evaluator.evaluate(garbled.tables)
    bits = combine(garbled.decoding, evaluated.colours)  # by the user
    arms = read_indices(bits, arms=2)

Labels have 128 bits, one offset of 127 random bits serves a session, and no key of the hash serves
more than 2^12 halves of gates: p calls of AES gain at most of the order p / 2^115. Base transfers
rest on Diffie-Hellman in a group of about 2^126 steps. All of that is classical, at every level of
the ring.
"""

from helba.garbling.circuits.argmax import build_argmax, name_bits, read_indices
from helba.garbling.circuits.check import build_ranges_check, build_report_check
from helba.garbling.circuits.circuit import Circuit
from helba.garbling.circuits.share_range import ShareRange
from helba.garbling.clear import ClearEvaluatorSession, ClearGarblerSession
from helba.garbling.message import (
    ReturnedMessage,
    SetupAnswer,
    SetupOffer,
    TablesMessage,
    TransferMessage,
    predict_sizes,
)
from helba.garbling.session import EvaluatorSession, Garbled, GarblerSession, combine

__all__ = [
    "Circuit",
    "ClearEvaluatorSession",
    "ClearGarblerSession",
    "EvaluatorSession",
    "Garbled",
    "GarblerSession",
    "ReturnedMessage",
    "SetupAnswer",
    "SetupOffer",
    "ShareRange",
    "TablesMessage",
    "TransferMessage",
    "build_argmax",
    "build_ranges_check",
    "build_report_check",
    "combine",
    "name_bits",
    "predict_sizes",
    "read_indices",
]
