"""The grid: opened scores are exactly the integers that numpy has, in full polynomials too."""

from __future__ import annotations

import numpy as np
import pytest

from helba.errors import InvalidInput
from helba.garbling import EvaluatorSession, GarblerSession, build_argmax, combine, read_indices
from helba.ring import Bound, choose_parameters
from helba.ring.grid import choose_grid
from tests.ring.parties import make_parties

BITS = 40


def encrypt_scores(parties, *, dim, arms, lanes, feature_bits, model_bits, rng, finer=0):
    """The encrypted scores of `lanes` users, their places, what they are exactly, and the grid."""
    features = dim + dim * (dim + 1) // 2
    count = lanes * arms
    peaks = 2.0**feature_bits, 2.0**model_bits
    bounds = [
        Bound.of(peak=peaks[0], count=count * features),
        Bound.of(peak=peaks[1], count=features),
    ]
    grid = choose_grid(
        parameters=parties.parameters,
        features=bounds[0],
        model=bounds[1],
        score_peak=features * peaks[0] * peaks[1],
        bits=BITS,
    )
    model = rng.integers(-int(peaks[1]), int(peaks[1]) + 1, features)
    asks = rng.integers(-int(peaks[0]), int(peaks[0]) + 1, (count, features))
    asks[1::5] = asks[0::5][: len(asks[1::5])]  # ties
    asks[-1] = int(peaks[0]) * np.sign(model)  # the largest score there can be
    places = np.arange(count)[:, None] * features + features - 1 - np.arange(features)
    ring = parties.ring
    a, b = grid.feature_multiple >> finer, grid.model_multiple
    asked = ring.encrypt(
        asks.astype(object).reshape(-1) * a, places=places, scale=a, peak=a * peaks[0], primes=2
    )
    held = ring.encrypt(
        model.astype(object) * b,
        places=np.arange(features),
        scale=b,
        peak=b * peaks[1],
        primes=2,
    )
    scores = ring.product(asked, held, terms=features, independent=True)
    return scores, places[:, 0], asks @ model, grid


def play_scores(parties, *, to=None, finer=0, **options):
    """Open the scores of users; return them on the grid, exactly, and what was rounded."""
    encrypted, places, exact, grid = encrypt_scores(parties, finer=finer, **options)
    low_bits = grid.low_bits - finer
    opened = parties.open(encrypted, places, bits=BITS, to=to)
    scores = (opened + (1 << (low_bits - 1))) >> low_bits
    return scores, exact, np.abs(opened - (exact << low_bits)).max(), grid


@pytest.mark.ckks
@pytest.mark.parametrize(("dim", "arms", "lanes"), [(2, 3, 546), (4, 8, 73)])
def test_garbled_argmax_of_opened_scores_is_numpys_with_ties(dim, arms, lanes):
    """From ciphertexts to arms at full security: shares of both parties, one circuit, all lanes."""
    parties = make_parties("openfhe", 13)
    encrypted, places, exact, grid = encrypt_scores(
        parties,
        dim=dim,
        arms=arms,
        lanes=lanes,
        feature_bits=9,
        model_bits=12,
        rng=np.random.default_rng(dim),
    )
    exact = exact.reshape(lanes, arms)
    best = exact == exact.max(axis=1, keepdims=True)
    assert (best.sum(axis=1) > 1).sum() >= lanes // 10  # ties of the winners
    opening, mask = parties.ring.open(encrypted, places=places)
    mine = parties.opener.receive(opening, places=places).modulo(bits=BITS)
    masks = mask.take_modulo(bits=BITS)
    garbler, evaluator = GarblerSession(), EvaluatorSession()
    garbler.complete(evaluator.answer(garbler.offer()))
    circuit = build_argmax(arms, bits=BITS, grid_bits=grid.low_bits)
    transfer = evaluator.begin(circuit, shares=mine.reshape(lanes, arms))
    garbled = garbler.garble(circuit, shares=masks.reshape(lanes, arms), transfer=transfer)
    colours = evaluator.evaluate(garbled.tables).colours
    found = read_indices(combine(garbled.decoding, colours), arms=arms)
    assert np.array_equal(found, exact.argmax(axis=1))


