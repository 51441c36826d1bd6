"""The operations on encrypted vectors, on top of the primitives that a scheme implements.

Rules that hold for every engine:

- Values are immutable; an operation returns a new one.
- A product of two vectors, or with a plaintext that is not a small integer, costs one level above
  the deeper operand. Sums, rotations and integer multiples up to 4 cost none.
- Operands of different levels are brought together without a further level.
- Products are relinearised and rescaled only when someone needs it, and once: sums of products pay
  for that a single time.
- Rotation is to the left and cyclic in the vector's slots: slot i gets slot i + step.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike

from helba.errors import InvalidInput, LevelsExhausted, MissingKey, WrongVector, require_whole
from helba.reference.engine.exchanges.masking import Masking
from helba.reference.engine.keys import SecretKey
from helba.reference.engine.primitives import Array
from helba.reference.engine.reencryption import Reencryption
from helba.reference.engine.tally import Tally
from helba.reference.engine.vector import Body, EncryptedVector
from helba.reference.engine.wire.serialiser import Serialiser
from helba.reference.numerics.evaluation import is_addition

Term = tuple[EncryptedVector, float]


class Engine(Masking, Reencryption, Serialiser):
    """Encrypts under `public_key`; computes if it has `evaluation_key`. It cannot decrypt alone."""

    # -- in and out

    def encrypt(self, values: ArrayLike, *, level: int = 0) -> EncryptedVector:
        """Encrypt a power of two of finite numbers, as if `level` levels were used already."""
        clear = self._clear(values, slots=None)
        require_whole("level", level, least=0, most=self.parameters.depth)
        self._require_range(float(np.abs(clear).max()), level=level)
        self.tally.add("encrypt", level=level)
        return self._vector(Body(self._encrypt(clear, level), level), slots=len(clear))

    def decrypt(self, vector: EncryptedVector, *, secret_key: SecretKey) -> Array:
        """Return the numbers; only the owner of the key can call this."""
        self._require_own(vector)
        if not secret_key.belongs_to(self.public_key):
            raise WrongVector("the vector is not encrypted under this key")
        self.tally.add("decrypt", level=vector.level)
        return self._decrypt(self._settled(vector), secret_key, vector.slots)

    # -- sums

    def add(self, left: EncryptedVector, right: EncryptedVector) -> EncryptedVector:
        """Return left + right."""
        return self.combine([(left, 1.0), (right, 1.0)])

    def subtract(self, left: EncryptedVector, right: EncryptedVector) -> EncryptedVector:
        """Return left - right."""
        return self.combine([(left, 1.0), (right, -1.0)])

    def add_plain(self, vector: EncryptedVector, values: ArrayLike) -> EncryptedVector:
        """Return vector + values, one number for all slots or one for each."""
        self._require_own(vector)
        clear = self._clear(values, slots=vector.slots)
        return self._vector(self._plus(vector._body, clear), slots=vector.slots)

    def combine(
        self, terms: Sequence[Term], *, constant: float = 0.0, level: int | None = None
    ) -> EncryptedVector:
        """Return the sum of coefficient * vector, plus `constant`, at `level` if that is given.

        A coefficient that is an integer of size at most 4 costs no level, another one does.
        `level` may be above what is needed: a sum that lands where it is used next saves work.
        """
        if not terms:
            raise InvalidInput("terms", "none", "at least one")
        slots = terms[0][0].slots
        for vector, coefficient in terms:
            self._require_own(vector, slots=slots)
            if not math.isfinite(coefficient):
                raise InvalidInput("coefficient", coefficient, "finite")
        if not math.isfinite(constant):
            raise InvalidInput("constant", constant, "finite")
        needed = max(v.level + (0 if is_addition(c) else 1) for v, c in terms)
        target = needed if level is None else level
        if target < needed:
            raise InvalidInput("level", target, f"at least {needed}")
        self._require_level(target)
        total: list[Body | None] = [None, None]  # settled at `target`, pending one level above
        for vector, coefficient in terms:
            if vector.level == target:
                part, sign = vector._body, coefficient
            else:
                part, sign = self._scaled(vector, coefficient, target - 1), 1.0
            place = part.degree - 1
            total[place] = self._accumulate(total[place], part, sign)
        settled, pending = total
        if settled is not None and pending is not None:
            settled, pending = self._sum(settled, self._settle(pending), add=True), None
        result = settled if pending is None else pending
        assert result is not None
        if constant != 0.0:
            result = self._plus(result, np.asarray(constant, dtype=np.float64))
        return self._vector(result, slots=slots)

    # -- products

    def multiply(self, left: EncryptedVector, right: EncryptedVector) -> EncryptedVector:
        """Return left * right, slot by slot."""
        self._require_own(left)
        self._require_own(right, slots=left.slots)
        level = max(left.level, right.level)
        self._require_level(level + 1)
        a, b = self._at_level(left, level), self._at_level(right, level)
        self._require_evaluation()
        self.tally.add("multiply", level=level)
        body = Body(self._multiply(a, b), level, degree=2, linear=False)
        return self._vector(body, slots=left.slots)

    def multiply_plain(self, vector: EncryptedVector, values: ArrayLike) -> EncryptedVector:
        """Return vector * values, one number for all slots or one for each."""
        self._require_own(vector)
        clear = self._clear(values, slots=vector.slots)
        if clear.ndim == 0:
            return self.multiply_scalar(vector, float(clear))
        self._require_level(vector.level + 1)
        body = self._settled(vector)
        self.tally.add("multiply_plain", level=body.level)
        product = Body(self._multiply_plain(body, clear), body.level, degree=2)
        return self._vector(product, slots=vector.slots)

    def multiply_scalar(self, vector: EncryptedVector, factor: float) -> EncryptedVector:
        """Return factor * vector; without a level if `factor` is an integer of size at most 4."""
        return self.combine([(vector, float(factor))])

    # -- movement

    def rotate(self, vector: EncryptedVector, steps: int) -> EncryptedVector:
        """Return the vector whose slot i is slot i + steps of this one, cyclically."""
        return self.rotate_many(vector, [steps])[0]

    def rotate_many(self, vector: EncryptedVector, steps: Sequence[int]) -> list[EncryptedVector]:
        """Return one rotation for each of `steps`; they share the costly part of the work."""
        self._require_own(vector)
        keys = [self._rotation_key(step, slots=vector.slots) for step in steps]
        moving = list(dict.fromkeys(key for key in keys if key))
        if not moving:
            return [vector for _ in keys]
        # One rotation leaves a pending product pending: the error of its key is that much smaller.
        # Several would each be rescaled later, so they settle first.
        body = self._linear(vector) if len(moving) == 1 else self._settled(vector)
        if len(moving) == 1:
            self.tally.add("rotate", level=body.level)
            made = {moving[0]: self._rotate(body, moving[0])}
        else:
            self.tally.add("hoist", level=body.level)
            self.tally.add("rotate_hoisted", level=body.level, count=len(moving))
            digits = self._hoist(body)
            made = {key: self._rotate_hoisted(body, digits, key) for key in moving}
        rotated = {
            key: self._vector(Body(payload, body.level, degree=body.degree), slots=vector.slots)
            for key, payload in made.items()
        }
        return [rotated[key] if key else vector for key in keys]

    def sum_rotations(self, vector: EncryptedVector, steps: Sequence[int]) -> EncryptedVector:
        """Return the sum of the rotations by `steps`, 0 allowed, for little more than one."""
        self._require_own(vector)
        keys = [self._rotation_key(step, slots=vector.slots) for step in steps]
        moving = [key for key in keys if key]
        still = len(keys) - len(moving)
        if still > 1 or len(set(moving)) != len(moving):
            raise InvalidInput("steps", "a step twice", "different steps")
        if len(moving) < 2:
            return self.combine([(part, 1.0) for part in self.rotate_many(vector, list(steps))])
        body = self._linear(vector)
        self.tally.add("hoist", level=body.level)
        self.tally.add("rotate_extended", level=body.level, count=len(moving))
        self.tally.add("shrink", level=body.level)
        total = Body(self._sum_rotations(body, moving), body.level, degree=body.degree)
        if still:
            total = self._sum(total, body, add=True)
        return self._vector(total, slots=vector.slots)

    def repeat(self, vector: EncryptedVector, slots: int) -> EncryptedVector:
        """Return the vector repeated until it fills `slots`: free."""
        self._require_own(vector)
        self._require_slots(slots)
        if slots < vector.slots:
            raise WrongVector(f"a vector of {vector.slots} slots cannot shrink to {slots}")
        if slots == vector.slots:
            return vector
        body = self._settled(vector)
        repeated = Body(self._repeat(body, slots // vector.slots), body.level)
        return self._vector(repeated, slots=slots)

    def fold(self, vector: EncryptedVector, slots: int) -> EncryptedVector:
        """Return the first `slots` slots of a vector that repeats them: free, undoes `repeat`.

        The caller answers for the period. The simulator refuses a vector without it; CKKS cannot
        tell, and whoever decrypts the result can still read what did not repeat.
        """
        self._require_own(vector)
        self._require_slots(slots)
        if slots > vector.slots:
            raise WrongVector(f"a vector of {vector.slots} slots does not repeat {slots}")
        if slots == vector.slots:
            return vector
        body = self._settled(vector)
        folded = Body(self._fold(body, slots), body.level)
        return self._vector(folded, slots=slots)

    def lower(self, vector: EncryptedVector, level: int) -> EncryptedVector:
        """Return the same value with `level` levels used: smaller, and quicker to work on."""
        self._require_own(vector)
        if level < vector.level:
            raise InvalidInput("level", level, f"at least {vector.level}: levels do not come back")
        self._require_level(level)
        return self._vector(self._at_level(vector, level), slots=vector.slots)

    # -- levels again; `Masking` has the ways that need the key's owner

    def bootstrap(self, vector: EncryptedVector) -> EncryptedVector:
        """Return the same value with levels again, without help; |values| must be at most 1."""
        self._require_own(vector)
        key = self._require_evaluation()
        if key.bootstrap_slots != vector.slots:
            raise MissingKey(
                f"no bootstrapping keys for {vector.slots} slots "
                f"(they are for {key.bootstrap_slots or 'none'})"
            )
        if not vector.levels_left:
            raise LevelsExhausted("bootstrapping needs 1 level, 0 left: it adjusts the scale")
        body = self._settled(vector)
        self.tally.add("bootstrap", level=body.level)
        return self._vector(self._bootstrap(body), slots=vector.slots)

    # -- counting

    @contextmanager
    def count(self) -> Iterator[Tally]:
        """Count what happens inside the block, apart from the engine's own tally."""
        outer, inner = self.tally, Tally()
        self.tally = inner
        try:
            yield inner
        finally:
            outer.include(inner)
            self.tally = outer
