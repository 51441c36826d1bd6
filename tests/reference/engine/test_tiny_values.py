"""Numbers below the resolution of a scale are as good as zero, and no error."""

from __future__ import annotations

import numpy as np
import pytest

from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, open_keyed


@pytest.mark.parametrize("scheme", BOTH)
@pytest.mark.parametrize("size", [1e-10, 1e-14, 1e-18, 1e-300])
def test_tiny_numbers_are_encrypted_as_what_they_round_to(scheme: str, size: float) -> None:
    """Whether a user's numbers can be encrypted must not depend on what they are."""
    keyed = open_keyed(scheme, parameters=insecure_parameters(scale_bits=40, depth=3))
    values = size * np.array([1.0, -0.5, 0.25, 0.1])
    opened = keyed.open(keyed.engine.encrypt(values))
    assert np.abs(opened - values).max() < 1e-8
    assert (
        np.abs(keyed.open(keyed.engine.multiply_plain(keyed.engine.encrypt(np.ones(4)), values)))[
            :4
        ].max()
        < 1e-8
    )
