"""Keeping levels in hand for long iterations: refresh before they run out."""

from __future__ import annotations

from collections.abc import Callable

from helba.engine import EncryptedVector
from helba.engine.refresh import REFRESH_LEVELS

__all__ = ["Refresh", "with_levels"]

# Returns the same values with more levels left; it needs REFRESH_LEVELS of them itself.
Refresh = Callable[[EncryptedVector], EncryptedVector]


def with_levels(
    vector: EncryptedVector, *, needed: int, refresh: Refresh | None
) -> EncryptedVector:
    """Return the vector, refreshed if `needed` levels would not leave enough for a later refresh.

    Without `refresh` nothing happens: the engine raises `LevelsExhausted` when it must.
    """
    if refresh is None or vector.levels_left >= needed + REFRESH_LEVELS:
        return vector
    return refresh(vector)
