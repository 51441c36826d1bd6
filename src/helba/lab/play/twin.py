"""The plaintext twin of a bandit on shares: the same integers, the same steps, in floating point.

It rounds contexts and rewards as users do, takes the same Newton steps with the same factors, and
puts its model on the same grid. Its scores are exact integers, so it differs from an encrypted run
only by what CKKS and the opener's noise do to the model: one unit or a few in an entry. Two scores
that are nearer than the plan's resolution are a tie, which either arm may win.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from helba.bandits.policy import Array, Decision
from helba.learning.number import Rounding, Whole
from helba.learning.plan import Batch, SharesPlan
from helba.learning.update_certificate import UpdateTerms
from helba.learning.update_plan import UpdatePlan


class GridTwin:
    """Follows an encrypted run: it learns what the run learned, and updates when the run did.

    `decide` says what it would play. `model` are the integers of its model.
    """

    def __init__(self, plan: SharesPlan) -> None:
        self.plan = plan
        d, ridge = plan.settings.dim, plan.settings.ridge
        self.design: Array = ridge * np.eye(d)
        self.response: Array = np.zeros(d)
        self.inverse: Array = np.eye(d) / ridge
        self.estimate: Array = np.zeros(d)
        self.samples = 0
        self.batch: Batch = plan.first_batch
        self.resolution = 0.0
        self.model: NDArray[np.int64] = self._round_model()

    def decide(self, contexts: Array, *, arm: int) -> Decision:
        """Return the twin's arm beside that of the run, and how far apart their scores are."""
        rounding, span = self.plan.rounding, self.plan.weigh(self.batch).span
        features = rounding.make_features(rounding.round_contexts(contexts))
        scores = features @ self.model
        best = int(np.argmax(scores))
        ordered = np.sort(scores)
        unit = span / 2.0**self.plan.score_bits
        gap = float(ordered[-1] - ordered[-2]) * unit if len(ordered) > 1 else math.inf
        return Decision(
            arm=arm,
            exact_arm=best,
            gap=gap,
            loss=float(scores[best] - scores[arm]) * unit,
            tolerance=self.resolution * span,
        )

    def learn(self, context: Array, reward: float) -> None:
        """Add a report to the sums."""
        rounding = self.plan.rounding
        row = restore_contexts(rounding, rounding.round_contexts(context))
        earned = restore_reward(rounding, rounding.round_reward(reward))
        self.samples += 1
        self.design += row[:, None] * row
        self.response += earned * row

    def follow(self, terms: UpdateTerms) -> None:
        """Make the update that the run made."""
        update = UpdatePlan(self.plan, terms)
        V, g = self.design, self.response
        X = np.eye(len(g)) / self.plan.settings.ridge if terms.cold else self.inverse
        M = V @ X
        for scale in update.warm.scales or (1.0,):
            rest = 2.0 * np.eye(len(g)) - scale * M
            X, M = scale * (X @ rest), scale * (M @ rest)
            X = (X + X.T) / 2.0
        w = X @ g
        self.inverse, self.estimate = X, w + X @ (g - V @ w)
        self.batch = update.after
        self.resolution = update.resolution
        self.model = self._round_model()

    def _round_model(self) -> NDArray[np.int64]:
        """w_i and (gamma/2) A_ij, doubled off the diagonal, in units of the grid."""
        plan, weights = self.plan, self.plan.weigh(self.batch)
        peak, length = plan.rounding.peak, plan.settings.length
        first, second = np.triu_indices(plan.settings.dim)
        twice = np.where(first == second, 1.0, 2.0)
        linear = self.estimate * (length / peak) * weights.unit
        quadratic = weights.gamma / 2.0 * self.inverse[first, second] * twice
        quadratic *= length**2 / peak * weights.unit
        units: NDArray[np.int64] = np.rint(np.concatenate([linear, quadratic])).astype(np.int64)
        return units


def restore_contexts(rounding: Rounding, integers: Whole) -> Array:
    """Return the numbers that rounded contexts stand for."""
    numbers: Array = integers.astype(np.float64) * (rounding.length / rounding.peak)
    return numbers


def restore_reward(rounding: Rounding, integer: int) -> float:
    """Return the number that a rounded reward stands for."""
    return integer * (rounding.reward_max / rounding.peak)
