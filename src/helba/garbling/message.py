"""Messages of garbling and their bytes.

    SetupOffer        garbler to evaluator, once a session: points of the base transfers
    SetupAnswer       evaluator to garbler, once a session: the other points
    TransferMessage   evaluator to garbler: nonce and columns of the transfer
    TablesMessage     garbler to evaluator: key, seed of the garbler's labels, tables, hashes
    ReturnedMessage   evaluator to garbler: labels of the returned bits

As bytes a message is a digest (SHA-256 of all that follows), a header and a body. The header holds
a mark, the version, the kind, the number of lanes, the session, the opening's name and the digest
of the circuit. The length is a function of kind, circuit and lanes. Anything else is `DamagedData`.
The digest finds accidents; against others messages travel over TLS.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field, fields
from hashlib import sha256
from typing import ClassVar, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from helba.errors import DamagedData
from helba.garbling.base_transfer import POINT_BYTES, TRANSFERS
from helba.garbling.circuits.circuit import Circuit
from helba.garbling.confidential import Confidential
from helba.garbling.gate import TABLE_LABELS
from helba.garbling.returned import COMMITMENT_BYTES
from helba.garbling.transfer import NONCE_BYTES, column_bytes
from helba.garbling.tweak_hash import KEY_BYTES, Labels

NAME_BYTES = 16
_MARK = b"helba-garb"
_VERSION = 1
# All parts are multiples of 16 bytes, so that labels are aligned where they are read.
_HEADER = struct.Struct("<10sBBI16s16s16s")
_DIGEST_BYTES = 32
_FRAME_BYTES = _DIGEST_BYTES + _HEADER.size
_NONE = bytes(16)
_LABEL_BYTES = 16

_Header: TypeAlias = tuple[bytes, bytes, bytes, int]
_Setup = TypeVar("_Setup", bound="_SetupMessage")


@dataclass(frozen=True)
class MessageSizes:
    """Bytes of the messages of one opening; `returned` is 0 if the circuit returns no bit."""

    transfer: int
    tables: int
    returned: int


def predict_sizes(circuit: Circuit, *, lanes: int) -> MessageSizes:
    """Return the exact length of every message of an opening."""
    returned = len(circuit.returned_outputs) * lanes
    tables = TABLE_LABELS * _LABEL_BYTES * circuit.and_gates * lanes
    return MessageSizes(
        transfer=_FRAME_BYTES + NONCE_BYTES + TRANSFERS * column_bytes(circuit.input_bits * lanes),
        tables=_FRAME_BYTES + 2 * KEY_BYTES + tables + 2 * COMMITMENT_BYTES * returned,
        returned=_FRAME_BYTES + _LABEL_BYTES * returned if returned else 0,
    )


@dataclass(frozen=True, repr=False, eq=False)
class _Message(Confidential):
    """The header of a message, whose body is the other fields, in their order."""

    session: bytes
    name: bytes
    circuit: bytes
    lanes: int

    KIND: ClassVar[int]

    @property
    def header(self) -> _Header:
        """The session, the opening's name, the digest of the circuit, and the lanes."""
        return self.session, self.name, self.circuit, self.lanes

    def _describe(self) -> str:
        return f"{self.lanes} lanes"

    def to_bytes(self) -> bytes:
        """Return the message as bytes."""
        *names, lanes = self.header
        header = _HEADER.pack(_MARK, _VERSION, self.KIND, lanes, *names)
        parts = (getattr(self, field.name) for field in fields(self)[len(fields(_Message)) :])
        buffers = [header, *(p if isinstance(p, bytes) else _flatten(p) for p in parts)]
        digest = sha256()
        for buffer in buffers:
            digest.update(buffer)
        return b"".join([digest.digest(), *buffers])

    @classmethod
    def _unpack(
        cls, data: bytes, *, size: int, circuit: bytes, lanes: int
    ) -> tuple[_Header, memoryview]:
        """Return header and body of a message; `DamagedData` if it is not as stated."""
        if len(data) != size:
            raise DamagedData(f"expected a message of {size} bytes, got {len(data)}")
        view = memoryview(data)
        found = _HEADER.unpack(view[_DIGEST_BYTES:_FRAME_BYTES])
        mark, version, found_kind, found_lanes, session, name, found_circuit = found
        if mark != _MARK:
            raise DamagedData("expected a message of garbling, got other bytes")
        if version != _VERSION:
            raise DamagedData(f"expected a message of version {_VERSION}, got version {version}")
        if found_kind != cls.KIND:
            raise DamagedData(f"expected a message of kind {cls.KIND}, got kind {found_kind}")
        if found_lanes != lanes:
            raise DamagedData(f"expected a message for {lanes} lanes, got one for {found_lanes}")
        if found_circuit != circuit:
            raise DamagedData("expected a message for this circuit, got one for another")
        if sha256(view[_DIGEST_BYTES:]).digest() != view[:_DIGEST_BYTES]:
            raise DamagedData("expected the message as it was sent, got one with another digest")
        return (session, name, circuit, lanes), view[_FRAME_BYTES:]


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class _SetupMessage(_Message):
    """Points of the base transfers; no opening is named."""

    name: bytes = field(default=_NONE, init=False)
    circuit: bytes = field(default=_NONE, init=False)
    lanes: int = field(default=0, init=False)
    points: bytes

    POINTS: ClassVar[int]

    def _describe(self) -> str:
        return f"{self.POINTS} points"

    @classmethod
    def from_bytes(cls: type[_Setup], data: bytes) -> _Setup:
        """Return the message, or raise `DamagedData`."""
        size = _FRAME_BYTES + POINT_BYTES * cls.POINTS
        (session, name, _, _), body = cls._unpack(data, size=size, circuit=_NONE, lanes=0)
        if name != _NONE:
            raise DamagedData("expected a message that names no opening, got one that does")
        return cls(session=session, points=bytes(body))