@pytest.mark.slow
@pytest.mark.ckks
def test_a_hundred_thousand_scores_in_full_polynomials_are_exact_at_full_security():
    parties, rng = make_parties("openfhe", 13), np.random.default_rng(0)
    done, worst = 0, 0
    while done < 100_000:
        scores, exact, rounded, grid = play_scores(
            parties, dim=2, arms=2, lanes=819, feature_bits=14, model_bits=16, rng=rng
        )
        assert np.array_equal(scores, exact)
        assert rounded <= grid.error < 1 << (grid.low_bits - 1)
        done, worst = done + len(scores), max(worst, rounded)
    assert worst >= 1  # the error is there


@pytest.mark.ckks
@pytest.mark.parametrize(("dim", "arms", "lanes"), [(5, 50, 8), (16, 16, 3), (8, 8, 23), (2, 2, 1)])
def test_scores_of_other_sizes_are_exact_at_full_security(dim, arms, lanes):
    parties, rng = make_parties("openfhe", 13), np.random.default_rng(dim)
    for to in (None, parties.to_user):
        for _ in range(3):
            scores, exact, rounded, grid = play_scores(
                parties,
                dim=dim,
                arms=arms,
                lanes=lanes,
                feature_bits=12,
                model_bits=13,
                rng=rng,
                to=to,
            )
            assert np.array_equal(scores, exact)
            assert rounded <= grid.error


@pytest.mark.ckks
@pytest.mark.parametrize("security", [192, 256])
def test_scores_are_exact_at_higher_levels(security):
    parties = make_parties("openfhe", 14, security=security)
    rng = np.random.default_rng(security)
    for to in (None, parties.to_user):
        scores, exact, rounded, grid = play_scores(
            parties, dim=2, arms=2, lanes=1638, feature_bits=14, model_bits=15, rng=rng, to=to
        )
        assert np.array_equal(scores, exact)
        assert rounded <= grid.error


def test_scores_are_exact_on_both_backends(backend):
    parties, rng = make_parties(backend), np.random.default_rng(5)
    for _ in range(20):
        scores, exact, rounded, grid = play_scores(
            parties, dim=2, arms=4, lanes=25, feature_bits=14, model_bits=15, rng=rng
        )
        assert np.array_equal(scores, exact)
        assert rounded <= grid.error


@pytest.mark.ckks
def test_fewer_low_bits_than_certified_would_be_wrong():
    parties, rng = make_parties("openfhe", 13), np.random.default_rng(6)
    scores, exact, _, grid = play_scores(
        parties, dim=2, arms=2, lanes=819, feature_bits=14, model_bits=16, rng=rng, finer=3
    )
    assert grid.low_bits == 4
    assert not np.array_equal(scores, exact)


def test_scores_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInput, match="take fewer bits"):
        choose_grid(
            parameters=choose_parameters(),
            features=Bound.of(peak=2.0**20, count=8192),
            model=Bound.of(peak=2.0**20, count=5),
            score_peak=2.0**42,
            bits=40,
        )


def test_full_polynomials_leave_thirty_five_bits_to_a_score():
    grid = choose_grid(
        parameters=choose_parameters(),
        features=Bound.of(peak=2.0**14, count=8190),
        model=Bound.of(peak=2.0**16, count=5),
        score_peak=5 * 2.0**30,
        bits=40,
    )
    assert grid.score_bits >= 35


@pytest.mark.parametrize("empty", ["features", "model"])
def test_grid_of_nothing_is_refused(empty):
    bounds = {"features": Bound.of(peak=8.0, count=5), "model": Bound.of(peak=8.0, count=5)}
    bounds[empty] = Bound.of(peak=0.0, count=5)
    with pytest.raises(InvalidInput, match=empty):
        choose_grid(parameters=choose_parameters(), score_peak=64.0, bits=40, **bounds)
