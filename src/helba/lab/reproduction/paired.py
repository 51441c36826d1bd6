"""Two ways of playing the same draws: are they the same?

The regret of repetition r depends on its draw far more than on who plays, so the differences within
repetitions are tested, not the means. A test that finds nothing proves no equality: `margin` says
which difference of the means the data rule out.
"""

from __future__ import annotations

import math
import statistics
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from helba.lab.reproduction.part.toy import Play

LEVEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Differences of regret, the first way minus the second, over `count` repetitions.

    In `different` repetitions the two played other arms in some round, in `rounds_different` rounds
    altogether. `error` is the standard error of the `mean`. `t_test` and `wilcoxon` are two-sided
    p-values. The mean difference is shown to be within `margin` of 0 by two one-sided tests at 5 %.
    All three are None where the differences do not vary: then no test says anything, and
    `share_below` bounds the share of draws that differ at all.
    """

    count: int
    different: int
    rounds_different: int
    mean: float
    error: float | None
    largest: float
    t_test: float | None
    wilcoxon: float | None
    margin: float | None

    @property
    def share_below(self) -> float:
        """At 95 %, fewer draws than this differ, if none of these repetitions did."""
        return float(1.0 - LEVEL ** (1.0 / self.count))

    @property
    def equal(self) -> bool:
        """True if every repetition had exactly the same regret."""
        return self.largest == 0.0

    def describe(self) -> str:
        """Return what the numbers say, as one sentence."""
        if self.different == 0 and self.equal:
            if self.count == 1:
                return "the same arms in every round of the one repetition"
            return (
                f"the same arms in every round of all {self.count} repetitions, so that at 95 % "
                f"fewer than {self.share_below:.0%} of draws differ at all"
            )
        arms = (
            f"other arms in {self.rounds_different} rounds of {self.different} of {self.count} "
            "repetitions"
        )
        if self.equal:
            return f"{arms}, at the same regret"
        if self.t_test is None or self.margin is None:
            return f"{arms}; largest difference of regret {self.largest:.3g}"
        found = "no difference of the means found" if self.t_test >= LEVEL else "the means differ"
        return (
            f"{arms}; {found} (paired t-test p = {self.t_test:.2g}), and a difference beyond "
            f"{self.margin:.3g} is ruled out at 5 %"
        )


def compare_paired(first: Sequence[Play], second: Sequence[Play]) -> Paired:
    """Compare the plays of the same seeds; plays of `second` without a partner are left out."""
    partners = {play.seed: play for play in second}
    pairs = [(play, partners[play.seed]) for play in first]
    if not pairs:
        raise ValueError("nothing to compare")
    differences = [one.regret - other.regret for one, other in pairs]
    changed = [
        sum(a != b for a, b in zip(one.arms, other.arms, strict=True)) for one, other in pairs
    ]
    mean = statistics.fmean(differences)
    count = len(pairs)
    error = statistics.stdev(differences) / count**0.5 if count > 1 else None
    return Paired(
        count=count,
        different=sum(rounds > 0 for rounds in changed),
        rounds_different=sum(changed),
        mean=mean,
        error=error,
        largest=max(map(abs, differences)),
        t_test=_t_test(mean, error, count) if error else None,
        wilcoxon=_wilcoxon(differences),
        margin=_margin(mean, error, count) if error else None,
    )


def _t_test(mean: float, error: float, count: int) -> float:
    from scipy import stats

    return float(2.0 * stats.t.sf(abs(mean / error), count - 1))


def _margin(mean: float, error: float, count: int) -> float:
    """The least m for which both one-sided tests of |mean| < m succeed."""
    from scipy import stats

    return abs(mean) + error * float(stats.t.ppf(1.0 - LEVEL, count - 1))


def _wilcoxon(differences: Sequence[float]) -> float | None:
    from scipy import stats

    changed = [value for value in differences if value != 0.0]
    if not changed:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few differences: the p-value is large and true
        value = float(stats.wilcoxon(changed).pvalue)
    return value if math.isfinite(value) else None
