"""One contract: both backends do the same, and refuse the same."""

from __future__ import annotations

import copy
import os
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import (
    EngineError,
    InvalidInput,
    LevelsExhausted,
    MissingKey,
    OutOfRange,
    WrongVector,
)
from helba.ring import Move, Rearrangement, Ring, insecure_parameters
from helba.ring.secret import Opener, make_keys, make_reencryption_key
from helba.ring.sharing.pad import draw_seed, expand_pad, split
from helba.ring.wire import dump_ciphertext, load_ciphertext
from tests.ring.parties import (
    AUTOMORPHISM,
    around_zero,
    convolve,
    make_parties,
    scatter,
    worst,
)

PEAK = 2.0**40


def draw(rng, count, bits=40):
    return rng.integers(-(2**bits), 2**bits + 1, count)


def encrypt(parties, values, places, *, primes=3, peak=PEAK, scale=1.0):
    return parties.ring.encrypt(values, places=places, scale=scale, peak=peak, primes=primes)


def dump(parties, ciphertext):
    return dump_ciphertext(ciphertext, backend=parties.keys.public.backend)


@pytest.mark.parametrize("primes", [1, 2, 3])
def test_encryption_holds_integers_within_its_error(parties, primes):
    values = draw(np.random.default_rng(primes), parties.parameters.ring_dim)
    made = encrypt(parties, values, parties.everywhere, primes=primes)
    assert made.primes == primes
    assert worst(parties.read(made, parties.everywhere), values) <= made.error_bound


def test_encryption_carries_integers_past_doubles_exactly(parties):
    values = np.array([(1 << 100) + 1, -(1 << 99) - 3, 5], dtype=object)
    made = encrypt(parties, values, [1, 2, 3], peak=2.0**101)
    assert worst(parties.read(made, [1, 2, 3]), values) <= made.error_bound
    assert worst(parties.read(made, [0, 4]), [0, 0]) <= made.error_bound


@pytest.mark.parametrize("primes", [2, 3])
@given(seed=st.integers(0, 2**32), count=st.integers(1, 40))
@settings(max_examples=10)
def test_product_is_the_convolution_within_its_error(backend, primes, seed, count):
    parties = make_parties(backend)
    degree, rng = parties.parameters.ring_dim, np.random.default_rng(seed)
    places = rng.choice(degree, count, replace=False)
    first, second = draw(rng, count), draw(rng, degree)
    product = parties.ring.product(
        encrypt(parties, first, places, primes=primes),
        encrypt(parties, second, parties.everywhere, primes=primes),
    )
    prime = parties.parameters.moduli[primes - 1]
    exact = convolve(scatter(first, places, degree), second)
    assert product.primes == primes - 1
    assert product.scale == pytest.approx(1 / prime)
    found = parties.read(product, parties.everywhere)
    assert worst(found, [each / prime for each in exact]) <= product.error_bound
    assert max(abs(each) / prime for each in exact) <= product.bound.peak


def test_sum_negation_and_public_numbers_add_up(parties):
    rng, places = np.random.default_rng(3), np.arange(10)
    one, two, three = (draw(rng, 10) for _ in range(3))
    total = parties.ring.sum([encrypt(parties, each, places) for each in (one, two)])
    total = parties.ring.sum(
        [total, parties.ring.negate(encrypt(parties, three, places, primes=2))]
    )
    assert total.primes == 2
    total = parties.ring.add_values(total, [1 << 70], places=[4])
    first = encrypt(parties, one, places)
    parties.ring.sum([first, first, first])
    assert worst(parties.read(first, places), one) <= first.error_bound  # it is as it was
    exact = (one + two - three).astype(object)
    exact[4] += 1 << 70
    assert worst(parties.read(total, places), exact) <= total.error_bound
    assert total.bound.peak >= max(abs(int(each)) for each in exact)


def test_sums_that_outgrow_words_are_exact(parties):
    value, one = 2**62 + 2**61, [0, 1]
    made = encrypt(parties, [value, -value], one, peak=2.0**63)
    for each in (made, load_ciphertext(dump(parties, made), public_key=parties.keys.public)):
        total = parties.ring.sum([each, each, each])
        assert worst(parties.read(total, one), [3 * value, -3 * value]) <= total.error_bound


