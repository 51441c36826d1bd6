"""Places for the numbers of one array in a stack of polynomials."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from helba.errors import InvalidInput, require_whole

MOST_COEFFICIENTS = 1 << 17  # eight times the largest ring planned: a guard against mistakes


def require_ring_dim(ring_dim: int) -> None:
    """Raise `InvalidInput` unless `ring_dim` is a power of two in [4, 2^17]."""
    require_whole("ring_dim", ring_dim, least=4, most=MOST_COEFFICIENTS)
    if ring_dim & (ring_dim - 1):
        raise InvalidInput("ring_dim", ring_dim, "a power of two")


@dataclass(frozen=True, eq=False)
class Arrangement:
    """One place for each number of an array, in a stack of polynomials of `ring_dim` coefficients.

    Place p is coefficient p % ring_dim of polynomial p // ring_dim. Places are distinct, and all
    coefficients without a place are zero. `places` has the shape of the array and is read-only.
    Indexing gives the arrangement of a part of the array, in the same stack.
    """

    places: NDArray[np.intp]
    ring_dim: int = field(kw_only=True)
    polynomials: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        require_ring_dim(self.ring_dim)
        require_whole("polynomials", self.polynomials, least=1, most=1 << 20)
        places = np.array(self.places)
        if places.dtype.kind not in "iu":
            raise InvalidInput("places", f"numbers of type {places.dtype}", "whole numbers")
        if places.size == 0:
            raise InvalidInput("places", f"an array of shape {places.shape}", "at least one place")
        end = self.ring_dim * self.polynomials
        if int(places.min()) < 0 or int(places.max()) >= end:
            found = f"{places.min()} to {places.max()}"
            raise InvalidInput("places", found, f"at least 0 and below {end}")
        ordered = np.sort(places, axis=None)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if repeated.size:
            raise InvalidInput("places", f"place {repeated[0]} twice", "distinct")
        places = places.astype(np.intp)
        places.flags.writeable = False
        object.__setattr__(self, "places", places)

    def __repr__(self) -> str:
        return (
            f"Arrangement(shape={self.shape}, ring_dim={self.ring_dim}, "
            f"polynomials={self.polynomials}, count={self.count})"
        )

    def __getitem__(self, index: Any) -> Arrangement:
        """Return where the part `array[index]` stands."""
        return self._with(self.places[index])

    def _with(self, places: NDArray[np.intp]) -> Arrangement:
        """Return an arrangement in the same stack."""
        return Arrangement(places, ring_dim=self.ring_dim, polynomials=self.polynomials)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the array."""
        return self.places.shape

    @property
    def transposed(self) -> Arrangement:
        """Arrangement of the transposed array: the same numbers, read with their axes reversed."""
        return self._with(self.places.T)

    @cached_property
    def occupied(self) -> tuple[int, ...]:
        """Polynomials of the stack that hold a number; all others are zero."""
        return tuple(np.unique(self.places // self.ring_dim).tolist())

    @cached_property
    def count(self) -> int:
        """Most coefficients of one polynomial that may be nonzero.

        With numbers of at most `peak`, the 2-norm of a polynomial is at most peak sqrt(count).
        """
        return int(np.bincount(np.ravel(self.places) // self.ring_dim).max())

    def put(self, values: ArrayLike) -> NDArray[Any]:
        """Return the stack that holds `values`, zero elsewhere, of shape (polynomials, ring_dim).

        `values` has the shape of the array. Axes before it, such as residues modulo several
        primes, are kept in front.
        """
        numbers = np.asarray(values)
        lead = numbers.shape[: numbers.ndim - self.places.ndim]
        if numbers.shape != lead + self.shape:
            raise InvalidInput("values", f"shape {numbers.shape}", f"of shape (..., *{self.shape})")
        stack = np.zeros((*lead, self.polynomials * self.ring_dim), numbers.dtype)
        stack[..., np.ravel(self.places)] = numbers.reshape((*lead, -1))
        return stack.reshape((*lead, self.polynomials, self.ring_dim))

    def take(self, stack: ArrayLike) -> NDArray[Any]:
        """Return the array that stands in `stack`, of shape (..., polynomials, ring_dim)."""
        numbers = np.asarray(stack)
        if numbers.shape[-2:] != (self.polynomials, self.ring_dim):
            allowed = f"of shape (..., {self.polynomials}, {self.ring_dim})"
            raise InvalidInput("stack", f"shape {numbers.shape}", allowed)
        lead = numbers.shape[:-2]
        flat: NDArray[Any] = numbers.reshape((*lead, -1))
        return flat[..., self.places]
