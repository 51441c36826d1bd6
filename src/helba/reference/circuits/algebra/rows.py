"""Matrix times vector in the paper's row packing (App. matrix_encoding), without its garbage.

The matrix stands by rows, the vector by column: v_j in slot i p + j, so that the slots of row i
hold the products of (M v)_i. Their sum over j runs along the minor index: it is right in column 0,
while in the others it runs over into the next row (the paper's EvalSumCol leaves those partial
sums). A mask clears them, for a level.
"""

from __future__ import annotations

import numpy as np

from helba.reference.circuits.algebra.packing import add_rotations
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.layout.matrix import MatrixLayout


def multiply_rows(
    engine: Engine,
    *,
    matrix: EncryptedVector,
    vector: EncryptedVector,
    layout: MatrixLayout,
    factor: float = 1.0,
) -> EncryptedVector:
    """Return factor (M v)_i in column 0 of row i and 0 elsewhere, for v by column. 2 levels.

    Product, sum over the columns, mask. Operands may repeat over more slots than p^2, the result
    does not.
    """
    M, v = (engine.fold(operand, layout.size) for operand in (matrix, vector))
    product = engine.multiply(M, v)
    sums = add_rotations(engine, product, stages=layout.sum_columns)
    mask = np.zeros((layout.side, layout.side))
    mask[: layout.dim, 0] = factor
    return engine.multiply_plain(sums, mask.ravel())


def spread_columns(
    engine: Engine, vector: EncryptedVector, *, layout: MatrixLayout
) -> EncryptedVector:
    """Return a vector by row, from one that fills column 0 and is 0 elsewhere. No level."""
    return add_rotations(engine, vector, stages=layout.spread_columns)