@pytest.mark.parametrize("primes", [1, 2, 3])
def test_automorphism_moves_coefficients_and_changes_signs(parties, primes):
    degree, rng = parties.parameters.ring_dim, np.random.default_rng(4)
    values = draw(rng, degree)
    turned = parties.ring.automorphism(encrypt(parties, values, parties.everywhere, primes=primes))
    exact = np.zeros(degree, dtype=object)
    for place, value in enumerate(values):
        power = place * AUTOMORPHISM % (2 * degree)
        exact[power % degree] = int(value) if power < degree else -int(value)
    assert worst(parties.read(turned, parties.everywhere), exact) <= turned.error_bound


@pytest.mark.parametrize("to_user", [False, True])
def test_opening_gives_shares_of_the_value_modulo_a_power_of_two(parties, to_user):
    values, bits = draw(np.random.default_rng(6), 30, bits=50), 45
    made = encrypt(parties, values, np.arange(30), primes=1, peak=2.0**50)
    to = parties.to_user if to_user else None
    places, first = np.arange(30), parties.parameters.moduli[0]
    opening, mask = parties.ring.open(made, places=places, to=to)
    share = (parties.user if to_user else parties.opener).receive(opening, places=places)
    error = mask.error(bits=bits)  # encryption, the fresh zero, a change of keys
    found = around_zero(share.modulo(bits=bits), mask.take_modulo(bits=bits), bits=bits)
    exact = [int(each) * (1 << bits) / first for each in values]
    assert worst(found, exact) <= error
    assert mask.error(bits=bits, added=2.0**30) > 1e3 * error


def test_reopening_rearranges_scales_and_brings_all_primes_back(parties):
    degree, rng = parties.parameters.ring_dim, np.random.default_rng(7)
    values = draw(rng, 12, bits=60).astype(object) * 2**20
    made = encrypt(parties, values, np.arange(12), primes=2, peak=2.0**80, scale=8.0)
    straight = Rearrangement(
        [Move(np.arange(12), degree - 1 - np.arange(12), factor=0.37)], scale=3.0
    )
    summed = Rearrangement(
        [
            Move(np.arange(6), np.arange(6), factor=0.5),
            Move(np.arange(6, 12), np.arange(6), factor=0.25),
        ],
        scale=5.0,
    )
    one, two = parties.reopen(made, [straight, summed])
    assert (one.primes, two.primes) == (3, 3)
    assert (one.scale, two.scale) == (3.0, 5.0)
    exact = [int(each) * 0.37 for each in values]
    scale_slack = 2.0**80 * 2.0**-52  # the oracle's own doubles
    assert worst(parties.read(one, degree - 1 - np.arange(12)), exact) <= (
        one.error_bound + scale_slack
    )
    exact = [int(a) / 2 + int(b) / 4 for a, b in zip(values[:6], values[6:], strict=True)]
    assert worst(parties.read(two, np.arange(6)), exact) <= two.error_bound + scale_slack
    assert worst(parties.read(one, np.arange(12, 20)), [0] * 8) <= one.error_bound
    assert 0 < one.failure < 2.0**-10


def test_reopening_on_the_grid_gives_exact_multiples(parties):
    values, multiple = draw(np.random.default_rng(8), 50), 1 << 30
    made = encrypt(parties, values, np.arange(50), primes=2)
    grid = Rearrangement(
        [Move(np.arange(50), np.arange(50), factor=2.0**-20, multiple=multiple)], scale=1.0
    )
    (fresh,) = parties.reopen(made, [grid])
    found = parties.read(fresh, np.arange(50))
    rounded = [round(int(each) / multiple) for each in found]
    assert worst(found, [each * multiple for each in rounded]) <= fresh.error_bound
    assert fresh.error_bound < multiple / 2
    # each share is rounded: one unit, and CKKS's error on top of it
    assert worst(rounded, [int(each) / 2**20 for each in values]) <= 1.1


