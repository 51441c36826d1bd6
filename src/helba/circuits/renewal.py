"""Levels come back by bootstrapping, for values up to any bound. It needs 2 levels.

Bootstrapping takes values in [-1, 1] and as many slots as its keys are for. So the vector is
divided by the next power of two (1 level), repeated over the slots of the keys, bootstrapped, which
adjusts the scale first (1 level), folded, and doubled again, which is free. The error of the
bootstrapping (`planning.bootstrap`) is doubled as well: it is relative to the bound.
"""

from __future__ import annotations

from helba.engine import EncryptedVector, Engine
from helba.engine.refresh import REFRESH_LEVELS
from helba.errors import LevelsExhausted, MissingKey, WrongVector, require_positive
from helba.planning.bootstrap import renewal_exponent

__all__ = ["bootstrap_renewal"]


def bootstrap_renewal(engine: Engine, vector: EncryptedVector, *, bound: float) -> EncryptedVector:
    """Return the same values, none beyond `bound`, with `BOOTSTRAP_LEVELS` levels used.

    Needs `REFRESH_LEVELS` levels, whatever the bound, and no more slots than the keys bootstrap.
    """
    require_positive("bound", bound)
    key = engine.evaluation_key
    if key is None or not key.bootstrap_slots:
        raise MissingKey("the evaluation key has no keys for bootstrapping")
    if vector.slots > key.bootstrap_slots:
        raise WrongVector(
            f"the keys bootstrap {key.bootstrap_slots} slots, too few for {vector.slots}"
        )
    if vector.levels_left < REFRESH_LEVELS:
        raise LevelsExhausted(
            f"bootstrapping needs {REFRESH_LEVELS} levels, {vector.levels_left} left"
        )
    exponent = renewal_exponent(bound)
    scaled = engine.multiply_scalar(vector, 2.0**-exponent) if exponent else vector
    wide = engine.bootstrap(engine.repeat(scaled, key.bootstrap_slots))
    fresh = engine.fold(wide, vector.slots)
    for _ in range(exponent):
        fresh = engine.add(fresh, fresh)
    return fresh
