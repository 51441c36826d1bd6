"""The evaluator's side of a session: the state machine that `session` describes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from helba.errors import EngineError, Refused
from helba.garbling.base_transfer import send_seeds
from helba.garbling.circuits.circuit import Bits, Circuit, Shares
from helba.garbling.gate import evaluate, take_colours
from helba.garbling.message import (
    NAME_BYTES,
    ReturnedMessage,
    SetupAnswer,
    SetupOffer,
    TablesMessage,
    TransferMessage,
)
from helba.garbling.returned import match_outputs
from helba.garbling.session import Evaluated, Exchange, Session
from helba.garbling.transfer import NONCE_BYTES, TransferReceiver, expand_labels
from helba.garbling.tweak_hash import Labels
from helba.randomness import Draw, draw_bytes


class EvaluatorSession(Session):
    """The evaluator: holds the other share of every value and learns no output."""

    def __init__(self, *, draw: Draw = draw_bytes) -> None:
        super().__init__()
        self._draw = draw
        self._receiver: TransferReceiver | None = None

    def answer(self, offer: SetupOffer) -> SetupAnswer:
        """Return the second message of the set-up; once a session."""
        self._require_own_process()
        if self._session:
            raise EngineError("expected one offer a session, got a second")
        points = self._answer_points(offer)
        self._session = offer.session
        return SetupAnswer(session=offer.session, points=points)

    def begin(self, circuit: Circuit, *, shares: Shares) -> TransferMessage:
        """Begin an opening: return the transfer for these shares, under a new name and nonce."""
        self._require_own_process()
        self._require_session(self._session)
        bits = circuit.split_evaluator(shares)
        name, nonce = self._draw(NAME_BYTES), self._draw(NONCE_BYTES)
        self._use_nonce(nonce)
        columns, labels = self._transfer(bits, nonce=nonce)
        lanes = bits.shape[1]
        self._keep(name, Exchange(circuit, lanes, labels))
        return TransferMessage(
            self._session, name, circuit.digest, lanes, nonce=nonce, columns=columns
        )

    def evaluate(self, tables: TablesMessage) -> Evaluated:
        """Evaluate the circuit of an opening, once.

        Raise `Refused` if a label that would be returned is not one that the garbler has committed
        to: then nothing is returned. Callers count and log these.
        """
        self._require_own_process()
        opening = self._take_opening(tables)
        outputs = self._evaluate(opening, tables=tables)
        users = len(opening.circuit.user_outputs)
        returned = None
        if users < len(outputs):
            returned = ReturnedMessage(
                self._session, tables.name, tables.circuit, tables.lanes, labels=outputs[users:]
            )
        return Evaluated(colours=take_colours(outputs[:users]).T.copy(), returned=returned)

    def _answer_points(self, offer: SetupOffer) -> bytes:
        points, seeds = send_seeds(offer.points, session=offer.session)
        self._receiver = TransferReceiver(seeds)
        return points

    def _transfer(self, bits: Bits, *, nonce: bytes) -> tuple[npt.NDArray[np.uint8], Labels]:
        assert self._receiver is not None
        columns, labels = self._receiver.receive(bits.reshape(-1), nonce=nonce)
        return columns, labels.reshape(*bits.shape, 2)

    def _evaluate(self, opening: Exchange, *, tables: TablesMessage) -> Labels:
        circuit = opening.circuit
        own = expand_labels(tables.seed, shape=(circuit.garbler_bits, opening.lanes))
        inputs = np.concatenate([opening.labels, own])
        outputs = evaluate(circuit, inputs=inputs, tables=tables.tables, key=tables.key)
        returned = outputs[len(circuit.user_outputs) :]
        if not match_outputs(returned, hashes=tables.hashes, key=tables.key, name=tables.name):
            raise Refused(
                "expected labels that the garbler has committed to, got others: "
                "nothing is returned, the opening is abandoned"
            )
        return outputs
