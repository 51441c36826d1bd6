"""What serving many users at once needs: sums in place, and plaintexts that are encoded apart.

An `EncodedVector` is made once and meets many vectors, or is used once and not kept: the engine's
own store of plaintexts (see `multiply_plain`) never sees it. Its values are not shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from numpy.typing import ArrayLike

from helba.errors import InvalidInput, WrongVector, require_whole
from helba.reference.engine.bookkeeping import Bookkeeping
from helba.reference.engine.primitives import Array
from helba.reference.engine.vector import Body, EncryptedVector
from helba.reference.planning.parameters import Parameters

__all__ = ["Batching", "EncodedVector"]


class EncodedVector:
    """Numbers in the clear, encoded for vectors of `slots` slots at `level`.

    `whole` are those of a polynomial with whole coefficients, at scale 1 (see `whole`).
    """

    __slots__ = ("_payload", "level", "parameters", "slots", "whole")

    def __init__(
        self,
        payload: Any,
        *,
        slots: int,
        level: int,
        parameters: Parameters,
        whole: bool = False,
    ) -> None:
        self._payload = payload
        self.whole = whole
        self.slots = slots
        self.level = level
        self.parameters = parameters

    def __repr__(self) -> str:
        kind = "whole " if self.whole else ""
        return f"<EncodedVector of {self.slots} {kind}slots at level {self.level}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an encoded vector does not leave its process")


class Batching(Bookkeeping):
    """Operations of an engine, beside those of `Engine`."""

    def encode(self, values: ArrayLike, *, level: int, slots: int | None = None) -> EncodedVector:
        """Return a power of two of finite numbers, encoded for one level.

        Repeated over `slots`, if these are given.
        """
        clear = self._clear(values, slots=None)
        wide = self._repeated(clear, slots=slots, level=level)
        payload = self._prepare(clear, level, wide)
        return EncodedVector(payload, slots=wide, level=level, parameters=self.parameters)

    def multiply_encoded(self, vector: EncryptedVector, factor: EncodedVector) -> EncryptedVector:
        """Return vector * factor, slot by slot: one level."""
        self._require_level(vector.level + 1)
        body = self._meeting(vector, factor)
        self.tally.add("multiply_plain", level=body.level)
        product = Body(self._multiply_prepared(body, factor._payload), body.level, degree=2)
        return self._vector(product, slots=vector.slots)

    def encode_whole(self, values: ArrayLike, *, slots: int, level: int) -> EncodedVector:
        """Return what `split_whole` made, repeated over `slots`, encoded for one level."""
        clear = self._clear(values, slots=None)
        payload = self._prepare_whole(clear, level, self._repeated(clear, slots=slots, level=level))
        return EncodedVector(
            payload, slots=slots, level=level, parameters=self.parameters, whole=True
        )

    def sum_whole(
        self,
        vectors: Sequence[EncryptedVector],
        factors: Sequence[EncodedVector],
        *,
        summands: Sequence[EncodedVector] = (),
    ) -> EncryptedVector:
        """Return the sum of vector * factor, slot by slot, for as many whole factors: no level.

        And of `summands`, of the vectors' level.
        """
        if not vectors or len(vectors) != len(factors):
            raise InvalidInput("factors", len(factors), "as many as vectors, and at least one")
        bodies = [
            self._meeting(vector, factor, whole=True)
            for vector, factor in zip(vectors, factors, strict=True)
        ]
        level, slots = bodies[0].level, vectors[0].slots
        if any((each.level, each.slots) != (level, slots) for each in vectors):
            raise WrongVector("vectors of different form meet")
        self.tally.add("multiply_plain", level=level, count=len(bodies))
        self.tally.add("add", level=level, count=len(bodies) - 1)
        total = Body(self._sum_whole(bodies, [factor._payload for factor in factors]), level)
        for summand in summands:
            self._meeting(vectors[0], summand)
            self.tally.add("add_plain", level=level)
            total = Body(self._add_prepared_onto(total, summand._payload), level)
        return self._vector(total, slots=slots)

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

    def _repeated(self, clear: Array, *, slots: int | None, level: int) -> int:
        """The slots that numbers are encoded for, checked with the level."""
        require_whole("level", level, least=0, most=self.parameters.depth)
        if slots is None:
            return len(clear)
        self._require_slots(slots)
        if slots < len(clear):
            raise WrongVector(f"{len(clear)} numbers do not fit {slots} slots")
        return slots

    def _meeting(
        self, vector: EncryptedVector, encoded: EncodedVector, *, whole: bool = False
    ) -> Body:
        """The vector settled, if it has the form that `encoded` is for."""
        self._require_own(vector)
        if (encoded.slots, encoded.level, encoded.parameters, encoded.whole) != (
            vector.slots,
            vector.level,
            self.parameters,
            whole,
        ):
            raise WrongVector(f"{vector!r} meets {encoded!r}, or one of other parameters")
        return self._settled(vector)
