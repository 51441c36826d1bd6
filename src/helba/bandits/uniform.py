"""Uniformly random arms: the floor that learning must beat."""

from __future__ import annotations

import numpy as np

from helba.bandits.policy import Array, Policy
from helba.bandits.settings import Settings


class Uniform(Policy):
    """Plays an arm at random, learns nothing."""

    def __init__(self, settings: Settings, *, seed: int) -> None:
        super().__init__(settings)
        self.rng = np.random.default_rng(seed)

    def _choose(self, contexts: Array) -> int:
        return int(self.rng.integers(len(contexts)))

    def _learn(self, context: Array, reward: float) -> None:  # noqa: ARG002
        return  # nothing to learn

    def update_bound(self) -> float:
        """It never updates."""
        return 0.0

    def regret_bound(self) -> float:
        """Every round may cost the largest gap, 2 S L."""
        return 2.0 * self.settings.parameter_bound * self.settings.length * self.settings.horizon
