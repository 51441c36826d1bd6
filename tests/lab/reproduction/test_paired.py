from __future__ import annotations

import statistics

import pytest
from scipy import stats

from helba.lab.reproduction.paired import compare_paired
from helba.lab.reproduction.part.toy import Play


def plays(*runs: tuple[list[int], float]) -> list[Play]:
    return [
        Play(
            algorithm="helba",
            engine="plain",
            seed=seed,
            arms=arms,
            regrets=[regret] * len(arms),
            updates=[0] * len(arms),
            report={},
        )
        for seed, (arms, regret) in enumerate(runs)
    ]


TWIN = plays(([0, 1, 1], 2.0), ([1, 1, 1], 3.0), ([0, 0, 0], 5.0), ([0, 1, 0], 7.0))


def test_same_arms_in_every_round_are_said_to_be_the_same():
    found = compare_paired(TWIN, TWIN)
    assert (found.count, found.different, found.rounds_different) == (4, 0, 0)
    assert (found.mean, found.error, found.largest) == (0.0, 0.0, 0.0)
    assert (found.t_test, found.wilcoxon, found.margin) == (None, None, None)
    # four draws that agree say little: a share of one half would show with 15 in 16
    assert 0.5 < found.share_below < 0.55
    assert (1.0 - found.share_below) ** 4 == pytest.approx(0.05)
    assert "the same arms in every round of all 4 repetitions" in found.describe()
    assert "fewer than 53% of draws differ" in found.describe()


def test_disagreement_is_counted_and_tested():
    other = plays(([0, 1, 1], 2.0), ([0, 0, 1], 3.5), ([0, 0, 0], 5.0), ([1, 1, 0], 6.8))
    found = compare_paired(other, TWIN)
    differences = [0.0, 0.5, 0.0, -0.2]
    assert (found.different, found.rounds_different) == (2, 3)
    assert found.mean == pytest.approx(statistics.fmean(differences))
    assert found.largest == 0.5
    assert found.t_test == pytest.approx(stats.ttest_1samp(differences, 0.0).pvalue)
    assert found.wilcoxon == pytest.approx(stats.wilcoxon([0.5, -0.2]).pvalue)
    interval = stats.t.interval(0.9, 3, loc=found.mean, scale=found.error)
    assert found.margin == pytest.approx(max(map(abs, interval)))
    assert "other arms in 3 rounds of 2 of 4 repetitions" in found.describe()
    assert "no difference of the means found" in found.describe()


def test_means_that_differ_are_said_to_differ():
    worse = plays(([1, 1, 1], 4.0), ([0, 1, 1], 5.1), ([1, 0, 0], 6.9), ([1, 1, 0], 9.0))
    assert "the means differ" in compare_paired(worse, TWIN).describe()
    shifted = plays(*(([1, 1, 1], play.regret + 1.0) for play in TWIN))
    found = compare_paired(shifted, TWIN)
    assert (found.t_test, found.margin) == (None, None)  # they do not vary: no test applies
    assert "largest difference of regret 1" in found.describe()


def test_other_arms_of_equal_means_leave_regret_equal():
    found = compare_paired(plays(([1, 1, 1], 2.0)), TWIN)
    assert found.equal
    assert found.describe() == "other arms in 1 rounds of 1 of 1 repetitions, at the same regret"


def test_one_repetition_is_compared_without_a_test():
    found = compare_paired(plays(([1, 1, 1], 2.5)), TWIN)
    assert (found.error, found.t_test, found.margin) == (None, None, None)
    assert "largest difference of regret 0.5" in found.describe()


def test_plays_are_paired_by_seed():
    found = compare_paired(TWIN[2:][::-1], TWIN)
    assert (found.count, found.largest) == (2, 0.0)
    with pytest.raises(ValueError, match="nothing to compare"):
        compare_paired([], TWIN)
