"""Products of encrypted matrices in the sliced layout of `planning.layout.matrix`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from helba.reference.circuits.algebra.gather import gather
from helba.reference.circuits.algebra.packing import add_rotations
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.layout.matrix import MatrixLayout, MatrixProduct


def matrix_product(
    engine: Engine,
    *,
    left: EncryptedVector,
    right: EncryptedVector,
    layout: MatrixLayout,
    left_factor: float = 1.0,
    right_factor: float = 1.0,
    right_plus: ArrayLike | None = None,
) -> EncryptedVector:
    """Return left_factor L (right_factor R + right_plus), in p^2 slots. 2 levels.

    The factors and the plain matrix ride along.
    """
    return multiply_matrices(
        engine,
        layout.single,
        left=[left],
        right=right,
        left_factor=left_factor,
        right_factor=right_factor,
        right_plus=right_plus,
    )


def multiply_matrices(
    engine: Engine,
    product: MatrixProduct,
    *,
    left: Sequence[EncryptedVector],
    right: EncryptedVector,
    left_factor: float = 1.0,
    right_factor: float = 1.0,
    right_plus: ArrayLike | None = None,
) -> EncryptedVector:
    """Return a product of any kind (`planning.layout.matrix`). 2 levels above the deepest operand.

    Operands may repeat over any number of slots. They come down to one level first, since rotations
    are cheaper there. Chunk by chunk: the columns of the left factors and the rows of the right one
    are gathered into the slices, spread, and multiplied; the chunks are relinearised as one, and
    summed over the slices, which are then equal: the result has the slots of one.
    """
    slots, level = product.slots, max(vector.level for vector in (right, *left))
    lowered, *sources = (
        engine.lower(engine.fold(vector, min(vector.slots, slots)), level)
        for vector in (right, *left)
    )
    columns = gather(
        engine, list(zip(sources, product.left, strict=True)), slots=slots, factor=left_factor
    )
    rows = gather(engine, [(lowered, product.right)], slots=slots, factor=right_factor)
    terms = []
    for chunk, (column, row) in enumerate(zip(columns, rows, strict=True)):
        wide = add_rotations(engine, column, stages=product.spread_left)
        high = add_rotations(engine, row, stages=product.spread_right)
        if right_plus is not None:
            plain = product.spread_matrix(right_plus, chunk=chunk, slots=slots)
            high = engine.add_plain(high, plain)
        terms.append((engine.multiply(wide, high), 1.0))
    total = add_rotations(engine, engine.combine(terms), stages=product.sum_slices)
    return engine.fold(total, product.period)


def residual(
    engine: Engine, *, matrix: EncryptedVector, inverse: EncryptedVector, layout: MatrixLayout
) -> EncryptedVector:
    """Return I - V X, in p^2 slots. 2 levels: one product, its sign in the masks."""
    product = matrix_product(engine, left=matrix, right=inverse, layout=layout, right_factor=-1.0)
    return engine.add_plain(product, layout.pack(np.eye(layout.dim)))


def squared_norm(
    engine: Engine, *, matrix: EncryptedVector, layout: MatrixLayout
) -> EncryptedVector:
    """Return the squared Frobenius norm in p^2 slots. 1 level: squares, and a cyclic sum.

    Of `residual`, it bounds the spectral norm of I - V X from above, and so tells whether X may
    replace the inverse in use.
    """
    narrow = engine.fold(matrix, layout.size)
    return add_rotations(engine, engine.multiply(narrow, narrow), stages=layout.sum_all)
