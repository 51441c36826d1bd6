from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helba.errors import InvalidInput
from helba.randomness import draw_bytes
from helba.ring.parameters import choose_parameters
from helba.ring.sharing.integer import (
    as_integers,
    compose,
    draw_residues,
    largest_of,
    multiply_rounded,
    residues_of,
    round_to_bits,
)

MODULI = choose_parameters().moduli
WHOLE = MODULI[0] * MODULI[1]


@given(st.lists(st.integers(-(WHOLE // 2), WHOLE // 2), min_size=1, max_size=20))
def test_composition_undoes_residues(values):
    integers = np.array(values, dtype=object)
    assert list(compose(residues_of(integers, MODULI[:2]), MODULI[:2])) == values


@given(
    st.lists(st.integers(-(1 << 110), 1 << 110), min_size=1, max_size=20),
    st.fractions(min_value=-1000, max_value=1000).filter(bool),
)
def test_products_with_a_fraction_are_off_by_half_a_unit_at_most(values, factor):
    found = multiply_rounded(np.array(values, dtype=object), factor)
    assert all(
        abs(one - factor * each) <= Fraction(1, 2) for one, each in zip(found, values, strict=True)
    )


@given(
    st.integers(0, MODULI[0] - 1),
    st.integers(-(1 << 53), 1 << 53),
    st.integers(8, 63),
)
def test_shares_modulo_a_power_of_two_differ_by_the_value_up_to_one_unit(mask, value, bits):
    modulus = MODULI[0]
    residues = np.array([(value + mask) % modulus, mask], dtype=np.uint64)
    mine, theirs = (int(each) for each in round_to_bits(residues, modulus=modulus, bits=bits))
    difference = Fraction(mine - theirs) - Fraction(value << bits, modulus)
    around = (difference + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    assert abs(around) <= 1


def test_draws_are_uniform_below_the_modulus():
    # a modulus just above a power of two: a remainder instead of a rejection would double
    # the first half of the values
    modulus, count = (1 << 4) + 1, 170_000
    drawn = draw_residues([modulus], count, draw=draw_bytes)[0]
    observed = np.bincount(drawn.astype(np.int64), minlength=modulus)
    assert len(observed) == modulus
    statistic = float(((observed - count / modulus) ** 2).sum() / (count / modulus))
    assert statistic < 65  # chi-squared with 16 degrees of freedom: 7e-8


def test_draws_reach_the_top_of_a_large_modulus_and_never_repeat():
    drawn = draw_residues(MODULI, 20_000, draw=draw_bytes)
    for row, modulus in zip(drawn, MODULI, strict=True):
        assert int(row.max()) < modulus
        assert int(row.max()) > modulus * 0.998  # 4e-18 that all are below
    # 20,000 draws of 49 bits collide with probability 4e-7
    assert all(len(np.unique(row)) == len(row) for row in drawn)


@pytest.mark.parametrize("values", [[1.5], ["1"], [None], np.array([1.0])])
def test_only_integers_are_integers(values):
    with pytest.raises(InvalidInput):
        as_integers(values)


def test_integers_of_every_size_are_kept():
    large = [-(1 << 100), 0, 1 << 100]
    assert list(as_integers(np.array(large, dtype=object))) == large
    assert list(as_integers(np.array([2**64 - 1], dtype=np.uint64))) == [2**64 - 1]
    assert as_integers([1, -2]).dtype == np.int64
    mixed = as_integers([2**63, -1])
    assert list(mixed) == [2**63, -1]
    scalars = as_integers(np.array([np.int64(2**62), np.int64(-(2**62))], dtype=object))
    assert scalars.dtype == np.int64
    assert list(scalars) == [2**62, -(2**62)]
    assert largest_of(np.array([-(2**63), 5])) == 2**63
    assert largest_of(np.zeros(0, dtype=np.int64)) == 0
