"""Places for the numbers of one array in a stack of polynomials, and changes of them.

Shares allow changes for free. Whoever opens a masked polynomial holds one share of every
coefficient, the server the other. Both rearrange their shares alike before these are encrypted
again, or added. Sources and targets of a `Move` are places in stacks: shares of a whole stack are
joined before they are moved (`helba.ring.Share.join`), and what is encrypted again is one
polynomial after the other (`helba.learning.exchange`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from helba.errors import InvalidInput
from helba.ring import Move
from helba.ring.sharing.integer import Places


@dataclass(frozen=True, eq=False)
class Arrangement:
    """One place for each number of an array, in a stack of polynomials of `ring_dim` coefficients.

    Place p is coefficient p % ring_dim of polynomial p // ring_dim. Places are distinct, and all
    coefficients without a place are zero. `places` has the shape of the array and is read-only.
    Indexing gives the arrangement of a part of the array, in the same stack.
    """

    places: Places = field(repr=False)
    ring_dim: int = field(kw_only=True)
    polynomials: int = field(default=1, kw_only=True)

    def __post_init__(self) -> None:
        places = np.array(self.places, dtype=np.intp)
        end = self.ring_dim * self.polynomials
        if int(places.min()) < 0 or int(places.max()) >= end:
            found = f"{places.min()} to {places.max()}"
            raise InvalidInput("places", found, f"at least 0 and below {end}")
        ordered = np.sort(places, axis=None)
        repeated = ordered[1:][ordered[1:] == ordered[:-1]]
        if repeated.size:
            raise InvalidInput("places", f"place {repeated[0]} twice", "distinct")
        places.flags.writeable = False
        object.__setattr__(self, "places", places)

    def __getitem__(self, index: Any) -> Arrangement:
        """Return where the part `array[index]` stands."""
        return self._with(self.places[index])

    def _with(self, places: Places) -> Arrangement:
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

    @property
    def mirrored(self) -> Arrangement:
        """The arrangement of numbers for their inner product with those that stand here.

        It is coefficient N-1 of the product: a number at p meets the one at N-1-p. Tr(S A) is the
        inner product of S and A^T, so A stands where S would, transposed and mirrored.

        Why nothing else reaches it: p + r = N-1 holds for one r only, whatever p; and p + r =
        2 N - 1 for none, as both are at most N-1. So coefficients of one operand outside its places
        may hold anything; those of the other must be zero. In several polynomials: multiply
        polynomial by polynomial and add the products.
        """
        polynomial, coefficient = np.divmod(self.places, self.ring_dim)
        return self._with(polynomial * self.ring_dim + self.ring_dim - 1 - coefficient)

    @cached_property
    def parts(self) -> dict[int, tuple[Places, Places]]:
        """By polynomial that holds a number: coefficients, and which of the flat array stand there.

        All other polynomials of the stack are zero.
        """
        polynomial, coefficient = np.divmod(np.ravel(self.places), self.ring_dim)
        indices = {int(k): np.flatnonzero(polynomial == k) for k in np.unique(polynomial)}
        return {k: (coefficient[index], index) for k, index in indices.items()}


def symmetrising_moves(
    source: Arrangement, *, target: Arrangement, factor: float = 1.0
) -> tuple[Move, Move]:
    """Return moves whose sum puts factor (B + B^T)/2 at `target`, for the matrix B at `source`."""
    both = source.places, source.places.T
    first, second = (Move(places, target.places, factor=factor / 2) for places in both)
    return first, second
