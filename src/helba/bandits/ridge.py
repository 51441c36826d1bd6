"""Ridge regression kept up to date by rank-one updates."""

from __future__ import annotations

import math

import numpy as np

from helba.bandits.policy import Array
from helba.errors import RunFailed

# Sherman-Morrison loses digits: most in the first updates, where a small ridge makes the inverse
# change by orders of magnitude, then slowly. A fresh factorisation restores them: after 1, 2, 4,
# ... updates, and every so many.
UPDATES_BETWEEN_FACTORISATIONS = 256


def solve_ridge(design: Array, *, response: Array) -> tuple[Array, Array]:
    """Return (V^-1, V^-1 g) by LAPACK: what every approximate inverse is measured against."""
    inverse = np.asarray(np.linalg.inv(design), dtype=np.float64)
    estimate = np.asarray(np.linalg.solve(design, response), dtype=np.float64)
    return (inverse + inverse.T) / 2.0, estimate


def quadratic_forms(contexts: Array, *, matrix: Array) -> Array:
    """Return x^T M x for every row x, never below 0."""
    forms: Array = np.einsum("ij,ij->i", contexts @ matrix, contexts)
    return np.maximum(forms, 0.0)


class RankOneRidge:
    """V = lambda I + sum x x^T, its inverse, and the estimate V^-1 sum r x, in O(d^2) an update.

    `log_determinant` is ln(det V / det lambda I).
    """

    def __init__(self, *, dim: int, ridge: float) -> None:
        self.ridge = ridge
        self.samples = 0
        self.design: Array = ridge * np.eye(dim)
        self.response: Array = np.zeros(dim)
        self.inverse: Array = np.eye(dim) / ridge
        self.estimate: Array = np.zeros(dim)
        self.log_determinant = 0.0

    def add(self, context: Array, reward: float) -> None:
        """Take one more observation into account."""
        self.samples += 1
        self.design += context[:, None] * context
        self.response += reward * context
        early = self.samples & (self.samples - 1) == 0
        if early or self.samples % UPDATES_BETWEEN_FACTORISATIONS == 0:
            self._factorise()
            return
        direction = self.inverse @ context
        gain = 1.0 + float(context @ direction)
        if not gain > 0.0:
            raise RunFailed("the inverse is lost in rounding: raise the ridge")
        surprise = reward - float(context @ self.estimate)
        self.inverse -= direction[:, None] * (direction / gain)
        self.estimate += direction * (surprise / gain)
        self.log_determinant += math.log(gain)

    def _factorise(self) -> None:
        self.inverse, self.estimate = solve_ridge(self.design, response=self.response)
        _, log_volume = np.linalg.slogdet(self.design)
        self.log_determinant = float(log_volume) - len(self.design) * math.log(self.ridge)
