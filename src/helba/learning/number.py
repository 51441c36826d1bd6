"""Contexts, rewards and features as integers: rounded once, and everything else follows exactly.

A context x with |x| <= L becomes round(x 2^b / L), half to even, with the b bits of the plan; a
reward becomes round(r 2^b / r_max). Both are at most 2^b in size. The features of an arm are made
from the integers of its context alone:

    x_i                      for every i
    round(x_i x_j / 2^b)     for i <= j, half to even

so that they are at most 2^b too, and every language gets the same. What rounding costs is stated by
the plan: the bandit learns from contexts that are off by L sqrt(d)/2^(b+1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from helba.bandits.policy import Array

# Contexts may pass the length bound by this, see `helba.bandits.policy`.
LENGTH_SLACK = 1e-6

Whole = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """Makes integers of the contexts and rewards of one problem."""

    dim: int
    length: float
    reward_max: float
    bits: int

    @property
    def peak(self) -> int:
        """2^b, the largest integer of a context, a reward or a feature."""
        return 1 << self.bits

    @property
    def slack(self) -> float:
        """By how much, relatively, a rounded context may be longer than L."""
        return LENGTH_SLACK + math.sqrt(self.dim) / (2 * self.peak)

    @property
    def features(self) -> int:
        """Features of an arm: d + d (d + 1)/2."""
        return self.dim + self.dim * (self.dim + 1) // 2

    def round_contexts(self, contexts: Array) -> Whole:
        """Return contexts as integers of at most 2^b, of the same shape."""
        exact = np.rint(np.asarray(contexts, dtype=np.float64) * (self.peak / self.length))
        return np.clip(exact, -self.peak, self.peak).astype(np.int64)

    def round_reward(self, reward: float) -> int:
        """Return a reward as an integer of at most 2^b."""
        exact = np.rint(reward * (self.peak / self.reward_max))
        return int(np.clip(exact, -self.peak, self.peak))

    def round_report(self, context: Array, reward: float) -> Whole:
        """Return the d + 1 integers of a report: the context's, and the reward's last."""
        return np.append(self.round_contexts(context), self.round_reward(reward))

    def make_features(self, contexts: Whole) -> Whole:
        """Return the features of rounded contexts of shape (arms, d): shape (arms, features)."""
        first, second = np.triu_indices(self.dim)
        products = contexts[:, first] * contexts[:, second]  # doubles have them exactly
        rounded = np.rint(products / self.peak).astype(np.int64)
        return np.concatenate([contexts, rounded], axis=1)
