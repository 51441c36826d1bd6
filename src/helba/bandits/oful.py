"""OFUL and its rarely switching variants, on plain data (Abbasi-Yadkori et al. 2011).

The index of a context x is <theta, x> + beta ||x||_{V^-1}. OFUL recomputes (theta, V, beta) after
every round; RSOFUL when det V has grown by 1 + C; RSOFUL-Tr when Tr(V_j^-1 (V - V_j)) has reached
C, the paper's condition (trace_condition).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from helba.bandits.bounds import batch_regret_bound, switch_bound
from helba.bandits.policy import Array, Policy
from helba.bandits.radius import confidence_radius
from helba.bandits.ridge import RankOneRidge, quadratic_forms
from helba.bandits.settings import Settings


class Oful(Policy):
    """Optimism with the model of all rounds so far; prefer it where nothing is encrypted."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.model = RankOneRidge(dim=settings.dim, ridge=settings.ridge)

    def _choose(self, contexts: Array) -> int:
        radius = confidence_radius(self.settings, samples=self.model.samples)
        model = self.model
        return optimistic_arm(
            contexts, estimate=model.estimate, inverse=model.inverse, radius=radius
        )

    def _learn(self, context: Array, reward: float) -> None:
        self.model.add(context, reward)
        self.updates += 1

    def regret_bound(self) -> float | None:
        """Return the classical bound: the batched one with batches of one round; None if tuned."""
        if self.settings.radius_scale < 1.0:
            return None
        return batch_regret_bound(self.settings, trace_growth=0.0)


@dataclass(frozen=True)
class _Frozen:
    """The model that a batch plays with."""

    estimate: Array
    inverse: Array
    log_determinant: float
    radius: float


class RarelySwitchingOful(Policy):
    """RSOFUL (`rule="determinant"`) and RSOFUL-Tr (`rule="trace"`)."""

    def __init__(self, settings: Settings, *, rule: str) -> None:
        super().__init__(settings)
        self.rule = rule
        self.model = RankOneRidge(dim=settings.dim, ridge=settings.ridge)
        self.trace = 0.0
        self.frozen = self._freeze()

    def _choose(self, contexts: Array) -> int:
        frozen = self.frozen
        return optimistic_arm(
            contexts, estimate=frozen.estimate, inverse=frozen.inverse, radius=frozen.radius
        )

    def _learn(self, context: Array, reward: float) -> None:
        self.model.add(context, reward)
        self.trace += float(context @ self.frozen.inverse @ context)
        if self._due():
            self.frozen = self._freeze()
            self.trace = 0.0
            self.updates += 1

    def _due(self) -> bool:
        threshold = self.settings.trace_threshold
        if self.rule == "trace":
            return self.trace >= threshold
        grown = self.model.log_determinant - self.frozen.log_determinant
        return grown >= math.log1p(threshold)

    def _freeze(self) -> _Frozen:
        model = self.model
        radius = confidence_radius(self.settings, samples=model.samples)
        return _Frozen(model.estimate.copy(), model.inverse.copy(), model.log_determinant, radius)

    def update_bound(self) -> float:
        """Each switch multiplies the determinant by 1 + C at least, under either rule."""
        return switch_bound(self.settings)

    def regret_bound(self) -> float | None:
        """Both rules keep ||x||_{V_j^-1}^2 <= (1 + C) ||x||_{V_t^-1}^2."""
        if self.settings.radius_scale < 1.0:
            return None
        return batch_regret_bound(self.settings, trace_growth=self.settings.trace_threshold)


def optimistic_arm(contexts: Array, *, estimate: Array, inverse: Array, radius: float) -> int:
    """Return the row with the largest <theta, x> + beta ||x||_{V^-1}."""
    widths = quadratic_forms(contexts, matrix=inverse)
    return int(np.argmax(contexts @ estimate + radius * np.sqrt(widths)))
