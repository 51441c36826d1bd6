"""Scores of all arms, of several users side by side, by one product of polynomials."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from helba.errors import require_whole
from helba.learning.layout.arrangement import Arrangement
from helba.ring.sharing.integer import Places


@dataclass(frozen=True, kw_only=True)
class InnerProducts:
    """Inner products of one model with the features of every arm of every lane.

    A lane is one user's ask. With F = `features`, K = `arms`, and blocks of F coefficients:
    model y_i stands at i; feature i of block b at b F + F-1-i; the score of block b at b F + F-1.
    Arm a of lane u is block u K + a of its polynomial. Where K F > N, a lane takes several
    polynomials of N // F arms each; the one model multiplies all of them.

    Why nothing else reaches a score: at b F + F-1 the model's coefficient i meets the coefficient
    b F + F-1-i, which is feature i of block b. Degrees reach at most N-1 + F-1, so what wraps
    ends at F-2, below the first score. So the features' polynomial may hold anything in
    coefficients outside its blocks; the model's must be zero outside 0..F-1.
    """

    ring_dim: int
    features: int
    arms: int
    lanes: int = 1

    def __post_init__(self) -> None:
        require_whole("features", self.features, least=1, most=self.ring_dim)

    @property
    def capacity(self) -> int:
        """Lanes that one polynomial holds: N // (K F), or 0 where a lane needs several."""
        return self.ring_dim // (self.arms * self.features)

    @property
    def _blocks_per_polynomial(self) -> int:
        return self.capacity * self.arms or self.ring_dim // self.features

    @property
    def _blocks_per_lane(self) -> int:
        """K, or where a lane takes several polynomials as many as these hold."""
        whole = self._blocks_per_polynomial
        return self.arms if self.capacity else -(-self.arms // whole) * whole

    @property
    def polynomials(self) -> int:
        """Polynomials of features, and of scores."""
        return -(-self.lanes * self._blocks_per_lane // self._blocks_per_polynomial)

    @property
    def _blocks(self) -> Places:
        """First coefficient of each arm's block, of shape (lanes, arms)."""
        lane, arm = np.indices((self.lanes, self.arms), dtype=np.intp)
        number = lane * self._blocks_per_lane + arm
        polynomial, block = np.divmod(number, self._blocks_per_polynomial)
        first: Places = polynomial * self.ring_dim + block * self.features
        return first

    @cached_property
    def model_places(self) -> Arrangement:
        """Places of the model: shape (features,), one polynomial."""
        return Arrangement(np.arange(self.features), ring_dim=self.ring_dim)

    @cached_property
    def feature_places(self) -> Arrangement:
        """Places of features: shape (lanes, arms, features)."""
        reversed_order = self.features - 1 - np.arange(self.features)
        places = self._blocks[:, :, None] + reversed_order
        return Arrangement(places, ring_dim=self.ring_dim, polynomials=self.polynomials)

    @cached_property
    def score_places(self) -> Arrangement:
        """Places of scores in the products with the model: shape (lanes, arms)."""
        return Arrangement(
            self._blocks + self.features - 1, ring_dim=self.ring_dim, polynomials=self.polynomials
        )
