"""Vectors, the messages of refresh and opening, and masks as bytes: what every scheme shares.

A vector travels settled (relinearised, rescaled). Its shape stands in the envelope and is checked
against the parameters, and against what the caller expects, before the payload is looked at. A
refresh or an opening carries its id, by which the server finds the mask again.

A mask is no message: it is written for the server's own files only, and is as secret as what it
hides.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from helba.errors import DamagedData, WrongVector
from helba.reference.engine.exchanges.exchange import EXCHANGE_ID_BYTES, Message, Pending
from helba.reference.engine.exchanges.opening import OpeningReply, OpeningRequest, PendingOpening
from helba.reference.engine.exchanges.refresh import PendingRefresh, RefreshReply, RefreshRequest
from helba.reference.engine.keys import PublicKey
from helba.reference.engine.primitives import Primitives
from helba.reference.engine.vector import Body, EncryptedVector
from helba.reference.engine.wire.envelope import Envelope, kind_of, seal, unseal
from helba.reference.planning.parameters import Parameters


class Serialiser(Primitives):
    """Writes and reads what belongs to `public_key`; loading never replaces a check of the sender.

    The bytes show the shape and whose key it is, and nothing of the values. In the simulator they
    are the values.
    """

    name: str
    library: str  # which library, of which version: bytes of another one are refused
    parameters: Parameters
    public_key: PublicKey

    def vector_to_bytes(self, vector: EncryptedVector) -> bytes:
        """Return the vector as bytes that `vector_from_bytes` reads in any process.

        `EngineError` if it is no encryption any more, as the difference of a vector and itself:
        everybody could read it. The simulator cannot tell.
        """
        self._require_own(vector)
        body = self._settled(vector)
        return self._write("vector", body.payload, slots=vector.slots, level=body.level)

    def vector_from_bytes(
        self, data: bytes | memoryview, *, slots: int | None = None, level: int | None = None
    ) -> EncryptedVector:
        """Return the vector, of `slots` and at `level` if these are given, or raise `DamagedData`.

        It is a ciphertext of this key's form, whatever the bytes are; that its sender made it
        honestly cannot be seen.
        """
        payload, envelope = self._read("vector", data, slots=slots, level=level)
        return self._vector(Body(payload, envelope.level), slots=envelope.slots)

    # -- refresh

    def request_to_bytes(self, request: RefreshRequest) -> bytes:
        """Return a refresh request as bytes, for the key's owner."""
        return self._write_exchange("refresh request", request, level=self._masked_level)

    def request_from_bytes(
        self, data: bytes | memoryview, *, slots: int | None = None
    ) -> RefreshRequest:
        """Return the refresh request, of `slots` if given, or raise `DamagedData`."""
        payload, found = self._read("refresh request", data, slots=slots, level=self._masked_level)
        return RefreshRequest(payload, slots=found.slots, tag=found.tag, id=found.detail)

    def reply_to_bytes(self, reply: RefreshReply) -> bytes:
        """Return the owner's reply as bytes, for the server."""
        return self._write_exchange("refresh reply", reply, level=0)

    def reply_from_bytes(
        self, data: bytes | memoryview, *, slots: int | None = None
    ) -> RefreshReply:
        """Return the reply, of `slots` if given, or raise `DamagedData`."""
        payload, found = self._read("refresh reply", data, slots=slots, level=0)
        return RefreshReply(payload, slots=found.slots, tag=found.tag, id=found.detail)

    # -- opening

    def opening_request_to_bytes(self, request: OpeningRequest) -> bytes:
        """Return an opening request as bytes, for the key's owner."""
        return self._write_exchange("opening request", request, level=self._masked_level)

    def opening_request_from_bytes(
        self, data: bytes | memoryview, *, slots: int | None = None
    ) -> OpeningRequest:
        """Return the opening request, of `slots` if given, or raise `DamagedData`."""
        payload, found = self._read("opening request", data, slots=slots, level=self._masked_level)
        return OpeningRequest(payload, slots=found.slots, tag=found.tag, id=found.detail)

    def opening_reply_to_bytes(self, reply: OpeningReply) -> bytes:
        """Return the owner's reply as bytes, for the server."""
        return self._write_exchange("opening reply", reply, level=self._masked_level)

    def opening_reply_from_bytes(
        self, data: bytes | memoryview, *, slots: int | None = None
    ) -> OpeningReply:
        """Return the reply, of `slots` if given, or raise `DamagedData`."""
        payload, found = self._read("opening reply", data, slots=slots, level=self._masked_level)
        return OpeningReply(payload, slots=found.slots, tag=found.tag, id=found.detail)

    # -- masks

    def pending_to_bytes(self, pending: PendingRefresh | PendingOpening) -> bytes:
        """Return what the server keeps of an exchange, for its own files; `pending` stays usable.

        Of all copies one may serve: whoever restores an old file must not finish with it again.
        """
        self._require_key(pending)
        return self._write(
            f"pending {pending.exchange}",
            pending.show(),
            slots=pending.slots,
            level=self._masked_level,
            detail=pending.id,
        )

    def pending_from_bytes(self, data: bytes | memoryview) -> PendingRefresh | PendingOpening:
        """Return the mask of a refresh or of an opening, or raise `DamagedData`."""
        kinds: dict[str | None, type[PendingRefresh] | type[PendingOpening]] = {
            "pending refresh": PendingRefresh,
            "pending opening": PendingOpening,
        }
        kind = kind_of(data)
        if kind is None or kind not in kinds:
            raise DamagedData("the data is no pending refresh or opening")
        payload, found = self._read(kind, data, slots=None, level=self._masked_level)
        return kinds[kind](payload, slots=found.slots, tag=found.tag, id=found.detail)

    @property
    def _masked_level(self) -> int:
        """Where two primes are left."""
        return self.parameters.depth - 1

    def _write_exchange(self, kind: str, message: Message, *, level: int) -> bytes:
        self._require_key(message)
        return self._write(
            kind, message.payload, slots=message.slots, level=level, detail=message.id
        )

    def _require_key(self, part: Message | Pending) -> None:
        if part.tag != self.public_key.tag:
            raise WrongVector("the exchange belongs to another key")

    def _write(
        self, kind: str, payload: Any, *, slots: int, level: int, detail: bytes = b""
    ) -> bytes:
        envelope = Envelope(
            kind=kind,
            scheme=self.name,
            library=self.library,
            fingerprint=self.parameters.fingerprint,
            tag=self.public_key.tag,
            slots=slots,
            level=level,
            detail=detail,
        )
        return seal(envelope, [self._dump(payload, kind=kind, slots=slots, level=level)])

    def _read(
        self, kind: str, data: bytes | memoryview, *, slots: int | None, level: int | None
    ) -> tuple[Any, Envelope]:
        envelope, payload = self._unsealed(kind, data, slots=slots, level=level)
        found = self._load(payload, kind=kind, slots=envelope.slots, level=envelope.level)
        return found, envelope

    def _unsealed(
        self, kind: str, data: bytes | memoryview, *, slots: int | None, level: int | None
    ) -> tuple[Envelope, memoryview]:
        """The envelope, checked, and the payload, which is not looked at yet."""
        envelope, payload = unseal(data, kind=kind, scheme=self.name, library=self.library)
        most = self.parameters.max_slots
        if envelope.fingerprint != self.parameters.fingerprint:
            raise DamagedData(f"the {kind} is of other parameters")
        if envelope.tag != self.public_key.tag:
            raise DamagedData(f"the {kind} belongs to another key")
        if len(envelope.detail) != (0 if kind == "vector" else EXCHANGE_ID_BYTES):
            raise DamagedData(f"the detail of the {kind} is not that of its kind")
        if not 1 <= envelope.slots <= most or envelope.slots & (envelope.slots - 1):
            raise DamagedData(f"{envelope.slots} slots are not a power of two of at most {most}")
        if slots is not None and envelope.slots != slots:
            raise DamagedData(f"the {kind} has {envelope.slots} slots instead of {slots}")
        if envelope.level > self.parameters.depth:
            raise DamagedData(f"level {envelope.level} is past the last, {self.parameters.depth}")
        if level is not None and envelope.level != level:
            raise DamagedData(f"the {kind} is at level {envelope.level} instead of {level}")
        return envelope, payload

    # -- what a scheme implements

    @abstractmethod
    def _dump(self, payload: Any, *, kind: str, slots: int, level: int) -> bytes:
        """A payload of degree 1 as bytes."""

    @abstractmethod
    def _load(self, data: memoryview, *, kind: str, slots: int, level: int) -> Any:
        """The payload of that kind and shape, or `DamagedData`."""

    # -- what the engine provides

    @abstractmethod
    def _settled(self, vector: EncryptedVector) -> Body:
        """The value at degree 1."""

    @abstractmethod
    def _vector(self, body: Body, *, slots: int) -> EncryptedVector:
        """A vector of this engine's key."""

    @abstractmethod
    def _require_own(self, vector: EncryptedVector, *, slots: int | None = None) -> None:
        """Raise `WrongVector` unless the vector belongs to this engine's key."""
