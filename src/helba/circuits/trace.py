"""The update test on its own: has Tr(A (V - V_j)) passed the threshold?

Where scores are compared anyway it rides along instead (`argmax.Rider`).
"""

from __future__ import annotations

from helba.circuits.argmax import Rider
from helba.circuits.packing import cyclic_sum
from helba.circuits.sign import evaluate_sign_affine
from helba.engine import EncryptedVector, Engine
from helba.errors import WrongVector, require_positive
from helba.numerics.composite import CompositeSign
from helba.planning.compare_cost import matrix_slots
from helba.planning.polynomial import Affine

__all__ = ["scaled_trace", "trace_test"]


def scaled_trace(
    engine: Engine,
    inverse: EncryptedVector,
    *,
    growth: EncryptedVector,
    dim: int,
    threshold: float,
    reach: float,
) -> EncryptedVector:
    """Return (Tr(A D) - threshold)/reach in every slot, for symmetric A and D = `growth`.

    Both are p x p matrices by rows, p the power of two from `dim`, zeros beyond it. 1 level above
    the deeper of the two. Dividing by the reach is free if they differ in level (it falls on the
    shallower one) or if reach is 1, because the caller folded it into D; else it costs 1 more.
    """
    require_positive("reach", reach)
    slots = matrix_slots(dim)
    for matrix in (inverse, growth):
        if matrix.slots != slots:
            raise WrongVector(f"a matrix of {dim} rows fills {slots} slots, not {matrix.slots}")
    first, second = sorted((inverse, growth), key=lambda matrix: matrix.level)
    if reach != 1.0:
        first = engine.combine([(first, 1.0 / reach)], level=max(first.level + 1, second.level))
    total = cyclic_sum(engine, engine.multiply(first, second), stride=1, count=slots)
    return engine.add_plain(total, -threshold / reach)


def trace_test(
    engine: Engine,
    inverse: EncryptedVector,
    *,
    growth: EncryptedVector,
    dim: int,
    threshold: float,
    reach: float,
    sign: CompositeSign,
    rider: Rider,
) -> EncryptedVector:
    """Return flip * P((Tr(A D) - threshold)/reach) + noise in every slot.

    `scaled_trace`, then the levels of `sign`: flip and noise ride in its last stage. Within
    `sign.error` of the flipped bit if the trace is at least reach * resolution from the threshold.
    """
    value = scaled_trace(engine, inverse, growth=growth, dim=dim, threshold=threshold, reach=reach)
    output = Affine(alpha=float(rider.flip), beta=rider.noise)
    return evaluate_sign_affine(engine, value, sign=sign, outputs=(output,))[0]
