"""The small interface that both engines fulfil: bodies of ciphertexts in, bodies out.

A backend knows neither scales nor bounds; `helba.ring.ring` keeps them and checks everything before
it calls. Payloads of keys and bodies are opaque. A body with p primes is a pair of polynomials
(first, second) with first + second s = message + error modulo the first p primes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from helba.ring.gaussian import draw_gaussian
from helba.ring.parameters import RingParameters
from helba.ring.sharing.integer import Integers, Places, Residues

_Result = TypeVar("_Result")
KEY_ID_BYTES = 16


class Backend(ABC):
    """Polynomials of `parameters`, encrypted."""

    name: str

    def __init__(self, parameters: RingParameters) -> None:
        self.parameters = parameters

    def run_all(self, calls: Sequence[Callable[[], _Result]]) -> list[_Result]:
        """Return what each of these independent calls returns, in order."""
        return [call() for call in calls]

    def draw_gaussian(self, count: int, *, deviation: float) -> NDArray[np.int64]:
        """Return noise of an opener: independent integers of the discrete Gaussian, exactly."""
        return draw_gaussian(count, deviation=deviation)

    # -- keys

    @abstractmethod
    def make_keys(self, *, automorphism: int | None) -> tuple[bytes, Any, Any, Any]:
        """Return the key's id, and the payloads of the secret, public and evaluation key."""

    @abstractmethod
    def is_pair(self, secret: Any, public: Any) -> bool:
        """Return True if the secret key decrypts, modulo all primes, what `public` encrypts."""

    @abstractmethod
    def make_reencryption(self, secret: Any, public: Any) -> Any:
        """Return the payload of a re-encryption key to the owner of `public`."""

    # -- encryption

    @abstractmethod
    def encrypt(self, public: Any, values: Integers, places: Places) -> Any:
        """Return a fresh body with three primes; values are taken modulo the first two, centred."""

    @abstractmethod
    def encrypt_zero(self, public: Any, *, primes: int) -> Any:
        """Return a fresh body of 0."""

    @abstractmethod
    def add_values(self, body: Any, values: Integers, places: Places, *, primes: int) -> Any:
        """Return the body with integers added, taken as by `encrypt`."""

    # -- arithmetic

    @abstractmethod
    def sum(self, bodies: Sequence[Any]) -> Any:
        """Return the sum of one or more bodies with equally many primes."""

    @abstractmethod
    def negate(self, body: Any) -> Any:
        """Return the body of the negative message."""

    @abstractmethod
    def product(self, first: Any, second: Any, *, primes: int) -> Any:
        """Return the product modulo X^N + 1, relinearised, divided by the last prime."""

    @abstractmethod
    def automorphism(self, body: Any, *, evaluation: Any, exponent: int) -> Any:
        """Return the body of m(X^exponent)."""

    @abstractmethod
    def drop(self, body: Any, *, primes: int) -> Any:
        """Return the body modulo fewer primes."""

    @abstractmethod
    def reencrypt(self, body: Any, key: Any, *, recipient_id: bytes) -> Any:
        """Return the body under the recipient's key."""

    # -- opening

    @abstractmethod
    def split(self, body: Any, places: Places, *, primes: int) -> tuple[Residues, Residues]:
        """Return the first polynomial's coefficients at `places`, and the second, evaluated."""

    @abstractmethod
    def open_second(self, second: Residues, secret: Any, places: Places) -> Residues:
        """Return the coefficients of second s at `places`: the owner's part of an opening."""

    # -- wire

    @abstractmethod
    def dump(self, kind: str, payload: Any, *, primes: int, automorphism: int | None) -> bytes:
        """Return a ciphertext's body or a key's payload as bytes; see `helba.ring.wire`."""

    @abstractmethod
    def load(
        self, kind: str, data: memoryview, *, primes: int, key_id: bytes, automorphism: int | None
    ) -> Any:
        """Return the body or payload that was dumped, or raise `DamagedData`."""
