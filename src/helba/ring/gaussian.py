"""Integers with a discrete Gaussian distribution, sampled exactly.

The sampler is OpenDP's: Canonne, Kamath and Steinke (2020, *The discrete Gaussian for differential
privacy*), in exact rational arithmetic. An opener adds such noise to its share where what is opened
afterwards would otherwise depend on CKKS's own error, and by it on the secret key.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput

# OpenDP cuts off at 2^63; a number past 32 deviations is not drawn in the life of the universe.
MOST_DEVIATION = 2.0**58


def draw_gaussian(count: int, *, deviation: float) -> NDArray[np.int64]:
    """Return `count` independent integers with mean 0 and parameter `deviation`."""
    if not 0.5 <= deviation <= MOST_DEVIATION:
        raise InvalidInput("deviation", deviation, f"from 0.5 to {MOST_DEVIATION:g}")
    return np.array(_sampler(float(deviation))([0] * count), dtype=np.int64)


@lru_cache(maxsize=256)
def _sampler(deviation: float) -> Any:
    # Not `opendp.prelude`, which loads every library that OpenDP can work with.
    from opendp.domains import atom_domain, vector_domain
    from opendp.measurements import make_gaussian
    from opendp.metrics import l2_distance
    from opendp.mod import enable_features

    enable_features("contrib")  # OpenDP's word for: proofs are public, the vetting is not done
    domain = vector_domain(atom_domain(T="i64"))
    return make_gaussian(domain, l2_distance(T=float), scale=deviation)
