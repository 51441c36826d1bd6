"""Garbling in the clear: the same sessions and messages, and NO secrecy. For the simulator.

The evaluator's bits go up as they are, in the first column of the transfer; the garbler evaluates
the circuit. Tables, points and hashes are zeros of the right length. Decoding bits and colours are
still two values that must be combined, so that who forgets to do it fails here as well.
"""

from __future__ import annotations

import numpy as np

from helba.garbling.base_transfer import POINT_BYTES, TRANSFERS
from helba.garbling.circuits.circuit import Bits, Circuit, evaluate_bits
from helba.garbling.gate import TABLE_LABELS
from helba.garbling.message import SetupAnswer, SetupOffer, TablesMessage, TransferMessage
from helba.garbling.returned import COMMITMENT_BYTES
from helba.garbling.session import EvaluatorSession, Exchange, GarblerSession
from helba.garbling.transfer import Columns, column_bytes, expand_labels
from helba.garbling.tweak_hash import KEY_BYTES, Labels


class ClearGarblerSession(GarblerSession):
    """A garbler that sees the evaluator's bits and computes in the clear. Not secret."""

    def _offer_points(self) -> bytes:
        return bytes(POINT_BYTES * SetupOffer.POINTS)

    def _take_points(self, points: bytes) -> None:
        pass

    def _garble(
        self, circuit: Circuit, *, bits: Bits, transfer: TransferMessage
    ) -> tuple[TablesMessage, Labels]:
        shape = (circuit.input_bits, bits.shape[1])
        sent = np.unpackbits(transfer.columns[0], bitorder="little")[: shape[0] * shape[1]]
        theirs = sent.reshape(shape).astype(np.bool_)
        results = evaluate_bits(circuit, np.concatenate([theirs, bits]))
        lanes, returned = bits.shape[1], len(circuit.returned_outputs)
        tables = TablesMessage(
            *transfer.header,
            key=bytes(KEY_BYTES),
            seed=bytes(KEY_BYTES),
            tables=np.zeros((TABLE_LABELS * circuit.and_gates * lanes, 2), dtype=np.uint64),
            hashes=np.zeros((returned, lanes, 2, COMMITMENT_BYTES), dtype=np.uint8),
        )
        outputs = expand_labels(transfer.name, shape=results.shape)
        outputs[results] ^= self._offset
        return tables, outputs


class ClearEvaluatorSession(EvaluatorSession):
    """An evaluator that sends its bits in the clear. Not secret."""

    def _answer_points(self, offer: SetupOffer) -> bytes:  # noqa: ARG002
        return bytes(POINT_BYTES * SetupAnswer.POINTS)

    def _transfer(
        self,
        bits: Bits,
        *,
        nonce: bytes,  # noqa: ARG002
    ) -> tuple[Columns, Labels]:
        columns = np.zeros((TRANSFERS, column_bytes(bits.size)), dtype=np.uint8)
        columns[0] = np.packbits(bits, bitorder="little")
        return columns, np.zeros((*bits.shape, 2), dtype=np.uint64)

    def _evaluate(self, opening: Exchange, *, tables: TablesMessage) -> Labels:
        circuit = opening.circuit
        outputs = len(circuit.user_outputs) + len(circuit.returned_outputs)
        return expand_labels(tables.name, shape=(outputs, tables.lanes))
