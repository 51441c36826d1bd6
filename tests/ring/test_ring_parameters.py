from __future__ import annotations

from dataclasses import replace

import pytest

from helba.errors import InvalidInput
from helba.ring import RingParameters, choose_parameters, insecure_parameters
from helba.ring.security import max_log2_qp


@pytest.mark.parametrize(("security", "ring_dim"), [(128, 1 << 13), (192, 1 << 14), (256, 1 << 14)])
def test_choice_is_the_smallest_ring_of_its_level(security, ring_dim):
    found = choose_parameters(security=security)
    assert found.ring_dim == ring_dim
    assert found.log2_qp <= max_log2_qp(ring_dim, security=security)
    if ring_dim > 1 << 13:
        assert found.log2_qp > max_log2_qp(ring_dim // 2, security=security)


def test_moduli_are_primes_that_split_in_the_ring():
    for parameters in (choose_parameters(), choose_parameters(security=192), insecure_parameters()):
        first, below, above = parameters.moduli
        assert first < 1 << 55
        assert below < 1 << 49 < above
        for prime in parameters.moduli:
            assert prime % (2 * parameters.ring_dim) == 1
            assert pow(3, prime - 1, prime) == 1


def test_modulus_past_the_table_is_refused():
    with pytest.raises(InvalidInput, match=r"at most 147 at N = 2\^13 for 192 bits .*, got 214"):
        RingParameters(ring_dim=1 << 13, security=192)


@pytest.mark.parametrize("security", [0, 100, 512])
def test_levels_that_the_table_does_not_have_are_refused(security):
    with pytest.raises(InvalidInput, match="security"):
        choose_parameters(security=security)


def test_parameters_without_security_come_from_one_place_only():
    with pytest.raises(InvalidInput, match="security"):
        RingParameters(ring_dim=512, security=None)
    assert insecure_parameters(10).security is None


def test_insecure_parameters_take_no_label_of_security():
    small = insecure_parameters(9)
    for changes in ({"security": 128}, {"ring_dim": 1024}, {}):
        with pytest.raises(InvalidInput):
            replace(small, **changes)
    with pytest.raises(InvalidInput, match="ring_dim"):
        RingParameters(ring_dim=512, security=128, _insecure=True)


@pytest.mark.ckks
def test_openfhe_is_not_opened_with_a_label_that_was_put_on_later():
    from helba.ring.ckks.context import open_context

    forged = insecure_parameters(9)
    object.__setattr__(forged, "security", 128)
    with pytest.raises(InvalidInput, match="ring_dim"):
        open_context(forged)


def test_fingerprints_tell_rings_apart():
    rings = [
        choose_parameters(),
        choose_parameters(security=192),
        choose_parameters(security=256),
        insecure_parameters(9),
        insecure_parameters(10),
    ]
    assert len({each.fingerprint for each in rings}) == len(rings)


@pytest.mark.ckks
@pytest.mark.parametrize("parameters", [choose_parameters(), choose_parameters(security=256)])
def test_openfhe_takes_these_primes_and_stays_within_the_table(parameters):
    from helba.ring.ckks.context import moduli_of, open_context

    assert moduli_of(open_context(parameters)) == parameters.moduli
