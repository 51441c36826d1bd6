"""The two parties of a garbling session, as state machines.

A session is one set-up, `offer` -> `answer` -> `complete`, and then any number of openings:

    evaluator  begin(circuit, shares)            -> TransferMessage
    garbler    garble(circuit, shares, transfer) -> TablesMessage, decoding bits
    evaluator  evaluate(tables)                  -> colours, ReturnedMessage
    garbler    finish(returned)                  -> returned bits

The transfer comes before the tables, so that no label depends on the key of the circuit. One offset
serves all circuits of a session and is gone with the garbler's object. An opening is used once. A
message that fails after it was matched with its opening ends that opening; callers abandon one in
any other case: begin again, with a new name, nonce, key and labels, and on shares with a new mask.
Objects belong to one process and one thread, and cannot be stored. The parties are
honest-but-curious; `returned` and `transfer` say what those gain that are not.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from helba.errors import DamagedData, EngineError, InvalidInput, NoRoom, Refused, SessionSpent
from helba.garbling.base_transfer import BaseReceiver, send_seeds
from helba.garbling.circuits.circuit import Bits, Circuit, Shares
from helba.garbling.confidential import Confidential, ProcessBound
from helba.garbling.gate import evaluate, garble, take_colours
from helba.garbling.message import (
    NAME_BYTES,
    ReturnedMessage,
    SetupAnswer,
    SetupOffer,
    TablesMessage,
    TransferMessage,
)
from helba.garbling.returned import commit_outputs, match_outputs, read_outputs
from helba.garbling.transfer import (
    NONCE_BYTES,
    Columns,
    TransferReceiver,
    TransferSender,
    expand_labels,
)
from helba.garbling.tweak_hash import KEY_BYTES, Labels
from helba.randomness import Draw, draw_bytes

MAX_OPENINGS = 1 << 20
"""Openings of one session: a bound for the memory of nonces and for the use of one offset."""

MAX_WAITING_BYTES = 1 << 28
"""Labels of all openings that wait for their next message: 100 of 256 users with 16 arms."""


def combine(decoding: Bits, colours: Bits) -> Bits:
    """Return the outputs for the user, from the garbler's bits and the evaluator's."""
    if decoding.shape != colours.shape:
        raise InvalidInput("shapes", f"{decoding.shape} and {colours.shape}", "equal")
    return decoding ^ colours


@dataclass(frozen=True, repr=False, eq=False)
class Garbled(Confidential):
    """The garbler's result: tables for the evaluator, decoding bits for the user.

    `decoding` has shape (lanes, outputs) and must not reach the evaluator.
    """

    tables: TablesMessage
    decoding: Bits

    def _describe(self) -> str:
        return f"{self.decoding.shape[0]} lanes, {self.decoding.shape[1]} outputs"


@dataclass(frozen=True, repr=False, eq=False)
class Evaluated(Confidential):
    """The evaluator's result: coloured bits for the user, and labels for the garbler if any.

    `colours` has shape (lanes, outputs) and must not reach the garbler.
    """

    colours: Bits
    returned: ReturnedMessage | None

    def _describe(self) -> str:
        return f"{self.colours.shape[0]} lanes, {self.colours.shape[1]} outputs"


@dataclass(frozen=True, repr=False, eq=False)
class Exchange(Confidential):
    """An opening that waits for its next message; `labels` are the party's own."""

    circuit: Circuit
    labels: Labels