def test_noise_of_the_opener_comes_on_top(parties):
    count, deviation = 200, 2.0**30
    made = encrypt(parties, np.zeros(count, dtype=int), np.arange(count), primes=2)
    move = Rearrangement([Move(np.arange(count), np.arange(count))], scale=1.0)
    (fresh,) = parties.reopen(made, [move], noise=deviation)
    found = parties.read(fresh, np.arange(count)).astype(float)
    # the spread of 200 Gaussians is within a third of its mean but for 1e-10
    assert 0.67 < found.std() / deviation < 1.33
    # the server counts it, off the grid as an error and on the grid as part of the message
    assert np.abs(found).max() <= fresh.error_bound
    grid = Rearrangement([Move(np.arange(count), np.arange(count), multiple=8)], scale=1.0)
    (fresh,) = parties.reopen(made, [grid], noise=deviation)
    found = parties.read(fresh, np.arange(count)).astype(float)
    assert 1e9 < np.abs(found).max() <= fresh.bound.peak
    assert fresh.error_bound < 1e5


def test_inputs_as_shares_become_a_ciphertext_of_the_inputs(parties):
    values, multiple = draw(np.random.default_rng(9), 60, bits=20), 1 << 31
    places = np.arange(60) * 3
    for primes in (2, 3):
        seed = draw_seed()
        share = split(values, seed=seed, context=b"ask")
        pads = expand_pad(seed, count=60, context=b"ask")
        (encrypted,) = parties.opener.encrypt_pads(
            [(pads, places)], multiple=multiple, scale=2.0**31, primes=primes
        )
        made = parties.ring.add_shares(
            encrypted, share, places=places, multiple=multiple, peak=2.0**20
        )
        assert made.primes == primes
        exact = values.astype(object) * multiple
        assert worst(parties.read(made, places), exact) <= made.error_bound
        assert made.bound.peak == 2.0**51
        product = parties.ring.product(made, encrypt(parties, [5], [0], peak=8.0))
        prime = parties.parameters.moduli[primes - 1]
        found = parties.read(product, places)
        assert worst(found, [5 * each / prime for each in exact]) <= product.error_bound


# -- what is refused


def test_levels_that_are_spent_are_refused(parties):
    low = encrypt(parties, [1], [0], primes=1)
    with pytest.raises(LevelsExhausted, match="needs 2 primes, got a ciphertext with 1 prime"):
        parties.ring.product(low, low)
    with pytest.raises(LevelsExhausted, match="expected 2 primes, got a ciphertext with 1 prime"):
        parties.ring.drop(low, primes=2)


def test_message_that_may_wrap_around_is_refused(parties):
    with pytest.raises(OutOfRange, match="do not fit 1 prime,"):
        encrypt(parties, [1], [0], primes=1, peak=2.0**54)
    high = encrypt(parties, [1], [0], primes=2, peak=2.0**60)
    with pytest.raises(OutOfRange):
        parties.ring.product(high, high)
    with pytest.raises(OutOfRange):
        parties.ring.drop(high, primes=1)


@pytest.mark.parametrize("primes", [0, 4, -1, 1.5])
def test_numbers_of_primes_that_no_ciphertext_has_are_refused(parties, primes):
    with pytest.raises(InvalidInput, match="primes"):
        encrypt(parties, [1], [0], primes=primes)
    with pytest.raises(InvalidInput, match="primes"):
        parties.opener.encrypt_pads([([1], [0])], multiple=1, scale=1.0, primes=primes)
    with pytest.raises(InvalidInput, match="primes"):
        parties.ring.drop(encrypt(parties, [1], [0]), primes=primes)


def test_replies_that_are_no_shares_are_refused_and_the_mask_is_not_spent(parties):
    made = encrypt(parties, [5, 6], [0, 1], primes=2)
    moved = [Rearrangement([Move([0, 1], [3, 4])], scale=1.0)]
    opening, mask = parties.ring.open(made, places=[0, 1])
    share = parties.opener.receive(opening, places=[0, 1])
    plain = encrypt(parties, [1, 2], [3, 4])
    (fewer,) = parties.opener.reopen([(share, Rearrangement([Move([0], [3])], scale=1.0))])
    for wrong in (plain, fewer):
        with pytest.raises(WrongVector, match="encryption of 2 shares"):
            parties.ring.reopen(mask, [wrong], rearrangements=moved)
    replies = parties.opener.reopen([(share, each) for each in moved])
    (fresh,) = parties.ring.reopen(mask, replies, rearrangements=moved)
    assert worst(parties.read(fresh, [3, 4]), [5, 6]) <= fresh.error_bound


