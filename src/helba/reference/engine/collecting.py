"""Vectors that arrive as bytes and are needed as their sum only.

What arrives is checked like any vector (`Serialiser.vector_from_bytes`), and what is refused
changes nothing. A scheme may keep and add payloads in the form in which they travel, and make one
of its own objects of their sum in the end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn, Protocol

from helba.errors import InvalidInput, WrongVector, require_whole
from helba.reference.engine.bookkeeping import Bookkeeping
from helba.reference.engine.serialiser import Serialiser
from helba.reference.engine.vector import Body, EncryptedVector

__all__ = ["Collecting", "PayloadSum", "ReadVector", "VectorSum"]


class PayloadSum(Protocol):
    """The sum of payloads of one shape."""

    def read(self, data: memoryview) -> Any:
        """Return a payload as it is added, or raise `DamagedData`."""

    def add(self, payloads: Sequence[Any]) -> None:
        """Add what was read; it stays as it is."""

    def payload(self) -> Any:
        """Return the scheme's own ciphertext of the sum; more may be added after."""


class ReadVector:
    """A vector that was read and checked, to be added to others of its shape and key."""

    __slots__ = ("_payload", "shape")

    def __init__(self, payload: Any, *, shape: tuple[str, int, int]) -> None:
        self._payload = payload
        self.shape = shape

    def __repr__(self) -> str:
        return f"<ReadVector slots={self.shape[1]} level={self.shape[2]}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a vector that was read does not leave its process")


class VectorSum:
    """The sum of vectors of `slots` slots at `level` under the key of `engine`. For one thread."""

    def __init__(self, engine: Collecting, *, slots: int, level: int) -> None:
        self._engine = engine
        self._sum = engine._new_sum(slots, level)
        self.slots, self.level, self.count = slots, level, 0

    def read(self, data: bytes | memoryview) -> ReadVector:
        """Return a vector that `vector_to_bytes` wrote, or raise `DamagedData`; adds nothing."""
        _, payload = self._engine._unsealed("vector", data, slots=self.slots, level=self.level)
        return ReadVector(self._sum.read(payload), shape=self._shape)

    def add(self, vectors: Iterable[ReadVector]) -> None:
        """Add vectors; many at once are quicker than one by one."""
        wanted = list(vectors)
        if any(vector.shape != self._shape for vector in wanted):
            raise WrongVector("a vector of another key or form meets a sum")
        self._sum.add([vector._payload for vector in wanted])
        sums = len(wanted) - (0 if self.count else 1)
        if sums > 0:
            self._engine.tally.add("add", level=self.level, count=sums)
        self.count += len(wanted)

    def total(self) -> EncryptedVector:
        """Return the sum of at least one vector."""
        if self.count == 0:
            raise InvalidInput("vectors", "none", "at least one")
        return self._engine._vector(Body(self._sum.payload(), self.level), slots=self.slots)

    @property
    def _shape(self) -> tuple[str, int, int]:
        return self._engine.public_key.tag, self.slots, self.level

    def __repr__(self) -> str:
        return f"<VectorSum of {self.count} slots={self.slots} level={self.level}>"


class Collecting(Bookkeeping, Serialiser):
    """Sums of what arrives."""

    def collect(self, *, slots: int, level: int) -> VectorSum:
        """Return the sum of no vectors yet, of this shape."""
        self._require_slots(slots)
        require_whole("level", level, least=0, most=self.parameters.depth)
        return VectorSum(self, slots=slots, level=level)

    @abstractmethod
    def _new_sum(self, slots: int, level: int) -> PayloadSum:
        """The sum of no payloads."""
