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

from helba.errors import DamagedData, EngineError, InvalidInput, Refused
from helba.garbling.circuits.circuit import Bits, Circuit
from helba.garbling.confidential import Confidential, ProcessBound
from helba.garbling.message import (
    ReturnedMessage,
    TablesMessage,
)
from helba.garbling.tweak_hash import Labels

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
    lanes: int
    labels: Labels


class Session(ProcessBound):
    """State that both parties keep: the session's name, used nonces, and open openings."""

    def __init__(self) -> None:
        super().__init__()
        self._session = b""
        self._nonces: set[bytes] = set()
        self._openings: dict[bytes, Exchange] = {}
        self._waiting_bytes = 0

    def _describe(self) -> str:
        return f"{len(self._nonces)} openings, {len(self._openings)} of them open"

    @property
    def name(self) -> bytes:
        """The session's name, or nothing before it is set up."""
        return self._session

    def abandon(self, name: bytes) -> None:
        """Forget an opening; nothing happens if it is not open."""
        self._require_own_process()
        self._drop(name)

    def _keep(self, name: bytes, opening: Exchange) -> None:
        """Keep an opening until its next message."""
        size = self._waiting_bytes + opening.labels.nbytes
        if size > MAX_WAITING_BYTES:
            raise EngineError(
                f"expected at most {MAX_WAITING_BYTES >> 20} MiB of openings that wait, got more: "
                "abandon some"
            )
        self._openings[name], self._waiting_bytes = opening, size

    def _drop(self, name: bytes) -> Exchange | None:
        opening = self._openings.pop(name, None)
        if opening is not None:
            self._waiting_bytes -= opening.labels.nbytes
        return opening

    def _use_nonce(self, nonce: bytes) -> None:
        if nonce in self._nonces:
            raise Refused("expected a new nonce, got one that this session has used")
        if len(self._nonces) >= MAX_OPENINGS:
            raise EngineError(
                f"expected at most {MAX_OPENINGS} openings, got one more: make a new session"
            )
        self._nonces.add(nonce)

    def _take_opening(self, message: TablesMessage | ReturnedMessage) -> Exchange:
        """Return the opening that the message names and close it; fail if it does not fit."""
        self._require_session(message.session)
        opening = self._drop(message.name)
        if opening is None:
            raise DamagedData("expected a message for an open opening, got one that is not open")
        if message.circuit != opening.circuit.digest or message.lanes != opening.lanes:
            raise DamagedData("expected the opening's circuit and lanes, got others")
        return opening

    def _require_session(self, session: bytes) -> None:
        if not self._session:
            raise EngineError("expected a session that is set up, got one that is not")
        if session != self._session:
            raise DamagedData("expected a message of this session, got one of another")
