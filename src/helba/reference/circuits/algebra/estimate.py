"""The ridge estimate w = A g from the encrypted inverse A and the encrypted response g.

A is symmetric, so w_j is the sum over the rows i of A[i, j] g_i: with g by row (g_i in slot
i p + j) the sum runs over the major index, is cyclic, and leaves w by column (w_j in slot i p + j)
in every row. One level, no mask. Users send g by row. An inverse under CKKS is symmetric within its
noise; what is computed from it then is the product with its transpose.

Operands may repeat over more slots than p^2; results have p^2.
"""

from __future__ import annotations

from helba.reference.circuits.algebra.packing import add_rotations
from helba.reference.circuits.algebra.rows import multiply_rows, spread_columns
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.layout.matrix import MatrixLayout


def compute_estimate(
    engine: Engine, *, inverse: EncryptedVector, response: EncryptedVector, layout: MatrixLayout
) -> EncryptedVector:
    """Return w = A g by column, for g by row. 1 level."""
    return multiply_symmetric(engine, matrix=inverse, vector=response, layout=layout)


def refine_estimate(
    engine: Engine,
    *,
    estimate: EncryptedVector,
    inverse: EncryptedVector,
    matrix: EncryptedVector,
    response: EncryptedVector,
    layout: MatrixLayout,
) -> EncryptedVector:
    """Return w + A (g - V w) by column, for w by column and g by row. 3 levels.

    The error V^-1 g - w is multiplied by I - A V. V w comes out by row, which needs a mask
    (`circuits.algebra.rows`); its sign rides in it. Product, mask, product.
    """
    w, g = (engine.fold(vector, layout.size) for vector in (estimate, response))
    image = multiply_rows(engine, matrix=matrix, vector=w, layout=layout, factor=-1.0)
    rest = engine.add(spread_columns(engine, image, layout=layout), g)
    change = multiply_symmetric(engine, matrix=inverse, vector=rest, layout=layout)
    return engine.add(w, change)


def multiply_symmetric(
    engine: Engine, *, matrix: EncryptedVector, vector: EncryptedVector, layout: MatrixLayout
) -> EncryptedVector:
    """Return S v by column, for a symmetric S and v by row. 1 level: product, sum over the rows."""
    S, v = (engine.fold(operand, layout.size) for operand in (matrix, vector))
    product = engine.multiply(S, v)
    return add_rotations(engine, product, stages=layout.sum_rows)
