from __future__ import annotations

import math

import pytest

from helba.errors import InvalidInput
from helba.reference.planning.parameters import (
    MOST_SCALE_BITS,
    Parameters,
    even_digits,
    insecure_parameters,
)
from helba.reference.planning.selection import (
    choose_parameters,
    largest_scale,
    possible_digits,
)
from helba.ring.security import RING_DIMS, max_log2_qp
from tests.sweep import in_soak, sweep


def secure(**changes):
    fields = {"ring_dim": 1 << 15, "depth": 11, "scale_bits": 40, "digits": 3, "security": 128}
    return Parameters(**(fields | changes))


def test_parameters_past_the_table_do_not_exist():
    assert secure().log2_qp <= 868
    with pytest.raises(InvalidInput, match="2024/463"):
        secure(ring_dim=1 << 14)
    with pytest.raises(InvalidInput, match=r"2\^16"):
        secure(security=192)
    with pytest.raises(InvalidInput):
        secure(security=None)
    with pytest.raises(InvalidInput):
        secure(scale_bits=34)


def test_parameters_without_security_say_so():
    parameters = insecure_parameters()
    assert parameters.security is None
    assert "security=None" in repr(parameters)
    assert parameters.fingerprint != secure().fingerprint


def test_fingerprint_names_every_field():
    made = {secure().fingerprint, secure(depth=10).fingerprint, secure(scale_bits=41).fingerprint}
    assert len(made) == 3
    assert secure().fingerprint == secure().fingerprint


@pytest.mark.parametrize("depth", range(1, 25))
def test_digits_leave_no_part_empty(depth):
    primes = depth + 1
    for digits in possible_digits(depth):
        width = math.ceil(primes / digits)
        assert width * (digits - 1) < primes <= width * digits
    with_most = even_digits(depth, at_most=4)
    assert with_most in set(possible_digits(depth))
    assert with_most <= 4


def test_digits_that_openfhe_refuses_are_refused():
    with pytest.raises(InvalidInput, match="digits"):
        secure(depth=8, digits=4)
    assert insecure_parameters(depth=8, digits=4).digits == 3


def test_largest_scale_is_the_last_that_fits():
    for digits in possible_digits(11):
        parameters = largest_scale(ring_dim=1 << 15, depth=11, digits=digits, security=128)
        if parameters is None:
            continue
        assert parameters.scale_bits <= MOST_SCALE_BITS
        if parameters.scale_bits < MOST_SCALE_BITS:
            with pytest.raises(InvalidInput):
                secure(digits=digits, scale_bits=parameters.scale_bits + 1)


def test_chosen_parameters_lie_in_the_smallest_ring_that_fits():
    for depth in (3, 6, 10, 14, 20):
        chosen = choose_parameters(depth=depth)
        assert chosen.depth == depth
        assert chosen.scale_bits >= 40
        assert chosen.log2_qp <= max_log2_qp(chosen.ring_dim, security=128)
        for ring_dim in RING_DIMS:
            if ring_dim >= chosen.ring_dim:
                break
            for digits in possible_digits(depth):
                fits = largest_scale(
                    ring_dim=ring_dim, depth=depth, digits=digits, security=128, scale_bits=40
                )
                assert fits is None


def test_choice_refuses_a_depth_that_no_ring_carries():
    with pytest.raises(InvalidInput, match="depth"):
        choose_parameters(depth=90, security=256)
    with pytest.raises(InvalidInput, match="slots"):
        choose_parameters(depth=3, slots=1 << 20)


def open_raw(parameters):
    import openfhe as fhe

    levels = {
        None: fhe.HEStd_NotSet,
        128: fhe.HEStd_128_classic,
        192: fhe.HEStd_192_classic,
        256: fhe.HEStd_256_classic,
    }
    request = fhe.CCParamsCKKSRNS()
    request.SetRingDim(parameters.ring_dim)
    request.SetMultiplicativeDepth(parameters.depth)
    request.SetScalingModSize(parameters.scale_bits)
    request.SetFirstModSize(parameters.first_bits)
    request.SetNumLargeDigits(parameters.digits)
    request.SetSecurityLevel(levels[parameters.security])
    request.SetScalingTechnique(fhe.FLEXIBLEAUTO)
    request.SetKeySwitchTechnique(fhe.HYBRID)
    context = fhe.GenCryptoContext(request)
    for feature in (fhe.PKE, fhe.KEYSWITCH, fhe.LEVELEDSHE):
        context.Enable(feature)
    return context


def count_primes(parameters):
    """Primes of Q and P together, from the size of a relinearisation key."""
    import openfhe as fhe

    context = open_raw(parameters)
    keys = context.KeyGen()
    context.EvalMultKeyGen(keys.secretKey)
    key = context.GetEvalMultKeyVector(keys.secretKey.GetKeyTag())[0]
    size = len(fhe.Serialize(key, fhe.BINARY))
    return round(size / (2 * parameters.digits * parameters.ring_dim * 8))


@pytest.mark.ckks
@pytest.mark.parametrize(
    ("depth", "digits"),
    [(1, 1), (3, 2), in_soak(5, 2), (5, 3), in_soak(7, 2), (8, 9), (11, 4), in_soak(11, 12)],
)
def test_auxiliary_modulus_of_openfhe_is_the_predicted_one(depth, digits):
    # around every width at which one more prime of 60 bits is needed
    for bits in (30, 35, 38, 39, 40, 45, 50, 55, 56, 57, 58, 59):
        parameters = insecure_parameters(
            ring_dim=1 << 12, depth=depth, scale_bits=bits, digits=digits
        )
        found = count_primes(parameters) - (depth + 1)
        assert found == parameters.auxiliary_primes, (bits, found)


@pytest.mark.ckks
@pytest.mark.parametrize("ring_dim", [1 << 13, 1 << 15, in_soak(1 << 17)])
@pytest.mark.parametrize("bits", [35, 40, 50])
def test_ciphertext_modulus_of_openfhe_stays_below_the_predicted_one(ring_dim, bits):
    # OpenFHE tells a modulus up to 2^1024
    for depth in (2, 7, (1000 - 60) // bits):
        parameters = insecure_parameters(
            ring_dim=ring_dim, depth=depth, scale_bits=bits, digits=depth + 1
        )
        exact = math.log2(open_raw(parameters).GetModulus())
        assert parameters.log2_q - 2 < exact < parameters.log2_q


@pytest.mark.ckks
@pytest.mark.parametrize("security", [128, 192, 256])
def test_openfhe_accepts_the_largest_parameters_of_every_ring(security):
    for ring_dim in sweep(RING_DIMS[1:3], long=RING_DIMS[1:4]):
        for depth in sweep((2, 12), long=(2, 6, 12)):
            for digits in possible_digits(depth):
                parameters = largest_scale(
                    ring_dim=ring_dim, depth=depth, digits=digits, security=security
                )
                if parameters is not None:
                    assert open_raw(parameters).GetRingDimension() == ring_dim
