from __future__ import annotations

import itertools

import pytest

from helba.errors import InvalidInput
from helba.ring.security import (
    RING_DIMS,
    SECURITY_LEVELS,
    max_log2_qp,
)


def test_table_grows_with_the_ring_and_shrinks_with_the_level():
    for ring_dim in RING_DIMS:
        limits = [max_log2_qp(ring_dim, security=level) for level in SECURITY_LEVELS]
        assert limits == sorted(limits, reverse=True)
    for level in SECURITY_LEVELS:
        limits = [max_log2_qp(ring_dim, security=level) for ring_dim in RING_DIMS]
        # twice the ring, twice the modulus: the shape of every attack's cost
        assert all(1.98 < b / a < 2.06 for a, b in itertools.pairwise(limits))


@pytest.mark.parametrize(("ring_dim", "security"), [(1 << 12, 128), (3000, 128), (1 << 15, 100)])
def test_what_is_not_in_the_table_is_refused(ring_dim, security):
    with pytest.raises(InvalidInput):
        max_log2_qp(ring_dim, security=security)


@pytest.mark.ckks
def test_table_is_no_looser_than_openfhe():
    import openfhe as fhe

    levels = {
        128: fhe.HEStd_128_classic,
        192: fhe.HEStd_192_classic,
        256: fhe.HEStd_256_classic,
    }
    for security, level in levels.items():
        for ring_dim in RING_DIMS[:3]:
            request = fhe.CCParamsCKKSRNS()
            request.SetSecurityLevel(level)
            request.SetMultiplicativeDepth(1)
            # One digit, no special primes: Q alone, one bit short of our limit.
            limit = max_log2_qp(ring_dim, security=security)
            first = min(60, limit // 2)
            depth = max(1, (limit - 1 - first) // 35)
            request.SetMultiplicativeDepth(depth)
            request.SetFirstModSize(first)
            request.SetScalingModSize(35)
            request.SetKeySwitchTechnique(fhe.BV)
            request.SetScalingTechnique(fhe.FLEXIBLEAUTO)
            context = fhe.GenCryptoContext(request)
            assert context.GetRingDimension() <= ring_dim
