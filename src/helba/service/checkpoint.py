"""A server's state as it is stored: a head, and parts that are named by their digests.

A checkpoint follows another; its `parts` are only those that the one before does not have. Most of
a state, the models above all, stays the same between two.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from helba.reference.engine import EncryptedVector, Engine
from helba.reference.protocol.enrolment import name_key
from helba.reference.protocol.serving.server import Server
from helba.service.protocol.snapshot import describe_server
from helba.service.protocol.snapshotparts import PartWriter


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """State `number` of a tenant, under the collective key of id `key`.

    `follows` is the number of the stored one that it replaces, 0 for none. `digests` are those of
    all its parts (SHA-256), in their order; `parts` has what is new.
    """

    number: int
    follows: int
    key: bytes
    head: bytes = field(repr=False)
    digests: tuple[bytes, ...] = field(repr=False)
    parts: Mapping[bytes, bytes] = field(repr=False)


class CheckpointWriter:
    """Makes the checkpoints of one server, each with the parts that the last one did not have."""

    def __init__(self, server: Server, *, number: int) -> None:
        self._server = server
        self._number = number
        self._head = b""
        self._known: dict[int, tuple[EncryptedVector, bytes]] = {}

    def write(self) -> Checkpoint | None:
        """Return the server's state without what concerns single rounds; None if none changed."""
        server = self._server
        writer = _DigestWriter(server._engine, known=self._known)
        head = describe_server(server, writer, lasting=True)
        if head == self._head and not writer.fresh:
            return None
        self._head, self._known = head, writer.used
        self._number += 1
        return Checkpoint(
            number=self._number,
            follows=self._number - 1,
            key=name_key(server._engine.public_key),
            head=head,
            digests=tuple(writer.digests),
            parts=writer.fresh,
        )


class _DigestWriter(PartWriter):
    """Names parts by their digests; vectors that were written before are not written again."""

    def __init__(
        self, engine: Engine, *, known: Mapping[int, tuple[EncryptedVector, bytes]]
    ) -> None:
        super().__init__(engine)
        self._before = known
        self.used: dict[int, tuple[EncryptedVector, bytes]] = {}
        self.digests: list[bytes] = []
        self.fresh: dict[bytes, bytes] = {}

    def vector(self, vector: EncryptedVector) -> int:
        """Name a vector, and write it if it is new; return the number of its part."""
        if id(vector) not in self._known:
            known = self._before.get(id(vector))
            digest = known[1] if known is not None else self._write(vector)
            self.used[id(vector)] = (vector, digest)
            self.digests.append(digest)
            self._known[id(vector)] = (len(self.digests) - 1, vector)
        return self._known[id(vector)][0]

    def _write(self, vector: EncryptedVector) -> bytes:
        data = self.engine.vector_to_bytes(vector)
        digest = hashlib.sha256(data).digest()
        self.fresh[digest] = data
        return digest
