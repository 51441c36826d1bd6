"""Openings of several polynomials that are reopened together, and bounds of a caller's own."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import EngineError, InvalidInput, OutOfRange
from helba.ring import Mask, Move, Rearrangement, Ring, Share
from helba.ring.secret import make_keys
from tests.ring.parties import convolve, make_parties, scatter, worst


def encrypt(parties, values, places, *, primes=2, peak=2.0**70, scale=1.0):
    return parties.ring.encrypt(values, places=places, scale=scale, peak=peak, primes=primes)


def open_stack(parties, stack, places):
    """Shares and masks of a stack of ciphertexts, by their number."""
    shares, masks = {}, {}
    for number, ciphertext in stack.items():
        opening, masks[number] = parties.ring.open(ciphertext, places=places[number])
        shares[number] = parties.opener.receive(opening, places=places[number])
    return shares, masks


def reopen(parties, shares, masks, rearrangements, **options):
    """Both sides of a reopening of joined shares."""
    replies = parties.opener.reopen([(Share.join(shares), each) for each in rearrangements])
    return parties.ring.reopen(Mask.join(masks), replies, rearrangements=rearrangements, **options)


@given(seed=st.integers(0, 2**32), numbers=st.sets(st.integers(0, 9), min_size=1, max_size=4))
@settings(max_examples=10)
def test_numbers_of_several_polynomials_are_moved_into_one(backend, seed, numbers):
    """A place of the stack is the polynomial's number times N plus the coefficient."""
    parties, rng = make_parties(backend), np.random.default_rng(seed)
    degree = parties.parameters.ring_dim
    places = {k: rng.choice(degree, rng.integers(1, 20), replace=False) for k in numbers}
    values = {k: rng.integers(-(2**60), 2**60, len(places[k])) for k in numbers}
    stack = {k: encrypt(parties, values[k], places[k]) for k in numbers}
    sources = np.concatenate([k * degree + places[k] for k in numbers])
    exact = np.concatenate([values[k] for k in numbers]).astype(object)
    order = rng.permutation(len(sources))
    targets = rng.choice(degree, len(sources), replace=False)
    factor = float(rng.uniform(-3, 3))
    together = Rearrangement([Move(sources[order], targets, factor=factor)], scale=1.0)
    half = np.arange(len(sources)) % 2 == 0
    summed = Rearrangement(
        [Move(sources[half], targets[half]), Move(sources[half][::-1], targets[half], factor=2.0)],
        scale=1.0,
    )
    one, two = reopen(parties, *open_stack(parties, stack, places), [together, summed])
    moved = [Fraction(factor) * int(each) for each in exact[order]]
    assert worst(parties.read(one, targets), moved) <= one.error_bound
    sums = exact[half] + 2 * exact[half][::-1]
    assert worst(parties.read(two, targets[half]), sums) <= two.error_bound
    assert one.error_bound < 2.0**20


def test_joined_opening_reads_only_places_that_are_open(parties):
    degree = parties.parameters.ring_dim
    places = {0: [1, 2], 2: [3]}
    stack = {k: encrypt(parties, [5] * len(p), p) for k, p in places.items()}
    shares, _ = open_stack(parties, stack, places)
    joined = Share.join(shares)
    for closed in (3, degree + 3, 2 * degree + 1, 3 * degree + 3):
        with pytest.raises(InvalidInput, match="not open"):
            parties.opener.reopen([(joined, Rearrangement([Move([closed], [0])], scale=1.0))])
    assert parties.opener.reopen(
        [(joined, Rearrangement([Move([2 * degree + 3], [0])], scale=1.0))]
    )


def test_joined_mask_serves_once_and_its_parts_are_taken(parties):
    places = {0: [0], 1: [0]}
    stack = {k: encrypt(parties, [7 + k], [0]) for k in places}
    shares, masks = open_stack(parties, stack, places)
    joined = Mask.join(masks)
    for mask in masks.values():
        with pytest.raises(EngineError, match="serves once"):
            mask.take_integers()
    with pytest.raises(EngineError, match="serves once"):
        Mask.join(masks)
    degree = parties.parameters.ring_dim
    moved = [Rearrangement([Move([0, degree], [4, 5])], scale=1.0)]
    replies = parties.opener.reopen([(Share.join(shares), each) for each in moved])
    (fresh,) = parties.ring.reopen(joined, replies, rearrangements=moved)
    assert worst(parties.read(fresh, [4, 5]), [7, 8]) <= fresh.error_bound
    with pytest.raises(EngineError, match="serves once"):
        parties.ring.reopen(joined, replies, rearrangements=moved)


def test_one_mask_is_not_joined_with_itself(parties):
    _, mask = parties.ring.open(encrypt(parties, [1], [0]), places=[0])
    with pytest.raises(EngineError, match="serves once"):
        Mask.join({0: mask, 1: mask})