def test_numbers_that_would_go_around_the_modulus_of_shares_are_refused(parties):
    """Shares know two primes: three primes of the result do not help."""
    made = encrypt(parties, [3 << 80], [0], primes=2, peak=2.0**82)
    opening, mask = parties.ring.open(made, places=[0])
    share = parties.opener.receive(opening, places=[0])
    larger = [Rearrangement([Move([0], [0], factor=2.0**30)], scale=1.0)]
    replies = parties.opener.reopen([(share, each) for each in larger])
    with pytest.raises(OutOfRange, match="do not fit 2 primes"):
        parties.ring.reopen(mask, replies, rearrangements=larger)
    (pads,) = parties.opener.encrypt_pads([([5], [0])], multiple=1 << 60, scale=1.0)
    with pytest.raises(OutOfRange, match="do not fit 2 primes"):
        parties.ring.add_shares(pads, [7], places=[0], multiple=1 << 60, peak=2.0**52)


def test_numbers_near_half_the_modulus_of_shares_are_refused(parties):
    half = parties.parameters.share_modulus // 2
    for below in (0, 1 << 50, 1 << 53):
        with pytest.raises((InvalidInput, OutOfRange)):
            encrypt(parties, [1], [0], peak=float(half - below))
        with pytest.raises(InvalidInput, match="below half of the first two primes"):
            parties.ring.add_values(encrypt(parties, [1], [0]), [half - below - 1], places=[0])
    edge = int(float(half - (1 << 56)))
    made = encrypt(parties, [edge], [0], peak=float(edge))
    one = encrypt(parties, [1 << 20], [0], peak=2.0**20)
    product = parties.ring.product(made, one)
    (found,) = parties.read(product, [0])
    exact = (edge << 20) // parties.parameters.moduli[2]
    assert abs(int(found) - exact) <= product.error_bound < 2.0**70


def test_values_past_their_announced_bound_are_refused_unquoted(parties):
    with pytest.raises(InvalidInput) as caught:
        encrypt(parties, [123456789], [0], peak=1000.0)
    assert "123456789" not in str(caught.value)
    with pytest.raises(InvalidInput):  # whose size does not fit 64 bits
        encrypt(parties, np.array([-(2**63)]), [0], peak=1.0)
    with pytest.raises(InvalidInput, match="of norm 4 at most"):
        parties.ring.encrypt([3, 3], places=[0, 1], scale=1.0, peak=3.0, norm=4.0)


@pytest.mark.parametrize("places", [[], [-1], [512], [1, 1], [0.5]])
def test_places_outside_the_ring_are_refused(parties, places):
    with pytest.raises(InvalidInput, match="places"):
        encrypt(parties, [1] * len(places), places)


def test_counts_that_differ_are_refused(parties):
    made = encrypt(parties, [1, 2], [0, 1], primes=1)
    with pytest.raises(InvalidInput):
        encrypt(parties, [1], [0, 1])
    opening, _ = parties.ring.open(made, places=[0, 1])
    with pytest.raises(WrongVector, match="2 numbers, not 1"):
        parties.opener.receive(opening, places=[0])


def test_other_keys_are_refused(parties, backend):
    others = make_parties(backend, 10)
    stranger = make_keys(parties.parameters, backend=backend)
    foreign = Ring(stranger.public, evaluation_key=stranger.evaluation)
    mine = encrypt(parties, [1], [0], primes=1)
    theirs = foreign.encrypt([1], places=[0], scale=1.0, peak=4.0, primes=1)
    with pytest.raises(WrongVector, match="another key"):
        parties.ring.sum([mine, theirs])
    with pytest.raises(WrongVector, match="other parameters"):
        parties.ring.sum([mine, encrypt(others, [1], [0])])
    opening, _ = foreign.open(theirs, places=[0])
    with pytest.raises(WrongVector, match="another key"):
        parties.opener.receive(opening, places=[0])
    with pytest.raises(WrongVector):
        Ring(parties.keys.public, evaluation_key=stranger.evaluation)
    with pytest.raises(WrongVector):
        make_reencryption_key(stranger.secret, to=others.keys.public)
    with pytest.raises(WrongVector, match="does not lead"):
        foreign.open(theirs, places=[0], to=parties.to_user)


