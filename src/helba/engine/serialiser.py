"""Vectors and the messages of a refresh as bytes: the part that every scheme shares.

A vector travels settled (relinearised, rescaled). Its shape stands in the envelope and is checked
against the parameters, and against what the caller expects, before the payload is looked at. A
refresh carries its id, by which the server finds the mask again.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from helba.engine.envelope import Envelope, seal, unseal
from helba.engine.keys import PublicKey
from helba.engine.primitives import Primitives
from helba.engine.refresh import REFRESH_ID_BYTES, RefreshReply, RefreshRequest
from helba.engine.vector import Body, EncryptedVector
from helba.errors import DamagedData, WrongVector
from helba.planning.parameters import Parameters

__all__ = ["Serialiser"]


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

    def request_to_bytes(self, request: RefreshRequest) -> bytes:
        """Return a refresh request as bytes, for the key's owner."""
        if request.tag != self.public_key.tag:
            raise WrongVector("the refresh belongs to another key")
        level = self.parameters.depth - 1
        return self._write(
            "refresh request", request.payload, slots=request.slots, level=level, detail=request.id
        )

    def request_from_bytes(
        self, data: bytes | memoryview, *, slots: int | None = None
    ) -> RefreshRequest:
        """Return the refresh request, of `slots` if given, or raise `DamagedData`."""
        level = self.parameters.depth - 1
        payload, envelope = self._read("refresh request", data, slots=slots, level=level)
        return RefreshRequest(payload, slots=envelope.slots, tag=envelope.tag, id=envelope.detail)

    def reply_to_bytes(self, reply: RefreshReply) -> bytes:
        """Return the owner's reply as bytes, for the server."""
        if reply.tag != self.public_key.tag:
            raise WrongVector("the refresh belongs to another key")
        return self._write(
            "refresh reply", reply.payload, slots=reply.slots, level=0, detail=reply.id
        )

    def reply_from_bytes(
        self, data: bytes | memoryview, *, slots: int | None = None
    ) -> RefreshReply:
        """Return the reply, of `slots` if given, or raise `DamagedData`."""
        payload, envelope = self._read("refresh reply", data, slots=slots, level=0)
        return RefreshReply(payload, slots=envelope.slots, tag=envelope.tag, id=envelope.detail)

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
        envelope, payload = unseal(data, kind=kind, scheme=self.name, library=self.library)
        most = self.parameters.max_slots
        if envelope.fingerprint != self.parameters.fingerprint:
            raise DamagedData(f"the {kind} is of other parameters")
        if envelope.tag != self.public_key.tag:
            raise DamagedData(f"the {kind} belongs to another key")
        if len(envelope.detail) != (0 if kind == "vector" else REFRESH_ID_BYTES):
            raise DamagedData(f"the detail of the {kind} is not that of its kind")
        if not 1 <= envelope.slots <= most or envelope.slots & (envelope.slots - 1):
            raise DamagedData(f"{envelope.slots} slots are not a power of two of at most {most}")
        if slots is not None and envelope.slots != slots:
            raise DamagedData(f"the {kind} has {envelope.slots} slots instead of {slots}")
        if envelope.level > self.parameters.depth:
            raise DamagedData(f"level {envelope.level} is past the last, {self.parameters.depth}")
        if level is not None and envelope.level != level:
            raise DamagedData(f"the {kind} is at level {envelope.level} instead of {level}")
        found = self._load(payload, kind=kind, slots=envelope.slots, level=envelope.level)
        return found, envelope

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