def test_openings_of_other_scales_primes_or_rings_are_not_joined_and_masks_stay(parties, backend):
    stack = {
        "first": encrypt(parties, [1], [0]),
        "scaled": encrypt(parties, [1], [0], scale=1.5),
        "spent": encrypt(parties, [1], [0], primes=1, peak=2.0**40),
    }
    shares, masks = open_stack(parties, stack, {key: [0] for key in stack})
    other = make_parties(backend, 10)
    opening, masks["elsewhere"] = other.ring.open(encrypt(other, [1], [0]), places=[0])
    shares["elsewhere"] = other.opener.receive(opening, places=[0])
    stranger = make_keys(parties.parameters, backend=backend)
    foreign = Ring(stranger.public)
    made = foreign.encrypt([1], places=[0], scale=1.0, peak=2.0, primes=2)
    _, masks["foreign"] = foreign.open(made, places=[0])
    for name, reason in (
        ("scaled", "keys or scales"),
        ("foreign", "keys or scales"),
        ("elsewhere", "keys or scales"),
        ("spent", "other primes"),
    ):
        with pytest.raises(EngineError, match=reason):
            Mask.join({0: masks["first"], 1: masks[name]})
    for name in ("spent", "elsewhere"):
        with pytest.raises(EngineError, match="several rings, or with other primes"):
            Share.join({0: shares["first"], 1: shares[name]})
    with pytest.raises(InvalidInput, match="at least one"):
        Share.join({})
    for name, mask in masks.items():  # none of them was spent
        assert len(mask.take_integers()) == 1, name


def test_joined_mask_counts_as_the_largest_of_its_parts(parties):
    peaks, places = {0: 2.0**70, 1: 2.0**80}, {0: np.arange(3), 1: np.arange(5)}
    stack = {k: encrypt(parties, [1] * len(p), p, peak=peaks[k]) for k, p in places.items()}
    stack[0] = parties.ring.sum([stack[0]] * 4)  # noisier
    _, masks = open_stack(parties, stack, places)
    parts = [mask.carried for mask in masks.values()]
    joined = Mask.join(masks).carried
    assert joined.bound.peak == 2.0**80
    assert joined.bound.count == sum(part.bound.count for part in parts)
    assert joined.bound.norm == pytest.approx(math.hypot(*(part.bound.norm for part in parts)))
    assert joined.noise == parts[0].noise > parts[1].noise
    assert joined.scale == 1.0


def test_joined_secrets_are_not_printed(parties):
    places = {0: [0], 1: [0]}
    stack = {k: encrypt(parties, [7 + k], [0]) for k in places}
    shares, masks = open_stack(parties, stack, places)
    share, mask = Share.join(shares), Mask.join(masks)
    assert repr(share) == "Share(primes=2, count=2)"
    assert repr(mask) == "Mask(primes=2, count=2)"


# -- noise of the opener on some of the rearrangements


def test_noise_counts_for_the_rearrangements_that_have_it(parties):
    values, places, deviation = np.arange(40) * 2**40, np.arange(40), 2.0**45
    opening, mask = parties.ring.open(encrypt(parties, values, places), places=places)
    share = parties.opener.receive(opening, places=places)
    noisy = parties.opener.add_noise(share, deviation=deviation)
    moves = [Rearrangement([Move(places, places + start)], scale=1.0) for start in (0, 50)]
    replies = [
        *parties.opener.reopen([(share, each) for each in moves[:1]]),
        *parties.opener.reopen([(noisy, each) for each in moves[1:]]),
    ]
    exact, spread = parties.ring.reopen(mask, replies, rearrangements=moves, added=[0.0, deviation])
    assert worst(parties.read(exact, places), values) <= exact.error_bound < 2.0**20
    off = worst(parties.read(spread, places + 50), values)
    assert deviation < off <= spread.error_bound < 16 * deviation
    assert exact.bound.peak < spread.bound.peak


def test_one_number_of_noise_counts_for_all_rearrangements(parties):
    moves = [Rearrangement([Move([0], [place])], scale=1.0) for place in (0, 1)]
    made = encrypt(parties, [1 << 30], [0])
    noisy = parties.reopen(made, moves, noise=2.0**40)
    assert [each.noise >= 2.0**40 for each in noisy] == [True, True]
    assert [each.noise < 2.0**20 for each in parties.reopen(made, moves)] == [True, True]


# -- products of which only some coefficients are read


def test_product_with_a_known_peak_may_go_around_elsewhere(parties):
    """What is read is right; what is not may be anything modulo the prime."""
    degree, (first, middle) = parties.parameters.ring_dim, parties.parameters.moduli[:2]
    one = scatter([1 << 59, 3 << 40], [0, 1], degree)
    two = scatter([5 << 20, 1 << 58], [0, 7], degree)
    operands = [encrypt(parties, each[:8], np.arange(8), peak=2.0**60) for each in (one, two)]
    with pytest.raises(OutOfRange):
        parties.ring.product(*operands)
    product = parties.ring.product(*operands, peak=2.0**40)
    exact = convolve(one, two)
    read, wrapped = [0, 1], [7]
    found = parties.read(product, read)
    assert worst(found, [each / middle for each in exact[read]]) <= product.error_bound
    assert product.bound.peak == 2.0**40
    assert product.error_bound < 2.0**30
    (around,) = parties.read(product, wrapped)
    true = Fraction(int(exact[7]), middle)
    assert true > first
    off = (around - true) % first
    assert min(off, first - off) <= product.error_bound + float(true) * 2.0**-50


def test_known_peak_narrows_a_bound_and_never_widens_it(parties):
    made = encrypt(parties, [1 << 30], [0], peak=2.0**32)
    plain = parties.ring.product(made, made)
    narrow = parties.ring.product(made, made, peak=2.0**10)
    wide = parties.ring.product(made, made, peak=2.0**53)
    assert narrow.bound.peak == 2.0**10 < plain.bound.peak == wide.bound.peak
    assert narrow.noise == plain.noise == wide.noise
    assert narrow.scale == plain.scale


def test_product_past_its_known_peak_of_one_prime_is_refused(parties):
    made = encrypt(parties, [1], [0], peak=2.0**60)
    with pytest.raises(OutOfRange, match="do not fit 1 prime"):
        parties.ring.product(made, made, peak=2.0**54)
