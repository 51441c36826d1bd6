"""What serving many users at once needs: sums in place, and plaintexts that are encoded apart.

An `EncodedVector` is made once and meets many vectors, or is used once and not kept: the engine's
own store of plaintexts (see `multiply_plain`) never sees it. Its values are not shown.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NoReturn

from numpy.typing import ArrayLike

from helba.engine.bookkeeping import Bookkeeping
from helba.engine.vector import Body, EncryptedVector
from helba.errors import InvalidInput, WrongVector, require_whole
from helba.planning.parameters import Parameters

__all__ = ["Batching", "EncodedVector"]


class EncodedVector:
    """Numbers in the clear, encoded for vectors of `slots` slots at `level`."""

    __slots__ = ("_payload", "level", "parameters", "slots")

    def __init__(self, payload: Any, *, slots: int, level: int, parameters: Parameters) -> None:
        self._payload = payload
        self.slots = slots
        self.level = level
        self.parameters = parameters

    def __repr__(self) -> str:
        return f"<EncodedVector of {self.slots} slots at level {self.level}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an encoded vector does not leave its process")


class Batching(Bookkeeping):
    """Operations of an engine, beside those of `Engine`."""

    def encode(self, values: ArrayLike, *, level: int) -> EncodedVector:
        """Return a power of two of finite numbers, encoded for one level."""
        clear = self._clear(values, slots=None)
        require_whole("level", level, least=0, most=self.parameters.depth)
        payload = self._prepare(clear, level)
        return EncodedVector(payload, slots=len(clear), level=level, parameters=self.parameters)

    def multiply_encoded(self, vector: EncryptedVector, factor: EncodedVector) -> EncryptedVector:
        """Return vector * factor, slot by slot: one level."""
        self._require_level(vector.level + 1)
        body = self._meeting(vector, factor)
        self.tally.add("multiply_plain", level=body.level)
        product = Body(self._multiply_prepared(body, factor._payload), body.level, degree=2)
        return self._vector(product, slots=vector.slots)

    def add_encoded(self, vector: EncryptedVector, *summands: EncodedVector) -> EncryptedVector:
        """Return the sum of the vector and of all summands."""
        body = self._settled(vector)
        for index, summand in enumerate(summands):
            self._meeting(vector, summand)
            self.tally.add("add_plain", level=body.level)
            add = self._add_prepared if index == 0 else self._add_prepared_onto
            body = Body(add(body, summand._payload), body.level)
        return self._vector(body, slots=vector.slots)

    def add_up(self, vectors: Iterable[EncryptedVector]) -> EncryptedVector:
        """Return the sum of at least one vector, all of one level; each is asked for when due."""
        total: Body | None = None
        slots = 0
        for vector in vectors:
            self._require_own(vector, slots=slots or None)
            body, slots = self._settled(vector), vector.slots
            if total is None:
                total = Body(self._copy(body), body.level)
                continue
            if body.level != total.level:
                raise WrongVector(f"a vector of level {body.level} meets one of {total.level}")
            self.tally.add("add", level=body.level)
            total = Body(self._add_onto(total, body), body.level)
        if total is None:
            raise InvalidInput("vectors", "none", "at least one")
        return self._vector(total, slots=slots)

    def _meeting(self, vector: EncryptedVector, encoded: EncodedVector) -> Body:
        """The vector settled, if it has the form that `encoded` is for."""
        self._require_own(vector)
        if (encoded.slots, encoded.level, encoded.parameters) != (
            vector.slots,
            vector.level,
            self.parameters,
        ):
            raise WrongVector(f"{vector!r} meets {encoded!r}, or one of other parameters")
        return self._settled(vector)
