"""From a fresh inverse to the score model: estimate, one refinement, layout.

The estimate is renewed between pieces of the chain where the levels do not suffice for all of them;
V, g and A stay fresh. Every renewal on the way is returned, so that it can be checked.
"""

from __future__ import annotations

from dataclasses import dataclass

from helba.reference.circuits.algebra.estimate import compute_estimate, refine_estimate
from helba.reference.circuits.levels import Renewal, Steps, sink
from helba.reference.circuits.scores.model import assemble_model
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.cost.chain import Chain, levels_of
from helba.reference.planning.layout.model import ModelAssembly


@dataclass(frozen=True, kw_only=True)
class Scoring:
    """The score model, and the estimates before and after each renewal on the way to it."""

    model: EncryptedVector
    renewed: tuple[tuple[EncryptedVector, EncryptedVector], ...]


def scoring_steps(
    engine: Engine,
    *,
    inverse: EncryptedVector,
    design: EncryptedVector,
    response: EncryptedVector,
    assembly: ModelAssembly,
    chain: Chain,
    bound: float,
    lowered: bool,
) -> Steps[Scoring]:
    """Return the model from A, V and g in the pieces of `chain`, that of `planning.model_steps`.

    No entry of an estimate exceeds `bound` in size. Operands that are to be `lowered` come down to
    the deepest level that leaves a piece its levels and a refresh.
    """
    layout = assembly.matrix
    renewed = []
    result = response
    for index, piece in enumerate(chain.pieces):
        if index:
            fresh = yield Renewal(vector=result, bound=bound)
            renewed.append((result, fresh))
            result = fresh
        operands = [inverse, design, response, result]
        if lowered:
            operands = [sink(engine, each, levels=levels_of(piece)) for each in operands]
        A, V, g, result = operands
        for step in piece:
            if step.name == "estimate":
                result = compute_estimate(engine, inverse=A, response=g, layout=layout)
            elif step.name == "refinement":
                result = refine_estimate(
                    engine, estimate=result, inverse=A, matrix=V, response=g, layout=layout
                )
            else:
                result = assemble_model(engine, inverse=A, estimate=result, assembly=assembly)
    return Scoring(model=result, renewed=tuple(renewed))
