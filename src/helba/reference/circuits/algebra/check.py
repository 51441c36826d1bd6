"""Whether a new model may replace the one in use: one bit, from a helper who learns nothing.

||I - V A||_F^2 and ||after - before||^2 are 0 but for noise if every refresh on the way was
answered rightly; a wrong share makes them huge. With r their sum, each over its limit, the helper
gets in every slot, with a secret random sign s of its own,

    s (1 - r + u),    u uniform in [-1/2, 1/2], the same in all slots,

and returns the signs it reads. They are all s if r < 1/2, and all -s if r > 3/2; what wraps around
the modulus reads as random signs, which equal s with probability 2^-n for n of them. Nothing
explodes, for there is no polynomial. To the helper slots are fair coins times one number, uniform
and shifted by r: that is the total variation by which all of them together depend on it. Noise of
its own in every slot would tell more: r from the largest and the least of many.

It finds faults: a share that is lost, stale or random. It is no defence against a helper who means
harm: that one may spoil residues which the check does not use, or answer for its own share.

||I - V A||_F bounds the spectral norm of V^(1/2) A V^(1/2) - I, whose matrix is similar to I - V A.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from helba.errors import require_positive
from helba.reference.circuits.algebra.matrix import residual, squared_norm
from helba.reference.circuits.algebra.packing import add_rotations
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.layout.matrix import MatrixLayout
from helba.reference.planning.layout.stages import Stages

# Product (2), square, signs.
CHECK_LEVELS = 4


def inverse_residual(
    engine: Engine, *, design: EncryptedVector, inverse: EncryptedVector, layout: MatrixLayout
) -> EncryptedVector:
    """Return ||I - V A||_F^2 in p^2 slots, at the last level but one."""
    level = engine.parameters.depth - CHECK_LEVELS
    V, A = (engine.lower(matrix, level) for matrix in (design, inverse))
    wrong = residual(engine, matrix=V, inverse=A, layout=layout)
    return squared_norm(engine, matrix=wrong, layout=layout)


def squared_change(
    engine: Engine,
    pairs: Sequence[tuple[EncryptedVector, EncryptedVector]],
    *,
    stages: Stages,
) -> EncryptedVector:
    """Return the sum of the squared differences over `stages`, at the last level but one.

    Of each pair the first vector was sent to be refreshed, two levels or more left, and the second
    came back. They have the same slots.
    """
    level = engine.parameters.depth - 2
    squares = []
    for before, after in pairs:
        change = engine.subtract(*(engine.lower(vector, level) for vector in (after, before)))
        squares.append((engine.multiply(change, change), 1.0))
    return add_rotations(engine, engine.combine(squares), stages=stages)


def signed_check(
    engine: Engine,
    errors: Sequence[tuple[EncryptedVector, float]],
    *,
    signs: Sequence[int],
    noise: NDArray[np.float64],
) -> EncryptedVector:
    """Return s (1 - sum of error/limit) + noise, re-randomised, from errors with their limits.

    `signs` and `noise` have one entry a slot.
    """
    s = np.asarray(signs, dtype=np.float64)
    terms = []
    for error, limit in errors:
        require_positive("limit", limit)
        terms.append((engine.multiply_plain(error, -s / limit), 1.0))
    signed = engine.add_plain(engine.combine(terms), s)
    return engine.add(signed, engine.encrypt(noise, level=signed.level))
