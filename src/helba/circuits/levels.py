"""Keeping levels in hand for long iterations: refresh before they run out, waste none before."""

from __future__ import annotations

from collections.abc import Callable

from helba.engine import EncryptedVector, Engine
from helba.engine.refresh import REFRESH_LEVELS
from helba.errors import LevelsExhausted

__all__ = ["Refresh", "sink", "with_levels"]

# Returns the same values with more levels left; it needs REFRESH_LEVELS of them itself.
Refresh = Callable[[EncryptedVector], EncryptedVector]


def with_levels(
    vector: EncryptedVector, *, needed: int, refresh: Refresh | None
) -> EncryptedVector:
    """Return the vector, refreshed if `needed` levels would not leave enough for a later refresh.

    Without `refresh` nothing happens: the engine raises `LevelsExhausted` when it must. It is
    raised here, before any refresh, if not even a fresh vector has levels enough.
    """
    reserve = needed + REFRESH_LEVELS
    if refresh is None or vector.levels_left >= reserve:
        return vector
    depth = vector.parameters.depth
    if depth < reserve:
        raise LevelsExhausted(
            f"a step of {needed} levels and a refresh after it need depth {reserve}, not {depth}"
        )
    fresh = refresh(vector)
    if fresh.levels_left < reserve:
        raise LevelsExhausted(
            f"a step of {needed} levels and a refresh after it need {reserve} levels, "
            f"a refresh left {fresh.levels_left}"
        )
    return fresh


def sink(engine: Engine, vector: EncryptedVector, *, levels: int) -> EncryptedVector:
    """Return the vector as deep as `levels` more of them and a refresh after that allow.

    Operations are cheaper there: an update of known length begins so.
    """
    deepest = vector.parameters.depth - levels - REFRESH_LEVELS
    return engine.lower(vector, max(vector.level, deepest))
