"""The simulator: the same ring in the clear, with the same primes, scales and wrap-arounds.

It hides nothing. A body is a polynomial in the clear, and the deviation that OpenFHE's errors would
have by now, from the messages themselves and not from their bounds. Gaussian noise of that size is
added where a value is opened, and values go around the modulus there as they would. Errors of one
value in several places are independent here, which OpenFHE's are not. Products are by FFT in double
precision: its error is below that noise for operands of up to 60 bits, and not beyond.

Numbers that were just encrypted are kept as exact integers until they are multiplied: shares are as
large as the modulus and cancel only exactly.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.errors import DamagedData
from helba.ring.backend import KEY_ID_BYTES, Backend
from helba.ring.noise import encryption_noise, reencryption_noise, rounding_noise, switching_noise
from helba.ring.parameters import RingParameters
from helba.ring.sharing.integer import Integers, Places, Residues, largest_of, residues_of

_HEAD = struct.Struct("<Bd")  # how numbers are written, and the noise
_COUNT = struct.Struct("<I")
_DENSE, _WIDE, _NARROW = 0, 1, 2
_NUMBER_BYTES = {_DENSE: 8, _WIDE: 24, _NARROW: 8}  # 24: modulo the share modulus, with a sign


@dataclass(frozen=True, eq=False)
class _Exact:
    """Integers at places, the others are 0; `noise` is the deviation of the errors."""

    values: Integers
    places: Places
    ring_dim: int
    noise: float

    @cached_property
    def dense(self) -> _Dense:
        coefficients = np.zeros(self.ring_dim)
        coefficients[self.places] = self.values.astype(np.float64)
        return _Dense(coefficients, self.noise)


@dataclass(frozen=True, eq=False)
class _Dense:
    """All coefficients, as floats; `noise` is the deviation of the errors."""

    coefficients: NDArray[np.float64]
    noise: float

    @property
    def dense(self) -> _Dense:
        return self

    @cached_property
    def norm(self) -> float:
        """The Euclidean norm of the message."""
        return float(np.linalg.norm(self.coefficients))

    @cached_property
    def spectrum(self) -> NDArray[np.complex128]:
        """The values at every fourth odd power of exp(i pi/N), from which the others follow."""
        half = len(self.coefficients) // 2
        folded = self.coefficients[:half] + 1j * self.coefficients[half:]
        values: NDArray[np.complex128] = np.fft.fft(folded * _twist(half))
        return values


class SimulatedBackend(Backend):
    """Polynomials in the clear; `seed` fixes the noise, and so which way ties go."""

    name = "simulate"

    def __init__(self, parameters: RingParameters, *, seed: int | None = None) -> None:
        super().__init__(parameters)
        self._random = np.random.default_rng(seed)
        self._gaussian = np.random.default_rng(None if seed is None else [seed, 1])

    def draw_gaussian(self, count: int, *, deviation: float) -> NDArray[np.int64]:
        """Round normal numbers; unlike an opener's noise they are neither exact nor secret."""
        drawn = self._gaussian.normal(0.0, deviation, count)
        return np.rint(drawn).astype(np.int64)

    # -- keys: names, and nothing behind them

    def make_keys(self, *, automorphism: int | None) -> tuple[bytes, Any, Any, Any]:
        """Draw a name."""
        key_id = self._random.bytes(KEY_ID_BYTES)
        return key_id, key_id, key_id, key_id

    def is_pair(self, secret: Any, public: Any) -> bool:
        """Compare names."""
        return bool(secret == public)

    def make_reencryption(self, secret: Any, public: Any) -> Any:
        """Join two names."""
        return secret + public

    # -- encryption

    def encrypt(self, public: Any, values: Integers, places: Places) -> Any:
        """Keep the integers, centred modulo the first two primes."""
        return self._exact(values, places, noise=encryption_noise(self.parameters))

    def encrypt_zero(self, public: Any, *, primes: int) -> Any:
        """Keep nothing but its error."""
        nothing, nowhere = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.intp)
        return self._exact(nothing, nowhere, noise=encryption_noise(self.parameters))

    def add_values(self, body: Any, values: Integers, places: Places, *, primes: int) -> Any:
        """Add the integers, centred modulo the first two primes."""
        added = self._add(body, self._exact(values, places, noise=0.0))
        return self.drop(added, primes=primes)

    # -- arithmetic

    def sum(self, bodies: Sequence[Any]) -> Any:
        """Add one after the other; errors as if they were independent."""
        return reduce(self._add, bodies)

    def _add(self, first: _Exact | _Dense, second: _Exact | _Dense) -> _Exact | _Dense:
        noise = math.hypot(first.noise, second.noise)
        if isinstance(second, _Exact) and not len(second.places):
            return replace(first, noise=noise)
        if not (isinstance(first, _Exact) and isinstance(second, _Exact)):
            return _Dense(first.dense.coefficients + second.dense.coefficients, noise)
        if np.array_equal(first.places, second.places):
            added = _addable(first.values) + _addable(second.values)
            return _Exact(added, first.places, self._degree, noise)
        places = np.union1d(first.places, second.places)
        total = np.zeros(len(places), dtype=object)
        for each in (first, second):
            total[np.searchsorted(places, each.places)] += each.values
        return _Exact(total, places, self._degree, noise)

    def negate(self, body: Any) -> Any:
        """Negate."""
        if isinstance(body, _Exact):
            return replace(body, values=-body.values)
        return replace(body, coefficients=-body.coefficients)

    def product(self, first: Any, second: Any, *, primes: int) -> Any:
        """Convolve, and divide by the last prime."""
        left, right = first.dense, second.dense
        half = self._degree // 2
        folded = np.fft.ifft(left.spectrum * right.spectrum)
        folded *= np.conj(_twist(half))
        coefficients = np.empty(self._degree)
        coefficients[:half], coefficients[half:] = folded.real, folded.imag
        noise = math.hypot(
            left.norm * right.noise,
            right.norm * left.noise,
            math.sqrt(self._degree) * left.noise * right.noise,
            switching_noise(self.parameters, primes=primes),
        )
        prime = self.parameters.moduli[primes - 1]
        coefficients /= prime
        return _Dense(coefficients, math.hypot(noise / prime, rounding_noise(self.parameters)))

    def automorphism(self, body: Any, *, evaluation: Any, exponent: int) -> Any:
        """Send X^i to X^(i exponent), whose sign changes each time it goes around."""
        sources, signs = _automorphism(self._degree, exponent)
        moved = signs * body.dense.coefficients[sources]
        return _Dense(moved, math.hypot(body.noise, switching_noise(self.parameters, primes=3)))

    def drop(self, body: Any, *, primes: int) -> Any:
        """Keep the message; integers as large as the share modulus go around it."""
        if isinstance(body, _Exact) and primes <= 2:
            return self._exact(body.values, body.places, noise=body.noise)
        return body

    def reencrypt(self, body: Any, key: Any, *, recipient_id: bytes) -> Any:
        """Keep the message."""
        noise = math.hypot(body.noise, reencryption_noise(self.parameters, primes=2))
        return replace(body, noise=noise)

    # -- opening

    def split(self, body: Any, places: Places, *, primes: int) -> tuple[Residues, Residues]:
        """Return message plus error as the first polynomial, and an empty second one."""
        error = _whole(self._random.normal(0.0, body.noise, len(places)))
        if isinstance(body, _Exact):
            message = np.zeros(self._degree, dtype=object)
            message[body.places] = body.values
            found = message[places] + error
        else:
            found = _whole(body.coefficients[places]) + error
        moduli = self.parameters.moduli[:primes]
        return residues_of(found, moduli), np.zeros((primes, 0), dtype=np.uint64)

    def open_second(self, second: Residues, secret: Any, places: Places) -> Residues:
        """Return zeros: everything stands in the first polynomial."""
        return np.zeros((len(second), len(places)), dtype=np.uint64)

    # -- wire

    def dump(self, kind: str, payload: Any, *, primes: int, automorphism: int | None) -> bytes:
        """Return the polynomial in the clear, or the name of a key."""
        if kind != "ciphertext":
            return bytes(payload)
        if isinstance(payload, _Dense):
            return _HEAD.pack(_DENSE, payload.noise) + payload.coefficients.astype("<f8").tobytes()
        if payload.values.dtype == object:
            mark, size = _WIDE, _NUMBER_BYTES[_WIDE]
            pieces = [int(each).to_bytes(size, "little", signed=True) for each in payload.values]
            numbers = b"".join(pieces)
        else:
            mark, numbers = _NARROW, payload.values.astype("<i8").tobytes()
        head = _HEAD.pack(mark, payload.noise) + _COUNT.pack(len(payload.places))
        return b"".join([head, payload.places.astype("<u4").tobytes(), numbers])

    def load(
        self, kind: str, data: memoryview, *, primes: int, key_id: bytes, automorphism: int | None
    ) -> Any:
        """Return what was dumped, or raise `DamagedData`."""
        if kind == "ciphertext":
            return self._load_body(data)
        size = KEY_ID_BYTES * (2 if kind == "re-encryption key" else 1)
        if len(data) != size or bytes(data[:KEY_ID_BYTES]) != key_id:
            raise DamagedData(f"the simulated {kind} does not have the name that it claims")
        return bytes(data)

    def _load_body(self, data: memoryview) -> _Exact | _Dense:
        degree, wrong_length = self._degree, "the simulated ciphertext has another length"
        if len(data) < _HEAD.size + _COUNT.size:
            raise DamagedData(wrong_length)
        mark, noise = _HEAD.unpack_from(data)
        if mark not in _NUMBER_BYTES or not (math.isfinite(noise) and noise >= 0):
            raise DamagedData("the simulated ciphertext has no kind or noise that makes sense")
        size, rest = _NUMBER_BYTES[mark], data[_HEAD.size :]
        if mark == _DENSE:
            if len(rest) != degree * size:
                raise DamagedData(wrong_length)
            coefficients = np.frombuffer(rest, dtype="<f8").astype(np.float64)
            if not np.isfinite(coefficients).all():
                raise DamagedData("a simulated coefficient is not finite")
            return _Dense(coefficients, noise)
        (count,) = _COUNT.unpack_from(rest)
        if count > degree or len(rest) != _COUNT.size + count * (4 + size):
            raise DamagedData(wrong_length)
        places = np.frombuffer(rest, dtype="<u4", count=count, offset=4).astype(np.intp)
        if (places >= degree).any() or len(np.unique(places)) < count:
            raise DamagedData("the places of a simulated ciphertext are not distinct")
        numbers = rest[_COUNT.size + 4 * count :]
        if mark == _NARROW:
            values = np.frombuffer(numbers, dtype="<i8").astype(np.int64)
        else:
            pieces = np.frombuffer(numbers, dtype=f"V{size}").tolist()
            wide = [int.from_bytes(piece, "little", signed=True) for piece in pieces]
            values = np.array(wide, dtype=object)
        return _Exact(values, places, degree, noise)

    # -- parts

    @property
    def _degree(self) -> int:
        return self.parameters.ring_dim

    def _exact(self, values: Integers, places: Places, *, noise: float) -> _Exact:
        if values.dtype == object:  # int64 is far below the modulus
            modulus = self.parameters.share_modulus
            residues = values % modulus
            values = np.where(residues > modulus // 2, residues - modulus, residues)
        return _Exact(values, places, self._degree, noise)


def _addable(values: Integers) -> Integers:
    """The same integers, as Python's where a sum of two could be past 63 bits."""
    return values.astype(object) if largest_of(values) >> 62 else values


def _whole(values: NDArray[np.float64]) -> Integers:
    """The nearest integers; two of them can be added."""
    rounded = np.rint(values)
    if float(np.abs(rounded).max()) < 2.0**62:
        return rounded.astype(np.int64)
    return np.array([int(each) for each in rounded], dtype=object)


@lru_cache(maxsize=16)
def _automorphism(degree: int, exponent: int) -> tuple[Places, NDArray[np.float64]]:
    """For every coefficient of the result: the one that it was, and its sign."""
    powers = np.arange(degree) * exponent % (2 * degree)
    sources = np.argsort(powers % degree)
    return sources, np.where(powers < degree, 1.0, -1.0)[sources]


@lru_cache(maxsize=16)
def _twist(half: int) -> NDArray[np.complex128]:
    powers: NDArray[np.complex128] = np.exp(1j * np.pi * np.arange(half) / (2 * half))
    return powers