class Session(ProcessBound):
    """State that both parties keep: the session's name, used nonces, and open openings."""

    def __init__(self, *, draw: Draw = draw_bytes) -> None:
        super().__init__()
        self._draw = draw
        self._session = b""
        self._nonces: set[bytes] = set()
        self._openings: dict[bytes, Exchange] = {}

    def _describe(self) -> str:
        return f"{len(self._nonces)} openings, {len(self._openings)} of them open"

    @property
    def name(self) -> bytes:
        """The session's name, or nothing before it is set up."""
        return self._session

    def abandon(self, name: bytes) -> None:
        """Forget an opening; nothing happens if it is not open."""
        self._require_own_process()
        self._openings.pop(name, None)

    def _keep(self, name: bytes, opening: Exchange) -> None:
        """Keep an opening until its next message."""
        waiting = [opening, *self._openings.values()]
        if sum(each.labels.nbytes for each in waiting) > MAX_WAITING_BYTES:
            raise NoRoom(
                f"expected at most {MAX_WAITING_BYTES >> 20} MiB of openings that wait, got more: "
                "abandon some"
            )
        self._openings[name] = opening

    def _use_nonce(self, nonce: bytes) -> None:
        if nonce in self._nonces:
            raise Refused("expected a new nonce, got one that this session has used")
        if len(self._nonces) >= MAX_OPENINGS:
            raise SessionSpent(
                f"expected at most {MAX_OPENINGS} openings, got one more: make a new session"
            )
        self._nonces.add(nonce)

    def _take_opening(self, message: TablesMessage | ReturnedMessage) -> Exchange:
        """Return the opening that the message names and close it; fail if it does not fit."""
        self._require_session(message.session)
        opening = self._openings.pop(message.name, None)
        if opening is None:
            raise DamagedData("the opening that the message names is not open")
        if message.circuit != opening.circuit.digest or message.lanes != opening.labels.shape[1]:
            raise DamagedData("the message is not for the opening's circuit and lanes")
        return opening

    def _require_session(self, session: bytes) -> None:
        if not self._session:
            raise EngineError("the session is not set up yet")
        if session != self._session:
            raise DamagedData("expected a message of this session, got one of another")


class GarblerSession(Session):
    """The garbler: holds one share of every value and the offset R of the session."""

    def __init__(self, *, draw: Draw = draw_bytes) -> None:
        super().__init__(draw=draw)
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
            self._keep(transfer.name, Exchange(circuit, outputs[users:]))
        return Garbled(tables=tables, decoding=take_colours(outputs[:users]).T.copy())

    def finish(self, returned: ReturnedMessage) -> Bits:
        """Return the returned bits, of shape (lanes, wires)."""
        self._require_own_process()
        opening = self._take_opening(returned)
        bits = read_outputs(returned.labels, zero=opening.labels, offset=self._offset)
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
        message = TablesMessage(*transfer.header, key=key, seed=seed, tables=tables, hashes=hashes)
        return message, outputs


class EvaluatorSession(Session):
    """The evaluator: holds the other share of every value and learns no output."""

    def __init__(self, *, draw: Draw = draw_bytes) -> None:
        super().__init__(draw=draw)
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
        self._keep(name, Exchange(circuit, labels))
        return TransferMessage(
            self._session, name, circuit.digest, bits.shape[1], nonce=nonce, columns=columns
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
            returned = ReturnedMessage(*tables.header, labels=outputs[users:])
        return Evaluated(colours=take_colours(outputs[:users]).T.copy(), returned=returned)

    def _answer_points(self, offer: SetupOffer) -> bytes:
        points, seeds = send_seeds(offer.points, session=offer.session)
        self._receiver = TransferReceiver(seeds)
        return points

    def _transfer(self, bits: Bits, *, nonce: bytes) -> tuple[Columns, Labels]:
        assert self._receiver is not None
        columns, labels = self._receiver.receive(bits.reshape(-1), nonce=nonce)
        return columns, labels.reshape(*bits.shape, 2)

    def _evaluate(self, opening: Exchange, *, tables: TablesMessage) -> Labels:
        circuit = opening.circuit
        own = expand_labels(tables.seed, shape=(circuit.garbler_bits, opening.labels.shape[1]))
        inputs = np.concatenate([opening.labels, own])
        outputs = evaluate(circuit, inputs=inputs, tables=tables.tables, key=tables.key)
        returned = outputs[len(circuit.user_outputs) :]
        if not match_outputs(returned, hashes=tables.hashes, key=tables.key, name=tables.name):
            raise Refused(
                "the labels are not those that the garbler has committed to: "
                "nothing is returned, the opening is abandoned"
            )
        return outputs
