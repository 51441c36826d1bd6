"""Places: which coefficients of a polynomial are meant."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput
from helba.ring.parameters import RingParameters

Places = NDArray[np.intp]


def checked_places(places: Any, *, parameters: RingParameters) -> Places:
    """Return distinct coefficients of the ring as a flat array, or raise `InvalidInput`."""
    flat: Places = np.asarray(places).reshape(-1)
    if flat.size == 0 or not np.issubdtype(flat.dtype, np.integer):
        raise InvalidInput("places", f"{flat.size} of type {flat.dtype}", "one or more integers")
    flat = flat.astype(np.intp)
    if int(flat.min()) < 0 or int(flat.max()) >= parameters.ring_dim:
        raise InvalidInput("places", "one outside", f"from 0 to {parameters.ring_dim - 1}")
    if np.bincount(flat).max() > 1:
        raise InvalidInput("places", "one of them twice", "distinct")
    return flat
