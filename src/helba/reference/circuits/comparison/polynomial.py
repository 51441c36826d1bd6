"""Odd polynomials of an encrypted vector, by the order that `numerics.evaluation` found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from helba.reference.engine import EncryptedVector, Engine
from helba.reference.numerics.evaluation import Combination, EvaluationOrder, Product
from helba.reference.planning.cost.polynomial import (
    PLAIN,
    Affine,
    Coefficient,
    coefficients_of,
    schedule,
)


def evaluate_polynomial(
    engine: Engine, x: EncryptedVector, *, order: EvaluationOrder
) -> EncryptedVector:
    """Return p(x) for x in [-1, 1]: `order.levels` levels, `order.products` products."""
    return evaluate_affine(engine, x, order=order, outputs=(PLAIN,))[0]


def evaluate_affine(
    engine: Engine, x: EncryptedVector, *, order: EvaluationOrder, outputs: Sequence[Affine]
) -> list[EncryptedVector]:
    """Return alpha * p(x) + beta for each output, at no level more than p(x) of any coefficients.

    Values that no alpha touches are made once, at the shallowest level that an output wants.
    """
    plans = [schedule(order, alpha=output.alpha) for output in outputs]
    values = [[x] for _ in outputs]
    for made, step in enumerate(order.steps, start=1):
        if plans[0].scaled[made]:
            for known, plan, output in zip(values, plans, outputs, strict=True):
                level = x.level + plan.levels[made]
                scaling = (plan.scaled, output.alpha)
                known.append(_follow(engine, step, known, level=level, scaling=scaling))
        else:
            level = x.level + min(plan.levels[made] for plan in plans)
            shared = _follow(engine, step, values[0], level=level, scaling=(plans[0].scaled, 1.0))
            for known in values:
                known.append(shared)
    return [
        _shifted(engine, known[-1], output.beta)
        for known, output in zip(values, outputs, strict=True)
    ]


def _follow(
    engine: Engine,
    step: Product | Combination,
    known: Sequence[EncryptedVector],
    *,
    level: int,
    scaling: tuple[Sequence[bool], Coefficient],
) -> EncryptedVector:
    if isinstance(step, Product):
        return engine.multiply(engine.lower(known[step.left], level - 1), known[step.right])
    scaled, alpha = scaling
    terms: list[tuple[EncryptedVector, float]] = []
    for index, coefficient in coefficients_of(step, alpha=alpha, scaled=scaled):
        if isinstance(coefficient, np.ndarray):
            # lowered first: the lowered value is kept, and serves every output
            lowered = engine.lower(known[index], level - 1)
            terms.append((engine.multiply_plain(lowered, coefficient), 1.0))
        else:
            terms.append((known[index], coefficient))
    return engine.combine(terms, constant=step.constant, level=level)


def _shifted(engine: Engine, value: EncryptedVector, beta: Coefficient) -> EncryptedVector:
    if isinstance(beta, np.ndarray) or beta != 0.0:
        return engine.add_plain(value, beta)
    return value
