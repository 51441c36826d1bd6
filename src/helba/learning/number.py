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
from helba.bandits.settings import Settings
from helba.errors import require_whole

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

    @classmethod
    def of(cls, settings: Settings, *, bits: int) -> Rounding:
        """Return the rounding for these settings, to `bits` bits."""
        require_whole("bits", bits, least=4, most=24)
        return cls(
            dim=settings.dim, length=settings.length, reward_max=settings.reward_max, bits=bits
        )

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
        products = contexts[:, first] * contexts[:, second]
        return np.concatenate([contexts, self._divide(products)], axis=1)

    def restore_contexts(self, integers: Whole) -> Array:
        """Return the numbers that rounded contexts stand for."""
        numbers: Array = integers.astype(np.float64) * (self.length / self.peak)
        return numbers

    def restore_reward(self, integer: int) -> float:
        """Return the number that a rounded reward stands for."""
        return integer * (self.reward_max / self.peak)

    def _divide(self, products: Whole) -> Whole:
        """Return products / 2^b, rounded half to even, in integers."""
        quotient, rest = products >> self.bits, products & (self.peak - 1)
        half = self.peak >> 1
        up = (rest > half) | ((rest == half) & (quotient & 1 == 1))
        rounded: Whole = quotient + up
        return rounded
