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

from helba.engine.keys import EvaluationKey, PublicKey, SecretKey
from helba.engine.primitives import Array
from helba.engine.refresh import REFRESH_LEVELS, PendingRefresh, RefreshReply, RefreshRequest
from helba.engine.serialiser import Serialiser
from helba.engine.tally import Tally
from helba.engine.vector import Body, EncryptedVector
from helba.errors import (
    InvalidInput,
    LevelsExhausted,
    MissingKey,
    OutOfRange,
    WrongVector,
    require_whole,
)
from helba.numerics.evaluation import is_addition
from helba.planning.parameters import Parameters

__all__ = ["Engine"]

Term = tuple[EncryptedVector, float]


class Engine(Serialiser):
    """Encrypts under `public_key`; computes if it has `evaluation_key`. It cannot decrypt alone."""

    name: str

    def __init__(self, public_key: PublicKey, *, evaluation_key: EvaluationKey | None) -> None:
        if evaluation_key is not None and evaluation_key.tag != public_key.tag:
            raise WrongVector("the evaluation key and the public key belong to different owners")
        self.parameters: Parameters = public_key.parameters
        self.public_key = public_key
        self.evaluation_key = evaluation_key
        self.tally = Tally()

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
        if secret_key.tag != vector.tag:
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
        moving = [key for key in keys if key]
        if not moving:
            return [vector for _ in keys]
        body = self._settled(vector)
        if len(moving) == 1:
            self.tally.add("rotate", level=body.level)
            made = {moving[0]: self._rotate(body, moving[0])}
        else:
            self.tally.add("hoist", level=body.level)
            digits = self._hoist(body)
            made = {}
            for key in dict.fromkeys(moving):
                self.tally.add("rotate_hoisted", level=body.level)
                made[key] = self._rotate_hoisted(body, digits, key)
        return [
            self._vector(Body(made[key], body.level), slots=vector.slots) if key else vector
            for key in keys
        ]

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
        body = self._settled(vector)
        self.tally.add("hoist", level=body.level)
        self.tally.add("rotate_extended", level=body.level, count=len(moving))
        self.tally.add("shrink", level=body.level)
        total = Body(self._sum_rotations(body, moving), body.level)
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

    # -- refresh

    def begin_refresh(self, vector: EncryptedVector) -> tuple[RefreshRequest, PendingRefresh]:
        """Server: mask and re-randomise a vector that has `REFRESH_LEVELS` levels left."""
        self._require_own(vector)
        if vector.levels_left < REFRESH_LEVELS:
            raise LevelsExhausted(
                f"a refresh needs {REFRESH_LEVELS} levels, {vector.levels_left} left"
            )
        body = self._settled(vector)
        self.tally.add("refresh", level=body.level)
        request, mask = self._begin_refresh(body)
        return (
            RefreshRequest(request, slots=vector.slots, tag=vector.tag),
            PendingRefresh(mask, slots=vector.slots, tag=vector.tag),
        )

    def answer_refresh(self, request: RefreshRequest, *, secret_key: SecretKey) -> RefreshReply:
        """Owner: decrypt what is uniform, and encrypt it again at the top level."""
        if request.tag != secret_key.tag or request.tag != self.public_key.tag:
            raise WrongVector("the refresh belongs to another key")
        reply = self._answer_refresh(request.payload, secret_key)
        return RefreshReply(reply, slots=request.slots, tag=request.tag)

    def finish_refresh(self, reply: RefreshReply, pending: PendingRefresh) -> EncryptedVector:
        """Server: take the mask off; the value of before, with all its levels."""
        if (reply.tag, reply.slots) != (pending.tag, pending.slots):
            raise WrongVector("the reply belongs to another refresh")
        if reply.tag != self.public_key.tag:
            raise WrongVector("the reply belongs to another key")
        payload = self._finish_refresh(reply.payload, pending.take())
        return self._vector(Body(payload, 0), slots=reply.slots)

    def refresh(self, vector: EncryptedVector, *, secret_key: SecretKey) -> EncryptedVector:
        """All three steps of the masked refresh in one place, for whoever holds every key."""
        request, pending = self.begin_refresh(vector)
        return self.finish_refresh(self.answer_refresh(request, secret_key=secret_key), pending)

    def bootstrap(self, vector: EncryptedVector) -> EncryptedVector:
        """Return the same value with levels again, without help; |values| must be at most 1."""
        self._require_own(vector)
        key = self._require_evaluation()
        if key.bootstrap_slots != vector.slots:
            raise MissingKey(
                f"no bootstrapping keys for {vector.slots} slots "
                f"(they are for {key.bootstrap_slots or 'none'})"
            )
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

    # -- laziness

    def _settled(self, vector: EncryptedVector) -> Body:
        """The value relinearised and rescaled; made once."""
        if vector._body.degree == 2:
            vector._body = self._settle(vector._body)
        return vector._body

    def _settle(self, body: Body) -> Body:
        if not body.linear:
            self._require_evaluation()
            self.tally.add("relinearise", level=body.level)
            body = Body(self._relinearise(body), body.level, degree=2)
        if body.degree == 1:
            return body
        self.tally.add("rescale", level=body.level)
        return Body(self._rescale(body), body.level + 1)

    def _at_level(self, vector: EncryptedVector, level: int) -> Body:
        """The settled value at `level`; made once for each level."""
        body = self._settled(vector)
        if body.level == level:
            return body
        if level not in vector._lowered:
            vector._lowered[level] = self._settle(self._scaled(vector, 1.0, level - 1))
        return vector._lowered[level]

    def _scaled(self, vector: EncryptedVector, factor: float, level: int) -> Body:
        """Factor times the value, pending at `level`: one product with a number, no rescaling."""
        body = self._settled(vector)
        self.tally.add("adjust" if is_addition(factor) else "multiply_scalar", level=level)
        return Body(self._multiply_scalar(body, factor, level), level, degree=2)

    def _accumulate(self, total: Body | None, part: Body, coefficient: float) -> Body:
        """Total + coefficient * part for a small integer coefficient."""
        count = int(abs(coefficient))
        if count == 0:
            return total if total is not None else self._sum(part, part, add=False)
        if total is None and coefficient < 0:
            total = self._sum(part, part, add=False)
        elif total is None:
            total, count = part, count - 1
        for _ in range(count):
            total = self._sum(total, part, add=coefficient > 0)
        return total

    def _sum(self, left: Body, right: Body, *, add: bool) -> Body:
        self.tally.add("add", level=left.level)
        payload = self._add(left, right) if add else self._subtract(left, right)
        linear = left.linear and right.linear
        return Body(payload, left.level, degree=left.degree, linear=linear)

    def _plus(self, body: Body, clear: Array) -> Body:
        self.tally.add("add_plain", level=body.level)
        payload = self._add_plain(body, clear)
        return Body(payload, body.level, degree=body.degree, linear=body.linear)

    # -- checks

    def _vector(self, body: Body, *, slots: int) -> EncryptedVector:
        tag = self.public_key.tag
        return EncryptedVector(body, slots=slots, parameters=self.parameters, tag=tag)

    def _require_own(self, vector: EncryptedVector, *, slots: int | None = None) -> None:
        if vector.tag != self.public_key.tag or vector.parameters != self.parameters:
            raise WrongVector("the vector is of another key or of other parameters")
        if slots is not None and vector.slots != slots:
            raise WrongVector(f"a vector of {vector.slots} slots meets one of {slots}")

    def _require_level(self, level: int) -> None:
        if level > self.parameters.depth:
            raise LevelsExhausted(
                f"level {level} is needed and there are {self.parameters.depth}: refresh first"
            )

    def _require_evaluation(self) -> EvaluationKey:
        if self.evaluation_key is None:
            raise MissingKey("this engine has no evaluation key: it only encrypts")
        return self.evaluation_key

    def _require_slots(self, slots: int) -> None:
        most = self.parameters.max_slots
        if slots < 1 or slots & (slots - 1) or slots > most:
            raise WrongVector(f"slots must be a power of two of at most {most}, got {slots}")

    def _require_range(self, largest: float, *, level: int) -> None:
        """Values must stay below half the modulus over the scale, with a bit to spare."""
        parameters = self.parameters
        modulus = parameters.first_bits + (parameters.depth - level) * parameters.scale_bits
        bits = modulus - parameters.scale_bits - 2
        if largest > 2.0 ** min(bits, 60):
            raise OutOfRange(f"a value is beyond 2^{min(bits, 60)}, the range at level {level}")

    def _clear(self, values: ArrayLike, *, slots: int | None) -> Array:
        """The plaintext as an array: `slots` numbers, or one, or any power of two if None."""
        clear = np.array(values, dtype=np.float64)
        if clear.ndim == 0 and slots is not None:
            if not math.isfinite(float(clear)):
                raise InvalidInput("values", "one that is not finite", "finite")
            return clear
        if clear.ndim != 1 or len(clear) == 0:
            raise InvalidInput("values", f"shape {clear.shape}", "a vector")
        if slots is None:
            self._require_slots(len(clear))
        elif len(clear) != slots:
            raise WrongVector(f"{len(clear)} numbers meet a vector of {slots} slots")
        if not np.isfinite(clear).all():
            raise InvalidInput("values", "one that is not finite", "finite")
        return clear

    def _rotation_key(self, steps: int, *, slots: int) -> int:
        """The key that rotates a vector of `slots` by `steps`; 0 if nothing moves."""
        wanted = steps % slots
        if wanted == 0:
            return 0
        rotations = self._require_evaluation().rotations
        if wanted in rotations:
            return wanted
        for key in sorted(rotations):
            if key % slots == wanted:
                return key
        raise MissingKey(f"no key rotates {slots} slots by {wanted}")
