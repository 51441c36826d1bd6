"""Noise that hides something: from the system's generator, never from a seed."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray


def draw_uniform(count: int, *, bound: float) -> NDArray[np.float64]:
    """Return `count` independent numbers, uniform in [-bound, bound), in steps of 2^-52 bound."""
    words = np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)
    centred: NDArray[np.float64] = (words >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    return bound * centred
