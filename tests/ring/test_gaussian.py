from __future__ import annotations

import numpy as np
import pytest

from helba.errors import InvalidInput
from helba.ring.gaussian import draw_gaussian
from tests.ring.parties import make_parties


@pytest.mark.parametrize("deviation", [2.0, 1000.0, 2.0**40])
def test_draws_have_the_distribution_of_a_discrete_gaussian(deviation):
    count = 4000
    drawn = draw_gaussian(count, deviation=deviation)
    assert drawn.dtype == np.int64
    ordered = np.sort(drawn)
    # Kolmogorov and Smirnov against the exact sums of exp(-x^2/2s^2), on the integers for small
    # deviations and by the normal distribution, which is indistinguishable, for large ones
    if deviation < 100:
        support = np.arange(-60, 61)
        weights = np.exp(-(support**2) / (2 * deviation**2))
        exact = np.cumsum(weights) / weights.sum()
        empirical = np.searchsorted(ordered, support, side="right") / count
        gap = np.abs(empirical - exact).max()
    else:
        from scipy.stats import kstest

        gap = kstest(drawn / deviation, "norm").statistic
    assert gap < 2.8 / np.sqrt(count)  # false alarm 3e-7; half the deviation is off by 0.17


def test_draws_are_not_cut_off_at_small_integers():
    # OpenDP's plain `int` has 32 bits and saturates: the sampler must use 64
    drawn = draw_gaussian(200, deviation=2.0**57)
    assert np.abs(drawn).max() > 2.0**55
    assert len(np.unique(drawn)) == 200


def test_wrong_halves_of_the_deviation_would_be_seen():
    from scipy.stats import kstest

    drawn = draw_gaussian(4000, deviation=2.0**30)
    assert kstest(drawn / 2.0**31, "norm").statistic > 2.8 / np.sqrt(4000)


@pytest.mark.parametrize("deviation", [0.0, -1.0, 2.0**59, float("nan")])
def test_deviations_outside_the_sampler_are_refused(deviation):
    with pytest.raises(InvalidInput):
        draw_gaussian(3, deviation=deviation)


@pytest.mark.ckks
def test_opener_on_openfhe_adds_noise_of_the_exact_sampler(monkeypatch):
    parties, seen = make_parties("openfhe"), []

    def draw(count, *, deviation):
        seen.append(deviation)
        return np.full(count, 7, dtype=np.int64)

    monkeypatch.setattr("helba.ring.backend.draw_gaussian", draw)
    places = np.arange(4)
    told = {"places": places, "scale": 2.0**20, "peak": 8.0, "primes": 2}
    encrypted = parties.ring.encrypt(np.arange(4), **told)
    opening, _ = parties.ring.open(encrypted, places=places)
    share = parties.opener.receive(opening, places=places)
    noisy = parties.opener.add_noise(share, deviation=3.0)
    assert seen == [3.0]
    assert np.array_equal(noisy.integers() - share.integers(), [7] * 4)


def test_nothing_is_drawn_for_nobody():
    assert len(draw_gaussian(0, deviation=1.0)) == 0
