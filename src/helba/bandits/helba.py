"""HELBA on plain data: the twin of the encrypted algorithm, with the same approximations.

`HelbaTwin` holds what both profiles share: the statistics, the schedule, the batches, and beside
every choice that of *exact* HELBA, the same algorithm on the same history with an exact inverse,
root and argmax. A subclass supplies the numerics of one profile.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass

import numpy as np

from helba.bandits.bounds import growth_bound, switch_bound
from helba.bandits.policy import Array, Decision, Policy
from helba.bandits.ridge import quadratic_forms, solve_ridge
from helba.bandits.schedule import UpdateSchedule
from helba.bandits.settings import Settings
from helba.errors import RunFailed

# A residual past this says that double precision has lost the inverse. A cold start may stop at a
# residual near 1 by its own choice of eps_j, so the limit is loose.
MOST_RESIDUAL = 0.9


@dataclass(frozen=True, kw_only=True)
class Model:
    """The model of a batch; everything in it is fixed until the next update.

    `inverse` and `estimate` are the approximate ones, `exact_...` those of exact HELBA. `residual`
    bounds ||V^(1/2) A V^(1/2) - I|| and `estimate_error` bounds ||w - V^-1 g||_V. `start` is t_j.
    """

    start: int
    samples: int
    inverse: Array
    estimate: Array
    residual: float
    estimate_error: float
    exact_inverse: Array
    exact_estimate: Array


@dataclass(frozen=True, kw_only=True)
class Choice:
    """An arm with the exact index of every arm, and the certified tolerance of the choice."""

    arm: int
    exact_index: Array
    tolerance: float


class HelbaTwin(Policy):
    """Statistics, batches and bookkeeping of HELBA.

    `exact_index` is that of the arms of the last choice. `lag` rounds pass before a test's bit
    arrives, and the test may be wrong within `band` of C. `worst_residual` and
    `worst_estimate_error` are the largest certified so far. `overflows` counts rounds whose scores
    left the range that the radius promises: on ciphertexts the user would get no answer in such a
    round; here the true spread stands in for the range.
    """

    lag = 0
    band = 0.0

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        d, ridge = settings.dim, settings.ridge
        self.design: Array = ridge * np.eye(d)
        self.response: Array = np.zeros(d)
        self.samples = 0
        self.exact_index: Array = np.zeros(0)
        self.trace = 0.0
        self.worst_residual = 0.0
        self.worst_estimate_error = 0.0
        self.schedule = UpdateSchedule(settings, lag=self.lag, band=self.band)
        identity: Array = np.eye(d) / ridge
        self.model = Model(
            start=1,
            samples=0,
            inverse=identity,
            estimate=np.zeros(d),
            residual=0.0,
            estimate_error=0.0,
            exact_inverse=identity,
            exact_estimate=np.zeros(d),
        )

    @property
    def now(self) -> int:
        """The round, counted from 1; history may be learned before the first choice."""
        return max(1, self.round)

    def _choose(self, contexts: Array) -> int:
        if len(contexts) == 1:
            self.decision = None
            return 0
        choice = self._decide(contexts)
        index = choice.exact_index
        best = int(np.argmax(index))
        self.exact_index = index
        self.decision = Decision(
            arm=choice.arm,
            exact_arm=best,
            gap=float(index[best] - np.partition(index, -2)[-2]),
            loss=float(index[best] - index[choice.arm]),
            tolerance=choice.tolerance,
        )
        return choice.arm

    def _learn(self, context: Array, reward: float) -> None:
        self.samples += 1
        self.design += context[:, None] * context
        self.response += reward * context
        self.trace += float(context @ self.model.inverse @ context)
        if self.schedule.due(round=self.now, passed=self._trace_passed()):
            self.model = self._recompute()
            self.schedule.restart(round=self.now)
            self.trace = 0.0
            self.updates += 1

    @abstractmethod
    def _decide(self, contexts: Array) -> Choice:
        """Choose among at least two contexts."""

    @abstractmethod
    def _trace_passed(self) -> bool:
        """The bit of the update test for the statistics received so far."""

    @abstractmethod
    def _recompute(self) -> Model:
        """The model of all statistics received so far."""

    def extend(self, horizon: int) -> None:
        """Go on with a longer horizon, with what was learned so far."""
        super().extend(horizon)
        self.schedule.horizon = horizon

    def update_bound(self) -> float:
        """Return the bound by the trace rule, if it is asked for, and by the growth rule."""
        if self.settings.schedule == "public":
            return growth_bound(self.settings)
        return growth_bound(self.settings) + switch_bound(
            self.settings, band=self.band, residual=self._excess()
        )

    def _excess(self) -> float:
        """The largest e so far with A <= (1 + e) V^-1."""
        return self.worst_residual

    def _quadratic_index(self, contexts: Array, *, gamma: float) -> tuple[Array, Array, float]:
        """Index, exact index, and how far they may differ: xi ||x||_{V^-1} + gamma e ||x||^2/2."""
        model = self.model
        true = quadratic_forms(contexts, matrix=model.exact_inverse)
        z = quadratic_forms(contexts, matrix=model.inverse)
        index = contexts @ model.estimate + gamma / 2.0 * z
        exact = contexts @ model.exact_estimate + gamma / 2.0 * true
        widest = float(true.max())
        error = model.estimate_error * math.sqrt(widest) + gamma / 2.0 * model.residual * widest
        return index, exact, error

    def _adopt(self, *, inverse: Array, estimate: Array, residual: float, drift: float) -> Model:
        """The model of all statistics so far, unless double precision has lost it."""
        if not residual < MOST_RESIDUAL:
            text = f"the inverse is lost in rounding (residual {residual:.2g}): raise the ridge"
            raise RunFailed(text)
        self.worst_residual = max(self.worst_residual, residual)
        self.worst_estimate_error = max(self.worst_estimate_error, drift)
        exact_inverse, exact_estimate = solve_ridge(self.design, response=self.response)
        return Model(
            start=self.now,
            samples=self.samples,
            inverse=inverse,
            estimate=estimate,
            residual=residual,
            estimate_error=drift,
            exact_inverse=exact_inverse,
            exact_estimate=exact_estimate,
        )
