"""The parts of a saved server: vectors, each once, and messages that are checked when read.

Goes with the old service.
"""

from __future__ import annotations

from collections.abc import Sequence

from helba.errors import DamagedData
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.engine.wire.envelope import require_digest
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Answer, Message, Task


class PartWriter:
    """Collects parts; a vector that occurs twice is written once."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.parts: list[bytes] = []
        self._known: dict[int, tuple[int, EncryptedVector]] = {}

    def part(self, data: bytes) -> int:
        """Add a part and return its number."""
        self.parts.append(data)
        return len(self.parts) - 1

    def vector(self, vector: EncryptedVector) -> int:
        """Add a vector, if it is new, and return the number of its part."""
        if id(vector) not in self._known:
            number = self.part(self.engine.vector_to_bytes(vector))
            self._known[id(vector)] = (number, vector)
        return self._known[id(vector)][0]

    def vectors(self, vectors: Sequence[EncryptedVector]) -> list[int]:
        """Add vectors and return their numbers."""
        return [self.vector(vector) for vector in vectors]

    def maybe(self, vector: EncryptedVector | None) -> int | None:
        """Add a vector, if there is one."""
        return None if vector is None else self.vector(vector)


class PartReader:
    """Gives vectors back, each parsed once, and messages, each read."""

    def __init__(self, engine: Engine, parts: Sequence[bytes], *, codec: Codec) -> None:
        self.engine = engine
        self._parts = parts
        self._codec = codec
        self._known: dict[int, EncryptedVector] = {}

    def part(self, number: int) -> bytes:
        """Return a part."""
        return self._parts[number]

    def vector(self, number: int) -> EncryptedVector:
        """Return the vector of a part."""
        if number not in self._known:
            self._known[number] = self.engine.vector_from_bytes(self.part(number))
        return self._known[number]

    def vectors(self, numbers: Sequence[int]) -> list[EncryptedVector]:
        """Return the vectors of parts."""
        return [self.vector(number) for number in numbers]

    def maybe(self, number: int | None) -> EncryptedVector | None:
        """Return the vector of a part, if there is one."""
        return None if number is None else self.vector(number)

    def answer(self, number: int, *, round: bytes) -> bytes:
        """The bytes of the answer to `round`."""
        message = self._codec.decode(self.part(number))
        if not isinstance(message, Answer) or message.round != round:
            raise DamagedData("a kept answer is none, or another")
        return self._sound(number, message)

    def task(self, number: int, *, name: bytes) -> bytes:
        """The bytes of the task of that name."""
        message = self._codec.decode(self.part(number))
        if not isinstance(message, Task) or message.task != name:
            raise DamagedData("a task that is out is none, or another")
        return self._sound(number, message)

    def _sound(self, number: int, message: Message) -> bytes:
        """The bytes of a message whose parts are as they were written."""
        for part in message.parts:
            require_digest(part)
        return self.part(number)