def test_missing_evaluation_keys_are_named(parties, backend):
    made = encrypt(parties, [1], [0])
    with pytest.raises(MissingKey):
        Ring(parties.keys.public).product(made, made)
    plain = make_keys(parties.parameters, backend=backend)
    ring = Ring(plain.public, evaluation_key=plain.evaluation)
    with pytest.raises(MissingKey, match="no automorphism"):
        ring.automorphism(ring.encrypt([1], places=[0], scale=1.0, peak=2.0))
    with pytest.raises(InvalidInput, match="automorphism"):
        make_keys(insecure_parameters(), backend=backend, automorphism=7)


def test_scales_that_differ_do_not_add(parties):
    one, two = (encrypt(parties, [1], [0], scale=scale) for scale in (1.0, 1.001))
    with pytest.raises(WrongVector, match="scales differ"):
        parties.ring.sum([one, two])
    assert parties.ring.sum([one, two.with_scale(1.0)]).scale == 1.0


@pytest.mark.parametrize("difference", [1e-3, 2.0**-45])
def test_scales_that_differ_a_little_do_not_add_either(parties, difference):
    one, two = (encrypt(parties, [1], [0], scale=scale) for scale in (1.0, 1.0 + difference))
    with pytest.raises(WrongVector, match="scales differ"):
        parties.ring.sum([one, two])


def test_shares_must_be_those_of_the_pads(parties):
    seed = draw_seed()
    share = split([1, 2, 3], seed=seed, context=b"")
    pads = expand_pad(seed, count=3, context=b"")
    (made,) = parties.opener.encrypt_pads([(pads, [0, 1, 2])], multiple=4, scale=4.0)
    options = {"multiple": 4, "peak": 8.0}
    for shares, places in ((share[:1], [0]), (share[:2], [0, 1, 2]), (share[:1], [0, 1, 2])):
        with pytest.raises(InvalidInput, match="one for each of the 3 pads"):
            parties.ring.add_shares(made, shares, places=places, **options)
    with pytest.raises(InvalidInput, match="a number outside"):
        parties.ring.add_shares(made, -share, places=[0, 1, 2], **options)
    full = parties.ring.add_shares(made, share, places=[0, 1, 2], **options)
    with pytest.raises(WrongVector, match="encryption of pads"):  # a second time
        parties.ring.add_shares(full, share, places=[0, 1, 2], **options)
    with pytest.raises(InvalidInput, match="multiple"):
        parties.ring.add_shares(made, share, places=[0, 1, 2], multiple=-3, peak=8.0)
    with pytest.raises(InvalidInput, match="multiple"):
        parties.opener.encrypt_pads([(pads, [0, 1, 2])], multiple=0, scale=4.0)


def test_fresh_ciphertexts_are_not_opened_whole(parties):
    with pytest.raises(EngineError, match="drop a fresh ciphertext"):
        parties.ring.open(encrypt(parties, [1], [0]), places=[0])


def test_values_with_one_prime_are_not_reopened(parties):
    opening, mask = parties.ring.open(encrypt(parties, [1], [0], primes=1), places=[0])
    share = parties.opener.receive(opening, places=[0])
    moves = [Rearrangement([Move([0], [0])], scale=1.0)]
    with pytest.raises(EngineError, match="two primes left, not 1"):
        parties.opener.reopen([(share, each) for each in moves])
    with pytest.raises(EngineError, match="two primes left, not 1"):
        parties.ring.reopen(mask, [encrypt(parties, [1], [0])], rearrangements=moves)
    mask.take_modulo(bits=40)  # it is still there


