"""The score model (w, upper triangle of A, 1) from the encrypted inverse and estimate."""

from __future__ import annotations

from helba.reference.circuits.algebra.gather import gather
from helba.reference.circuits.algebra.packing import add_rotations
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.layout.model import ModelAssembly


def assemble_model(
    engine: Engine,
    *,
    inverse: EncryptedVector,
    estimate: EncryptedVector,
    assembly: ModelAssembly,
) -> EncryptedVector:
    """Return the model of `planning.layout.score`, for a symmetric A by rows and w by column.

    1 or 2 levels, as `assembly` says; F P slots. A and w may repeat over more slots than p^2; of an
    A that noise has made slightly unsymmetric one triangle counts. Every row of A is rotated to its
    place (hoisted); masks pick the entries, and Horner's rule moves what has been collected from
    column to column. w joins, all is stretched if there is a second level, and spread over the
    minor index; the constant feature is added in the clear. See `planning.layout.model`.
    """
    slots, level = assembly.score.slots, max(inverse.level, estimate.level)
    A, w = (
        engine.lower(engine.fold(vector, assembly.matrix.size), level)
        for vector in (inverse, estimate)
    )
    steps = assembly.row_steps
    moved = engine.rotate_many(A, steps)
    rows = {step: engine.repeat(part, slots) for step, part in zip(steps, moved, strict=True)}
    weights = gather(engine, [(w, assembly.estimate)], slots=slots)[0]
    entries: EncryptedVector | None = None
    for group in reversed(assembly.groups):
        terms = [
            (engine.multiply_plain(rows[step], assembly.mask(places)), 1.0)
            for step, places in group.items()
        ]
        if entries is not None:
            terms.append((engine.rotate(entries, assembly.column_step), 1.0))
        entries = engine.combine(terms)
    assert entries is not None
    features = engine.add(entries, weights)
    if assembly.stretch is not None:
        features = gather(engine, [(features, assembly.stretch)], slots=slots)[0]
    spread = add_rotations(engine, features, stages=assembly.spread)
    return engine.add_plain(spread, assembly.constant())
