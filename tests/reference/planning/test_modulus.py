from __future__ import annotations

import pytest

from helba.errors import InvalidInput
from helba.reference.planning.modulus import least_ring_dim, require_modulus


def test_least_ring_is_the_first_that_carries_the_modulus():
    assert least_ring_dim(868, security=128) == 1 << 15
    assert least_ring_dim(868.1, security=128) == 1 << 16
    assert least_ring_dim(4982, security=128) is None


def test_the_modulus_of_the_paper_is_refused_with_the_ring_that_it_needs():
    with pytest.raises(InvalidInput) as caught:
        require_modulus(4982, ring_dim=1 << 16, security=128)
    text = str(caught.value)
    assert "1747" in text
    assert "2^18" in text
    assert "2024/463" in text
    require_modulus(1747, ring_dim=1 << 16, security=128)