def test_rearrangements_outside_the_ring_spend_no_mask(parties):
    opening, mask = parties.ring.open(encrypt(parties, [1], [0], primes=2), places=[0])
    share = parties.opener.receive(opening, places=[0])
    outside = [Rearrangement([Move([0], [parties.parameters.ring_dim])], scale=1.0)]
    with pytest.raises(InvalidInput, match="places"):
        parties.opener.reopen([(share, each) for each in outside])
    with pytest.raises(InvalidInput, match="places"):
        parties.ring.reopen(mask, [encrypt(parties, [1], [0])], rearrangements=outside)
    inside = [Rearrangement([Move([0], [1])], scale=1.0)]
    replies = parties.opener.reopen([(share, each) for each in inside])
    parties.ring.reopen(mask, replies, rearrangements=inside)


def test_mask_that_is_asked_for_too_many_bits_is_not_spent(parties):
    _, mask = parties.ring.open(encrypt(parties, [1], [0], primes=1), places=[0])
    with pytest.raises(InvalidInput, match="bits"):
        mask.take_modulo(bits=64)
    mask.take_modulo(bits=63)


def test_shares_of_two_primes_are_not_compared(parties):
    opening, mask = parties.ring.open(encrypt(parties, [1], [0], primes=2), places=[0])
    with pytest.raises(EngineError, match="one prime left"):
        parties.opener.receive(opening, places=[0]).modulo(bits=40)
    with pytest.raises(EngineError, match="one prime left"):
        mask.take_modulo(bits=40)


# -- masks serve once


def test_mask_serves_once(parties):
    _, mask = parties.ring.open(encrypt(parties, [1], [0], primes=1), places=[0])
    mask.take_modulo(bits=40)
    with pytest.raises(EngineError, match="serves once"):
        mask.take_modulo(bits=40)
    made = encrypt(parties, [1], [0], primes=2)
    opening, mask = parties.ring.open(made, places=[0])
    move = [Rearrangement([Move([0], [0])], scale=1.0)]
    share = parties.opener.receive(opening, places=[0])
    replies = parties.opener.reopen([(share, each) for each in move])
    parties.ring.reopen(mask, replies, rearrangements=move)
    with pytest.raises(EngineError, match="serves once"):
        parties.ring.reopen(mask, replies, rearrangements=move)


def test_secrets_are_neither_printed_nor_pickled_nor_copied(parties):
    made = encrypt(parties, [1], [0], primes=1)
    opening, mask = parties.ring.open(made, places=[0])
    share = parties.opener.receive(opening, places=[0])
    for secret in (mask, share, parties.keys.secret, parties.keys.public, made):
        for copier in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                copier(secret)
    for secret in (mask, share, parties.keys.secret, parties.opener, opening, made):
        text = repr(secret)
        assert "array" not in text
        for number in (*share.integers(), *opening.masked.reshape(-1)):
            assert str(int(number)) not in text


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_mask_belongs_to_its_process():
    parties = make_parties("simulate")
    _, mask = parties.ring.open(encrypt(parties, [1], [0], primes=1), places=[0])
    child = os.fork()
    if child == 0:
        try:
            mask.take_modulo(bits=40)
        except EngineError:
            os._exit(7)
        finally:  # nothing of pytest may go on in the child
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_rearrangement_reads_only_what_is_open(parties):
    made = encrypt(parties, [1, 2], [0, 1], primes=2)
    opening, _ = parties.ring.open(made, places=[0])
    share = parties.opener.receive(opening, places=[0])
    with pytest.raises(InvalidInput, match="not open"):
        parties.opener.reopen([(share, Rearrangement([Move([1], [0])], scale=1.0))])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Move([0, 1], [2]),
        lambda: Move([0, 1], [2, 2]),
        lambda: Move([0], [1], factor=0.0),
        lambda: Move([0], [1], multiple=0),
        lambda: Move([0], [-1]),
        lambda: Move([0], [1.7]),
        lambda: Move([], []),
        lambda: Rearrangement([], scale=1.0),
    ],
)
def test_moves_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidInput):
        wrong()


def test_opener_needs_keys_of_one_ring(backend):
    with pytest.raises(WrongVector):
        Opener(make_parties(backend).keys.secret, public_key=make_parties(backend, 10).keys.public)
