"""The trace of a product of two matrices, as one coefficient."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from helba.errors import InvalidInput, require_whole
from helba.learning.layout.arrangement import Arrangement, require_ring_dim


@dataclass(frozen=True, eq=False)
class Trace:
    """Tr(S A) = sum_ij S_ij A_ji at coefficient N-1, for S wherever it stands.

    `left_places` is where S stands; A_ji stands at N-1 minus the place of S_ij. For the update
    test S is a sum of contexts and A the inverse, both symmetric, so that A_ij may be put at
    N-1 minus the place of S_ij as well. For the model check S = A = R: see `dense`.

    Why nothing else reaches it: p + r = N-1 holds for one r only, whatever p; and p + r = 2 N - 1
    for none, as both are at most N-1. So coefficients of S's polynomial outside its places
    may hold anything (such as products of different reports in a `Gram`); those of A's must be
    zero. S in several polynomials: multiply polynomial by polynomial and add the products.
    """

    left_places: Arrangement

    def __post_init__(self) -> None:
        shape = self.left_places.shape
        if len(shape) != 2 or shape[0] != shape[1]:
            raise InvalidInput("left_places", f"shape {shape}", "of a square matrix")

    @classmethod
    def dense(cls, dim: int, *, ring_dim: int) -> Trace:
        """Return the layout of two d x d matrices without gaps: S_ij at i d + j, d^2 <= N."""
        require_ring_dim(ring_dim)
        require_whole("dim", dim, least=1, most=ring_dim)
        if dim * dim > ring_dim:
            raise InvalidInput("dim", dim, f"such that dim^2 <= ring_dim = {ring_dim}")
        return cls(Arrangement(np.arange(dim * dim).reshape(dim, dim), ring_dim=ring_dim))

    @cached_property
    def right_places(self) -> Arrangement:
        """Places of A: shape (d, d), in as many polynomials as S."""
        left = self.left_places
        polynomial, coefficient = np.divmod(left.places.T, left.ring_dim)
        places = polynomial * left.ring_dim + left.ring_dim - 1 - coefficient
        return Arrangement(places, ring_dim=left.ring_dim, polynomials=left.polynomials)

    @property
    def trace_places(self) -> Arrangement:
        """Places of the trace in the sum of the products: shape ()."""
        ring_dim = self.left_places.ring_dim
        return Arrangement(np.array(ring_dim - 1), ring_dim=ring_dim)

    @property
    def product_count(self) -> int:
        """Coefficients of a product that may be nonzero: all of them."""
        return self.left_places.ring_dim
