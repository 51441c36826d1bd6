"""The public names of the packages below the bandit."""

from __future__ import annotations

import inspect
import textwrap

import pytest

import helba.learning.layout
import helba.ring
import helba.ring.secret


def test_public_names_of_the_ring_are_these():
    assert helba.ring.__all__ == [
        "DEVIATIONS",
        "PRIMES",
        "Bound",
        "Ciphertext",
        "EvaluationKey",
        "Mask",
        "Move",
        "Opening",
        "PublicKey",
        "Rearrangement",
        "Recipient",
        "Ring",
        "RingParameters",
        "Share",
        "choose_parameters",
        "insecure_parameters",
    ]
    assert all(hasattr(helba.ring, name) for name in helba.ring.__all__)


def test_public_names_of_secret_keys_are_these_and_the_ring_has_none_of_them():
    secret = helba.ring.secret
    assert secret.__all__ == [
        "KeyPair",
        "Opener",
        "SecretKey",
        "make_keys",
        "make_reencryption_key",
    ]
    assert all(hasattr(secret, name) for name in secret.__all__)
    assert not any(hasattr(helba.ring, name) for name in secret.__all__)


def test_public_names_of_layouts_are_these():
    assert helba.learning.layout.__all__ == [
        "Arrangement",
        "InnerProducts",
        "MatrixProduct",
        "OuterProduct",
        "symmetrising_moves",
    ]
    assert all(hasattr(helba.learning.layout, name) for name in helba.learning.layout.__all__)


@pytest.mark.ckks
def test_example_of_the_package_runs():
    text = inspect.getdoc(helba.ring)
    start, end = text.index("    from helba.ring.secret"), text.index("Layers:")
    names = {name: getattr(helba.ring, name) for name in helba.ring.__all__}
    exec(textwrap.dedent(text[start:end]), names)
    error = names["mask"].error(bits=50)
    value = int(names["share"].modulo(bits=50)[0]) - int(names["mask"].take_modulo(bits=50)[0])
    first, middle = names["keys"].public.parameters.moduli[:2]
    signed = (value + (1 << 49)) % (1 << 50) - (1 << 49)
    assert abs(signed - (9 << 130) // (first * middle)) <= error + 1