class SetupOffer(_SetupMessage):
    """The garbler's points: two for each base transfer."""

    KIND = 1
    POINTS = 2 * TRANSFERS


class SetupAnswer(_SetupMessage):
    """The evaluator's points: one for each base transfer."""

    KIND = 2
    POINTS = TRANSFERS


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class TransferMessage(_Message):
    """The evaluator's columns of the transfer, of shape (128, bytes), under a nonce of its own."""

    nonce: bytes
    columns: npt.NDArray[np.uint8]

    KIND = 3

    @classmethod
    def from_bytes(cls, data: bytes, *, circuit: Circuit, lanes: int) -> TransferMessage:
        """Return the message for that circuit and number of lanes, or raise `DamagedData`."""
        size = predict_sizes(circuit, lanes=lanes).transfer
        header, body = cls._unpack(data, size=size, circuit=circuit.digest, lanes=lanes)
        columns = np.frombuffer(body[NONCE_BYTES:], dtype=np.uint8).reshape(TRANSFERS, -1)
        return cls(*header, nonce=bytes(body[:NONCE_BYTES]), columns=columns)


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class TablesMessage(_Message):
    """A garbled circuit; hashes have shape (returned wires, lanes, 2 colours, 32)."""

    key: bytes
    seed: bytes
    tables: Labels
    hashes: npt.NDArray[np.uint8]

    KIND = 4

    @classmethod
    def from_bytes(cls, data: bytes, *, circuit: Circuit, lanes: int) -> TablesMessage:
        """Return the message for that circuit and number of lanes, or raise `DamagedData`."""
        size = predict_sizes(circuit, lanes=lanes).tables
        header, body = cls._unpack(data, size=size, circuit=circuit.digest, lanes=lanes)
        start = 2 * KEY_BYTES
        end = start + TABLE_LABELS * _LABEL_BYTES * circuit.and_gates * lanes
        shape = (len(circuit.returned_outputs), lanes, 2, COMMITMENT_BYTES)
        return cls(
            *header,
            key=bytes(body[:KEY_BYTES]),
            seed=bytes(body[KEY_BYTES:start]),
            tables=np.frombuffer(body[start:end], dtype="<u8").reshape(-1, 2),
            hashes=np.frombuffer(body[end:], dtype=np.uint8).reshape(shape),
        )


@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class ReturnedMessage(_Message):
    """Labels of the returned bits, of shape (wires, lanes, 2)."""

    labels: Labels

    KIND = 5

    @classmethod
    def from_bytes(cls, data: bytes, *, circuit: Circuit, lanes: int) -> ReturnedMessage:
        """Return the message for that circuit and number of lanes, or raise `DamagedData`."""
        wires = len(circuit.returned_outputs)
        if not wires:
            raise DamagedData("expected no labels for a circuit that returns no bit, got some")
        size = predict_sizes(circuit, lanes=lanes).returned
        header, body = cls._unpack(data, size=size, circuit=circuit.digest, lanes=lanes)
        return cls(*header, labels=np.frombuffer(body, dtype="<u8").reshape(wires, lanes, 2))


def _flatten(array: npt.NDArray[np.uint8] | Labels) -> memoryview:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
