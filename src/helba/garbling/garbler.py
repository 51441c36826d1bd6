"""The garbler's side of a session: the state machine that `session` describes."""

from __future__ import annotations

import numpy as np

from helba.errors import DamagedData, EngineError, Refused
from helba.garbling.base_transfer import BaseReceiver
from helba.garbling.circuits.circuit import Bits, Circuit, Shares
from helba.garbling.gate import garble, take_colours
from helba.garbling.message import (
    NAME_BYTES,
    ReturnedMessage,
    SetupAnswer,
    SetupOffer,
    TablesMessage,
    TransferMessage,
)
from helba.garbling.returned import commit_outputs, read_outputs
from helba.garbling.session import Exchange, Garbled, Session
from helba.garbling.transfer import TransferSender, expand_labels
from helba.garbling.tweak_hash import KEY_BYTES, Labels
from helba.randomness import Draw, draw_bytes


class GarblerSession(Session):
    """The garbler: holds one share of every value and the offset R of the session."""

    def __init__(self, *, draw: Draw = draw_bytes) -> None:
        super().__init__()
        self._draw = draw
        self._offset = np.frombuffer(draw(16), dtype="<u8").copy()
        self._offset[0] |= np.uint64(1)
        self._base: BaseReceiver | None = None
        self._sender: TransferSender | None = None
        self._offered = b""
        self._answered = False

    def offer(self) -> SetupOffer:
        """Return the first message of the set-up; once a session."""
        self._require_own_process()
        if self._offered:
            raise EngineError("expected one offer a session, got a second")
        self._offered = self._draw(NAME_BYTES)
        return SetupOffer(session=self._offered, points=self._offer_points())

    def complete(self, answer: SetupAnswer) -> None:
        """Finish the set-up; an answer that is refused ends the session."""
        self._require_own_process()
        if not self._offered or self._answered:
            raise EngineError("expected a session with an offer that is not answered yet")
        self._answered = True
        if answer.session != self._offered:
            raise DamagedData("expected an answer to this session's offer, got another")
        self._take_points(answer.points)
        self._session = self._offered

    def garble(self, circuit: Circuit, *, shares: Shares, transfer: TransferMessage) -> Garbled:
        """Return the garbled circuit for these shares and the decoding bits."""
        self._require_own_process()
        self._require_session(transfer.session)
        bits = circuit.split_garbler(shares)
        if transfer.circuit != circuit.digest or transfer.lanes != bits.shape[1]:
            raise DamagedData("expected a transfer for this circuit and these lanes, got another")
        if transfer.name in self._openings:
            raise Refused("expected a transfer for a new opening, got one that is open")
        self._use_nonce(transfer.nonce)
        tables, outputs = self._garble(circuit, bits=bits, transfer=transfer)
        users = len(circuit.user_outputs)
        if users < len(outputs):
            self._keep(transfer.name, Exchange(circuit, transfer.lanes, outputs[users:]))
        return Garbled(tables=tables, decoding=take_colours(outputs[:users]).T.copy())

    def finish(self, returned: ReturnedMessage) -> Bits:
        """Return the returned bits, of shape (lanes, wires)."""
        self._require_own_process()
        opening = self._take_opening(returned)
        bits = self._read(opening, labels=returned.labels)
        if bits is None:
            raise DamagedData("expected labels of the returned wires, got another label")
        return bits.T.copy()

    def _offer_points(self) -> bytes:
        choices = np.unpackbits(self._offset.view(np.uint8), bitorder="little").tolist()
        self._base = BaseReceiver(choices, session=self._offered)
        return self._base.points

    def _take_points(self, points: bytes) -> None:
        assert self._base is not None
        self._sender = TransferSender(self._base.receive(points), offset=self._offset)
        self._base = None

    def _garble(
        self, circuit: Circuit, *, bits: Bits, transfer: TransferMessage
    ) -> tuple[TablesMessage, Labels]:
        assert self._sender is not None
        count, lanes = circuit.input_bits, bits.shape[1]
        theirs = self._sender.send(transfer.columns, nonce=transfer.nonce, bits=count * lanes)
        key, seed = self._draw(KEY_BYTES), self._draw(KEY_BYTES)
        # The evaluator expands the garbler's labels from the seed; they are W xor bit R.
        inputs = np.empty((count + len(bits), lanes, 2), dtype=np.uint64)
        inputs[:count] = theirs.reshape(count, lanes, 2)
        inputs[count:] = expand_labels(seed, shape=bits.shape)
        choices = np.stack([np.zeros_like(self._offset), self._offset])
        inputs[count:] ^= choices.take(bits, axis=0, mode="clip")
        tables, outputs = garble(circuit, inputs=inputs, offset=self._offset, key=key)
        returned = outputs[len(circuit.user_outputs) :]
        hashes = commit_outputs(returned, offset=self._offset, key=key, name=transfer.name)
        message = TablesMessage(
            transfer.session,
            transfer.name,
            transfer.circuit,
            transfer.lanes,
            key=key,
            seed=seed,
            tables=tables,
            hashes=hashes,
        )
        return message, outputs

    def _read(self, opening: Exchange, *, labels: Labels) -> Bits | None:
        return read_outputs(labels, zero=opening.labels, offset=self._offset)
