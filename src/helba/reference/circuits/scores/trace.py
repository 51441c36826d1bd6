"""The update test on its own: has Tr(A (V - V_j)) passed the threshold?

Where scores are compared anyway it rides along instead (`argmax.Rider`).
"""

from __future__ import annotations

from helba.errors import require_positive
from helba.reference.circuits.algebra.packing import add_rotations
from helba.reference.circuits.comparison.argmax import Rider
from helba.reference.circuits.comparison.sign import evaluate_sign_affine
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.numerics.composite import CompositeSign
from helba.reference.numerics.evaluation import is_addition
from helba.reference.planning.cost.polynomial import Affine
from helba.reference.planning.layout.matrix import MatrixLayout


def scaled_trace(
    engine: Engine,
    inverse: EncryptedVector,
    *,
    growth: EncryptedVector,
    layout: MatrixLayout,
    threshold: float,
    reach: float,
) -> EncryptedVector:
    """Return (Tr(A D) - threshold)/reach in p^2 slots, for symmetric A and D = `growth`.

    Both stand by rows (`planning.layout.matrix`) and may repeat over more slots. 1 level above the
    deeper of the two. Dividing by the reach is free if they differ in level (it falls on the
    shallower one) or if 1/reach is an integer up to 4, so if the caller folds the reach into D and
    passes 1; else it costs 1 more. A sign that follows needs a result in [-1, 1]: see `trace_test`.
    """
    require_positive("reach", reach)
    narrow = [engine.fold(matrix, layout.size) for matrix in (inverse, growth)]
    first, second = sorted(narrow, key=lambda matrix: matrix.level)
    if reach != 1.0:
        factor = 1.0 / reach
        least = first.level + (0 if is_addition(factor) else 1)
        first = engine.combine([(first, factor)], level=max(least, second.level))
    total = add_rotations(engine, engine.multiply(first, second), stages=layout.sum_all)
    return engine.add_plain(total, -threshold / reach)


def trace_test(
    engine: Engine,
    inverse: EncryptedVector,
    *,
    growth: EncryptedVector,
    layout: MatrixLayout,
    threshold: float,
    reach: float,
    sign: CompositeSign,
    rider: Rider,
) -> EncryptedVector:
    """Return flip * P((Tr(A D) - threshold)/reach) + noise in every slot.

    `scaled_trace`, then the levels of `sign`: flip and noise ride in its last stage. Within
    `sign.error` of the flipped bit if the trace is at least reach * resolution and at most reach
    away from the threshold. Past the reach the polynomial explodes, and the bit is anything (with
    degrees (5, 3), 1.05 times the reach gives -1.07): `reach` must bound every trace that can be.
    """
    value = scaled_trace(
        engine, inverse, growth=growth, layout=layout, threshold=threshold, reach=reach
    )
    output = Affine(alpha=float(rider.flip), beta=rider.noise)
    return evaluate_sign_affine(engine, value, sign=sign, outputs=(output,))[0]
