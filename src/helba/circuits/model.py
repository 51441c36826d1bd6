"""The score model (w, upper triangle of A, 1) from the encrypted inverse and estimate."""

from __future__ import annotations

from helba.circuits.gather import add_rotations, gather
from helba.engine import EncryptedVector, Engine
from helba.planning.model import ModelAssembly

__all__ = ["assemble_model"]


def assemble_model(
    engine: Engine,
    *,
    inverse: EncryptedVector,
    estimate: EncryptedVector,
    assembly: ModelAssembly,
) -> EncryptedVector:
    """Return the model of `planning.score`, for a symmetric A by rows and w by column.

    1 or 2 levels, as `assembly` says; F P slots. Every row of A is rotated to its place (hoisted);
    masks pick the entries, and Horner's rule moves what has been collected from column to column.
    w joins, all is stretched if there is a second level, and spread over the minor index; the
    constant feature is added in the clear. See `planning.model`.
    """
    slots = max(assembly.score.slots, inverse.slots, estimate.slots)
    level = max(inverse.level, estimate.level)
    steps = assembly.row_steps
    moved = engine.rotate_many(engine.lower(inverse, level), steps)
    rows = {step: engine.repeat(part, slots) for step, part in zip(steps, moved, strict=True)}
    lowered = engine.lower(estimate, level)
    weights = gather(engine, [(lowered, assembly.estimate)], slots=slots)[0]
    entries: EncryptedVector | None = None
    for group in reversed(assembly.groups):
        terms = [
            (engine.multiply_plain(rows[step], assembly.mask(places, slots=slots)), 1.0)
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
    model = engine.add_plain(spread, assembly.constant(slots=slots))
    return engine.fold(model, assembly.score.slots)
