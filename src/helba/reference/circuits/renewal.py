"""Levels come back by bootstrapping, for values of any bound. 2 levels, or 1 if nothing is scaled.

Bootstrapping takes values in [-1, 1] and as many slots as its keys are for. So the vector is
divided by the next power of two (1 level; bootstrapping itself adjusts the scale, 1 level),
repeated over the slots of the keys, bootstrapped, averaged over its copies, folded, and doubled
again, which is free. The error of the bootstrapping (`planning.bounds.bootstrap`) is doubled as
well.

The average keeps the copies equal. Bootstrapping makes an error of its own in each, and circuits
that rely on the period would enlarge the differences (docs/decisions/0011). Its sum over n copies
is part of the doubling, so where n exceeds the bound the vector is divided by n.
"""

from __future__ import annotations

from helba.errors import LevelsExhausted, MissingKey, WrongVector, require_positive
from helba.reference.circuits.algebra.packing import add_rotations
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.planning.bounds.bootstrap import renewal_exponent
from helba.reference.planning.cost.chain import REFRESH_LEVELS
from helba.reference.planning.layout.stages import power_stages


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
    copies = key.bootstrap_slots // vector.slots
    exponent = max(renewal_exponent(bound), copies.bit_length() - 1)
    scaled = engine.multiply_scalar(vector, 2.0**-exponent) if exponent else vector
    wide = engine.bootstrap(engine.repeat(scaled, key.bootstrap_slots))
    stages = power_stages(unit=vector.slots, count=copies)
    fresh = engine.fold(add_rotations(engine, wide, stages=stages), vector.slots)
    for _ in range(exponent - (copies.bit_length() - 1)):
        fresh = engine.add(fresh, fresh)
    return fresh
