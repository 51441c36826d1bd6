"""What an engine keeps track of: products that are pending, levels, keys, and the checks on input.

A product is relinearised and rescaled when something needs it, once; a value is brought down to
another level once. An `EncryptedVector` keeps the form that was made last.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from helba.errors import InvalidInput, LevelsExhausted, MissingKey, OutOfRange, WrongVector
from helba.reference.engine.keys import EvaluationKey, PublicKey, ReencryptionKey
from helba.reference.engine.primitives import Array, Primitives
from helba.reference.engine.tally import Tally
from helba.reference.engine.vector import Body, EncryptedVector
from helba.reference.numerics.evaluation import is_addition
from helba.reference.planning.parameters import Parameters


class Bookkeeping(Primitives):
    """The state of an engine, and the primitives with their bookkeeping done."""

    name: str

    def __init__(self, public_key: PublicKey, *, evaluation_key: EvaluationKey | None) -> None:
        if evaluation_key is not None and not evaluation_key.belongs_to(public_key):
            raise WrongVector("the evaluation key and the public key belong to different owners")
        self.parameters: Parameters = public_key.parameters
        self.public_key = public_key
        self.evaluation_key = evaluation_key
        self.tally = Tally()

    # -- laziness

    def _settled(self, vector: EncryptedVector) -> Body:
        """The value relinearised and rescaled; made once."""
        if vector._body.degree == 2:
            vector._body = self._settle(vector._body)
        return vector._body

    def _linear(self, vector: EncryptedVector) -> Body:
        """The value relinearised, its rescaling still to come if it was; made once."""
        vector._body = self._relinearised(vector._body)
        return vector._body

    def _relinearised(self, body: Body) -> Body:
        if body.linear:
            return body
        self._require_evaluation()
        self.tally.add("relinearise", level=body.level)
        return Body(self._relinearise(body), body.level, degree=2)

    def _settle(self, body: Body) -> Body:
        body = self._relinearised(body)
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
        if vector.tag != self.public_key.tag or (
            vector.parameters is not self.parameters and vector.parameters != self.parameters
        ):
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

    def _require_way(self, key: ReencryptionKey, *, level: int) -> None:
        """Raise unless `key` leads from this engine's key, for vectors of `level`."""
        if not key.belongs_to(self.public_key):
            raise WrongVector("the re-encryption key is of another owner")
        if level < key.level:
            raise MissingKey(
                f"the re-encryption key serves level {key.level} and later, not {level}"
            )

    def _require_slots(self, slots: int) -> None:
        most = self.parameters.max_slots
        if slots < 1 or slots & (slots - 1) or slots > most:
            raise WrongVector(f"slots must be a power of two of at most {most}, got {slots}")

    def _require_range(self, largest: float, *, level: int) -> None:
        """Values must stay below half the modulus over the scale, with a bit to spare."""
        parameters = self.parameters
        modulus = parameters.first_bits + (parameters.depth - level) * parameters.scale_bits
        bits = modulus - parameters.scale_bits - 2
        if not largest <= 2.0 ** min(bits, 60):  # neither is a value that is no number
            raise OutOfRange(f"a value is beyond 2^{min(bits, 60)}, the range at level {level}")

    def _clear(self, values: ArrayLike, *, slots: int | None) -> Array:
        """The plaintext as an array: `slots` numbers, or one, or any power of two if None.

        It may be the caller's own, who may change it later.
        """
        clear = np.asarray(values, dtype=np.float64)
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
