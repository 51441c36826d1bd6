"""How masks are split: as much as the last prime holds, and no more than decryption takes."""

from __future__ import annotations

import math

import pytest

from helba.reference.planning.clearing import (
    LARGEST_VALUE,
    MOST_LEFT,
    PARTS,
    answer_unit,
    clearing_cost,
    clearing_noise,
    mask_split,
)
from helba.reference.planning.flooding import FLOOD
from helba.reference.planning.parameters import Parameters, insecure_parameters
from helba.reference.planning.score import ScoreLayout

MANY = ScoreLayout(dim=2, arms=2, users=1024)
SEVERAL = [MANY, ScoreLayout(dim=8, arms=8, users=4), ScoreLayout(dim=1, arms=2, users=2)]


def parameters_of(scale_bits: int, *, first_bits: int = 60) -> Parameters:
    return insecure_parameters(
        ring_dim=1 << 15, depth=11, scale_bits=scale_bits, first_bits=first_bits
    )


@pytest.mark.parametrize("scale_bits", [35, 40, 46, 51])
@pytest.mark.parametrize("layout", SEVERAL)
def test_answers_fit_the_last_prime_and_decrypt(layout: ScoreLayout, scale_bits: int) -> None:
    parameters = parameters_of(scale_bits)
    unit = answer_unit(layout, parameters=parameters)
    assert math.log2(unit) == int(math.log2(unit)) >= 0
    assert LARGEST_VALUE * unit * 2.0**scale_bits <= 2.0**58
    # OpenFHE refuses what its slots' imaginary parts show to err by 2^-5
    assert unit * FLOOD / (4.0 * math.sqrt(3.0 * layout.compare_slots)) <= 2.0**-7


def test_one_user_gets_the_comparison_itself() -> None:
    alone, parameters = ScoreLayout(dim=2, arms=2), parameters_of(46)
    assert answer_unit(alone, parameters=parameters) == 1.0
    assert clearing_cost(alone).levels == clearing_cost(alone).plain_products == 0
    assert clearing_noise(alone, parameters=parameters) == 0.0


def test_no_room_above_the_scale_leaves_entries_as_they_are() -> None:
    assert answer_unit(MANY, parameters=parameters_of(50, first_bits=50)) == 1.0


@pytest.mark.parametrize("layout", SEVERAL)
def test_parts_leave_little_of_others(layout: ScoreLayout) -> None:
    split = mask_split(layout, parameters=parameters_of(46))
    assert len(split.bits) == len(split.factors) == PARTS
    assert list(split.bits) == sorted(set(split.bits))
    spread = 6.0 * math.sqrt(2.0 * layout.opponent_stride / 12.0)
    assert MOST_LEFT / 2.0 < spread * 2.0 ** -split.bits[-1] <= MOST_LEFT
    assert split.factors[0] == split.unit * 2.0 ** -split.bits[0] < 1.0
    # a short scale has no more digits to give
    assert mask_split(layout, parameters=parameters_of(35)).bits[-1] == 35


@pytest.mark.parametrize("layout", SEVERAL)
def test_noise_of_clearing_is_a_thousandth_of_the_flood(layout: ScoreLayout) -> None:
    noise = clearing_noise(layout, parameters=parameters_of(46))
    assert 0.0 < noise < FLOOD / 1000.0


def test_noise_of_clearing_grows_where_the_last_prime_is_short() -> None:
    noise, worse = (
        clearing_noise(MANY, parameters=parameters_of(46, first_bits=bits)) for bits in (60, 52)
    )
    assert worse > 100.0 * noise
