"""The simulator: the same circuits in the clear. It protects nothing, and says so in its name.

It follows the levels, products and rotations of CKKS exactly, since the engine's own code decides
them for both schemes; it carries for every slot a bound of the error that CKKS may make; and it
fails where CKKS would: levels used up, a missing rotation key, wrong slots (all in `Engine`), and,
what CKKS does silently, a value that wraps around the modulus.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.errors import DamagedData, OutOfRange, WrongVector
from helba.reference.engine.engine import Engine
from helba.reference.engine.exchanges.opening import draw_flood
from helba.reference.engine.keys import (
    EvaluationKey,
    PublicKey,
    Recipient,
    ReencryptionKey,
    SecretKey,
)
from helba.reference.engine.primitives import Array
from helba.reference.engine.reencryption import draw_coefficient_flood, draw_slot_flood
from helba.reference.engine.vector import Body, EncryptedVector
from helba.reference.engine.wire.packing import pack_words, unpack_words
from helba.reference.planning.bounds.bootstrap import BOOTSTRAP_LEVELS, bootstrap_error
from helba.reference.planning.bounds.noise import NoiseModel

LIBRARY = "simulator 1"
# A bound that says nothing any more; products of it are still finite.
NO_BOUND = 1e100
FLOODED_COEFFICIENTS = 4
FRACTION_BITS = 40  # of the fixed-point numbers that a simulated refresh masks


class Clear:
    """The numbers, and for each a bound of the error that CKKS would have made by now.

    A vector of few slots reads few coefficients, but the noise of all is in the ciphertext and
    shows when the vector is repeated. The bound is what all slots of the ring would see. Neither
    array is ever changed.
    """

    __slots__ = ("_largest", "noise", "values")

    def __init__(self, values: Array, noise: Array, *, largest: float | None = None) -> None:
        self.values = values
        self.noise = noise
        self._largest = largest

    @property
    def largest(self) -> float:
        """The largest size of a number; found once."""
        if self._largest is None:
            self._largest = _largest(self.values)
        return self._largest


@dataclass(frozen=True, eq=False)
class Masked:
    """Fixed-point numbers modulo 2^64, and the bounds of their error."""

    integers: NDArray[np.uint64]
    noise: Array


class SimulatedEngine(Engine):
    """Computes in the clear what CKKS computes on ciphertexts. For tests and for speed."""

    name = "simulate"
    library = LIBRARY

    def __init__(self, public_key: PublicKey, *, evaluation_key: EvaluationKey | None) -> None:
        super().__init__(public_key, evaluation_key=evaluation_key)
        self.model = NoiseModel(self.parameters)
        widest = self.parameters.max_slots
        self._encryption = self.model.encryption(widest)
        self._rounding = self.model.encoding(widest)
        self._rescaling = self.model.rescaling(widest)
        self._rotation = self.model.key_switching(widest)
        self._pending_rotation = self.model.pending_key_switching(widest)

    def noise_bound(self, vector: EncryptedVector) -> float:
        """Return the largest error that CKKS may have made in a slot of `vector` by now.

        Errors add up as in interval arithmetic, so after long iterations the bound says little, and
        in the end it is infinite; values that CKKS would get right stay right here.
        """
        self._require_own(vector)
        held = _clear(self._settled(vector))
        reading = self.model.representation(held.largest, slots=vector.slots)
        bound = float(held.noise.max())
        return bound + reading if bound < NO_BOUND else math.inf

    def _encrypt(self, clear: Array, level: int) -> Any:
        largest = _largest(clear)
        added = self._encryption + self.model.representation(largest, slots=len(clear))
        return Clear(clear.copy(), np.full(len(clear), added), largest=largest)

    def _decrypt(self, body: Body, secret_key: SecretKey, slots: int) -> Array:
        return _clear(body).values.copy()

    def _add(self, left: Body, right: Body) -> Any:
        a, b = _clear(left), _clear(right)
        return self._bounded(a.values + b.values, a.noise + b.noise, left)

    def _subtract(self, left: Body, right: Body) -> Any:
        a, b = _clear(left), _clear(right)
        return self._bounded(a.values - b.values, a.noise + b.noise, left)

    def _add_plain(self, body: Body, clear: Array) -> Any:
        a = _clear(body)
        return self._bounded(a.values + clear, a.noise + self._encoding(clear), body)

    def _multiply(self, left: Body, right: Body) -> Any:
        a, b = _clear(left), _clear(right)
        # |a| n_b + (|b| + n_b) n_a, in place: vectors are long and memory is slow
        noise = np.abs(a.values)
        noise *= b.noise
        rest = np.abs(b.values)
        rest += b.noise
        rest *= a.noise
        noise += rest
        return _product(a.values * b.values, noise)

    def _multiply_plain(self, body: Body, clear: Array) -> Any:
        a, rounding = _clear(body), self._encoding(clear)
        noise = np.abs(clear)
        noise += rounding
        noise *= a.noise
        rest = np.abs(a.values)
        rest *= rounding
        noise += rest
        return _product(a.values * clear, noise)

    def _multiply_scalar(self, body: Body, factor: float, level: int) -> Any:
        a = _clear(body)
        rounding = 2.0**-self.parameters.scale_bits + abs(factor) * 2.0**-50
        noise = a.noise * (abs(factor) + rounding)
        noise += a.largest * rounding
        values = a.values if factor == 1.0 else a.values * factor
        return _product(values, noise, largest=a.largest * abs(factor))

    def _relinearise(self, body: Body) -> Any:
        a = _clear(body)
        return Clear(a.values, a.noise + self._pending_rotation, largest=a._largest)

    def _rescale(self, body: Body) -> Any:
        a = _clear(body)
        self._require_range(a.largest, level=body.level + 1)
        return Clear(a.values, a.noise + self._rescaling, largest=a.largest)

    def _rotate(self, body: Body, key: int) -> Any:
        a = _clear(body)
        noise = _rolled(a.noise, key)
        noise += self._switching(body)
        return Clear(_rolled(a.values, key), noise, largest=a._largest)

    def _hoist(self, body: Body) -> Any:
        return None

    def _rotate_hoisted(self, body: Body, digits: Any, key: int) -> Any:
        return self._rotate(body, key)

    def _sum_rotations(self, body: Body, keys: Sequence[int]) -> Any:
        a, count = _clear(body), len(_clear(body).values)
        twice = np.concatenate([a.values, a.values]), np.concatenate([a.noise, a.noise])
        values, noise = np.zeros(count), np.full(count, self._switching(body) * len(keys))
        for key in keys:
            step = key % count
            values += twice[0][step : step + count]
            noise += twice[1][step : step + count]
        return self._bounded(values, noise, body)

    def _repeat(self, body: Body, times: int) -> Any:
        a = _clear(body)
        return Clear(np.tile(a.values, times), np.tile(a.noise, times))

    def _fold(self, body: Body, slots: int) -> Any:
        a = _clear(body)
        copies, noise = a.values.reshape(-1, slots), a.noise.reshape(-1, slots)
        if np.any(np.abs(copies - copies[0]) > noise + noise[0]):
            raise WrongVector(f"the vector does not repeat every {slots} slots")
        return Clear(copies[0].copy(), noise.max(axis=0))

    def _reencrypt(self, body: Body, key: ReencryptionKey) -> Any:
        a = _clear(body)
        added = self.model.reencryption(self.parameters.max_slots, level=body.level)
        return Clear(a.values, a.noise + added, largest=a._largest)

    def _flood(self, body: Body, slots: int, amount: float) -> Any:
        a = _clear(body)
        values = a.values + draw_slot_flood(slots, amount=amount)
        for _ in range(FLOODED_COEFFICIENTS):  # a few that stand for the 2s of a slot
            each = draw_coefficient_flood(slots, slots=1, amount=amount)
            values += each * 2.0 / FLOODED_COEFFICIENTS
        return self._bounded(values, a.noise + self._encryption + amount, body)

    def _begin_refresh(self, body: Body, to: Recipient | None) -> tuple[Any, Any]:
        a, count = _clear(body), len(_clear(body).values)
        largest = self.most_masked
        if not a.largest <= largest:
            raise OutOfRange(f"a refresh of values beyond {largest:.3g} may fail: scale them first")
        mask = np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)
        fixed = np.round(a.values * 2.0**FRACTION_BITS).astype(np.int64).astype(np.uint64)
        added = 2.0 * self._rescaling + self._encryption
        return Masked(fixed + mask, a.noise + added), mask

    def _answer_refresh(self, request: Any, secret_key: SecretKey, under: PublicKey) -> Any:
        return Masked(request.integers, request.noise + self._encryption)

    def _finish_refresh(self, reply: Any, mask: Any) -> Any:
        integers: NDArray[np.uint64] = reply.integers - mask
        values = integers.astype(np.int64).astype(np.float64) * 2.0**-FRACTION_BITS
        rounding = self.model.representation(_largest(values), slots=len(values))
        return Clear(values, reply.noise + 2.0**-FRACTION_BITS + rounding)

    def _begin_opening(self, body: Body, slots: int, to: Recipient | None) -> tuple[Any, Any]:
        return self._begin_refresh(body, to)

    def _answer_opening(self, request: Any, secret_key: SecretKey, slots: int, flood: float) -> Any:
        noise = draw_flood(slots, bound=flood * 2.0**FRACTION_BITS).astype(np.uint64)
        return Masked(request.integers + noise, request.noise + flood)

    def _finish_opening(self, reply: Any, mask: Any) -> Array:
        opened = self._finish_refresh(reply, mask)
        if not opened.largest <= self.most_masked + 1.0:  # the flooding is at most 1
            raise DamagedData("the reply does not fit its mask")
        values: Array = opened.values
        return values

    def _bootstrap(self, body: Body) -> Body:
        a = _clear(body)
        if not a.largest <= 1.0 + 1e-6:
            raise OutOfRange("bootstrapping needs values in [-1, 1]: scale them first")
        added = bootstrap_error(self.parameters, slots=len(a.values))
        return Body(Clear(a.values, a.noise + added), BOOTSTRAP_LEVELS)

    def _encoding(self, clear: Array) -> float:
        """The error of a plaintext, or of one number for all slots."""
        largest = abs(float(clear)) if clear.ndim == 0 else _largest(clear)
        slots = self.parameters.max_slots
        return self._rounding + self.model.representation(largest, slots=slots)

    def _switching(self, body: Body) -> float:
        """The noise of key switching, small while a product is pending."""
        if body.degree == 2:
            return self._pending_rotation
        return self._rotation

    def _bounded(self, values: Array, noise: Array, at: Body) -> Clear:
        """The result, unless it wraps around the modulus; what is pending is checked as it settles.

        A pending product carries the scale twice: it has the range of the level that follows.
        """
        result = Clear(values, noise)
        if at.degree == 1:
            self._require_range(result.largest, level=at.level)
        return result

    # -- bytes: the numbers or masked integers, then the bounds of their error; or a mask

    def _dump(self, payload: Any, *, kind: str, slots: int, level: int) -> bytes:
        if kind.startswith("pending"):
            return pack_words(payload)
        numbers = payload.values if isinstance(payload, Clear) else payload.integers
        words = [np.ascontiguousarray(part).view("<u8") for part in (numbers, payload.noise)]
        return pack_words(np.concatenate(words))

    def _load(self, data: memoryview, *, kind: str, slots: int, level: int) -> Any:
        if kind.startswith("pending"):
            return unpack_words(data, count=slots)
        words = unpack_words(data, count=2 * slots)
        noise = words[slots:].view(np.float64)
        if not (np.isfinite(noise) & (noise >= 0.0)).all():
            raise DamagedData("a bound of the noise is no such number")
        if kind != "vector":
            return Masked(words[:slots], noise)
        values = words[:slots].view(np.float64)
        if not np.isfinite(values).all():
            raise DamagedData("a number is not finite")
        try:
            return self._bounded(values, noise, Body(None, level))
        except OutOfRange as error:
            raise DamagedData("a number is out of the range of its level") from error


def _largest(values: Array) -> float:
    return float(max(values.max(), -values.min()))


def _rolled(values: Array, key: int) -> Array:
    """Slot i + key in slot i; `numpy.roll` does more, and takes longer."""
    step = key % len(values)
    return np.concatenate([values[step:], values[:step]])


def _product(values: Array, noise: Array, *, largest: float | None = None) -> Clear:
    """A pending product. Bounds that say nothing stop growing here; sums of them stay finite."""
    return Clear(values, np.minimum(noise, NO_BOUND, out=noise), largest=largest)


def _clear(body: Body) -> Clear:
    payload: Clear = body.payload
    return payload
