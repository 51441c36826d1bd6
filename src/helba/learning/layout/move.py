"""Changes of arrangement, which shares allow for free.

Whoever opens a masked polynomial holds one share of every coefficient, the server the other. Both
rearrange their shares alike before these are encrypted again, or added. Shares of a whole stack are
joined before they are moved (`helba.ring.Share.join`), so that a source is a place in the stack;
what is encrypted again is one polynomial after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from helba.errors import InvalidInput
from helba.learning.layout.arrangement import Arrangement
from helba.ring import Move


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockMove:
    """A move from places of a stack to coefficients of one polynomial of another."""

    target_polynomial: int
    move: Move


def moves_between(
    source: Arrangement, *, target: Arrangement, factor: float = 1.0, multiple: int = 1
) -> tuple[BlockMove, ...]:
    """Return the moves that take an array from `source` to `target`, times public numbers.

    By target polynomial, those that hold nothing left out. `factor` and `multiple` are those of
    `Move`.
    """
    if source.shape != target.shape:
        allowed = f"of the source's shape {source.shape}"
        raise InvalidInput("target", f"shape {target.shape}", allowed)
    if source.ring_dim != target.ring_dim:
        allowed = f"in the source's ring, {source.ring_dim}"
        raise InvalidInput("target", f"ring_dim {target.ring_dim}", allowed)
    sources = np.ravel(source.places)
    polynomial, coefficient = np.divmod(np.ravel(target.places), target.ring_dim)
    return tuple(
        BlockMove(
            target_polynomial=number,
            move=Move(
                sources[polynomial == number],
                coefficient[polynomial == number],
                factor=factor,
                multiple=multiple,
            ),
        )
        for number in target.occupied
    )


def symmetrising_moves(
    source: Arrangement, *, target: Arrangement, factor: float = 1.0
) -> tuple[BlockMove, ...]:
    """Return moves whose sum puts factor (B + B^T)/2 at `target`, for the matrix B at `source`."""
    if len(source.shape) != 2 or source.shape[0] != source.shape[1]:
        raise InvalidInput("source", f"shape {source.shape}", "of a square matrix")
    half = factor / 2
    return moves_between(source, target=target, factor=half) + moves_between(
        source.transposed, target=target, factor=half
    )
