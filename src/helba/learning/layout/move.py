"""Changes of arrangement, which shares allow for free.

Whoever opens a masked polynomial holds one share of every coefficient, the server the other. Both
rearrange their shares alike before these are encrypted again, or added. Arrangements stretch over
stacks of polynomials, ciphertexts do not: a change becomes a list of moves between single ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from helba.errors import InvalidInput
from helba.learning.layout.arrangement import Arrangement
from helba.ring import Move

__all__ = ["BlockMove", "moves_between", "symmetrising_moves"]


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockMove:
    """A move from one polynomial of a stack to one of another."""

    source_polynomial: int
    target_polynomial: int
    move: Move


def moves_between(
    source: Arrangement, *, target: Arrangement, factor: float = 1.0, multiple: int = 1
) -> tuple[BlockMove, ...]:
    """Return the moves that take an array from `source` to `target`, times public numbers.

    By source polynomial and then by target. `factor` and `multiple` are those of `Move`.
    """
    if source.shape != target.shape:
        allowed = f"of the source's shape {source.shape}"
        raise InvalidInput("target", f"shape {target.shape}", allowed)
    if source.ring_dim != target.ring_dim:
        allowed = f"in the source's ring, {source.ring_dim}"
        raise InvalidInput("target", f"ring_dim {target.ring_dim}", allowed)
    from_polynomial, from_place = np.divmod(np.ravel(source.places), source.ring_dim)
    to_polynomial, to_place = np.divmod(np.ravel(target.places), source.ring_dim)
    pair = from_polynomial * target.polynomials + to_polynomial
    order = np.argsort(pair, kind="stable")
    cuts = np.flatnonzero(np.diff(pair[order])) + 1
    return tuple(
        BlockMove(
            source_polynomial=int(from_polynomial[part[0]]),
            target_polynomial=int(to_polynomial[part[0]]),
            move=Move(from_place[part], to_place[part], factor=factor, multiple=multiple),
        )
        for part in np.split(order, cuts)
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
