"""The composite sign polynomial of an encrypted vector."""

from __future__ import annotations

from collections.abc import Sequence

from helba.reference.circuits.comparison.polynomial import evaluate_affine, evaluate_polynomial
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.numerics.composite import CompositeSign
from helba.reference.planning.cost.polynomial import PLAIN, Affine


def evaluate_sign(engine: Engine, x: EncryptedVector, *, sign: CompositeSign) -> EncryptedVector:
    """Return P(x) for x in [-1, 1], within `sign.error` of the sign past the resolution.

    `sign.levels` levels, `sign.products` products.
    """
    return evaluate_sign_affine(engine, x, sign=sign, outputs=(PLAIN,))[0]


def evaluate_sign_affine(
    engine: Engine, x: EncryptedVector, *, sign: CompositeSign, outputs: Sequence[Affine]
) -> list[EncryptedVector]:
    """Return alpha * P(x) + beta for each output, at the level of P(x).

    alpha and beta are numbers or slot vectors; they ride in the coefficients of the last stage.
    """
    for order in sign.orders[:-1]:
        x = evaluate_polynomial(engine, x, order=order)
    return evaluate_affine(engine, x, order=sign.orders[-1], outputs=outputs)
