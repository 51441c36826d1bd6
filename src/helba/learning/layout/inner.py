"""Scores of all arms, of several users side by side, by one product of polynomials."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput, require_whole
from helba.learning.layout.arrangement import MOST_COEFFICIENTS, Arrangement, require_ring_dim

# Guards against mistaken arguments, far above any plan.
MOST_ARMS = 1 << 16
MOST_LANES = 1 << 16
MOST_NUMBERS = 1 << 28


def count_quadratic_features(dim: int) -> int:
    """Return the features of a context x with a quadratic bonus: x_i, and x_i x_j for i <= j.

    That is d + d (d + 1) / 2, so that x^T w + x^T A x is one inner product.
    """
    require_whole("dim", dim, least=1, most=MOST_COEFFICIENTS)
    return dim + dim * (dim + 1) // 2


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
        require_ring_dim(self.ring_dim)
        require_whole("features", self.features, least=1, most=self.ring_dim)
        require_whole("arms", self.arms, least=1, most=MOST_ARMS)
        require_whole("lanes", self.lanes, least=1, most=MOST_LANES)
        if self.lanes * self.arms * self.features > MOST_NUMBERS:
            found = f"{self.lanes} lanes of {self.arms} x {self.features} numbers"
            raise InvalidInput("lanes", found, f"at most {MOST_NUMBERS} numbers in all")

    @property
    def capacity(self) -> int:
        """Lanes that one polynomial holds: N // (K F), or 0 where a lane needs several."""
        return self.ring_dim // (self.arms * self.features)

    @property
    def arms_per_polynomial(self) -> int:
        """Arms of one lane that stand in one polynomial."""
        return min(self.arms, self.ring_dim // self.features)

    @property
    def polynomials_per_lane(self) -> int:
        """Polynomials over which the arms of one lane are spread; 1 where K F <= N."""
        return -(-self.arms // self.arms_per_polynomial)

    @property
    def polynomials(self) -> int:
        """Polynomials of features, and of scores."""
        if self.capacity:
            return -(-self.lanes // self.capacity)
        return self.lanes * self.polynomials_per_lane

    @property
    def product_count(self) -> int:
        """Coefficients of a product that may be nonzero: scores, and sums that nobody reads."""
        return min(self.ring_dim, self.feature_places.count + self.features - 1)

    @property
    def _blocks(self) -> NDArray[np.intp]:
        """First coefficient of each arm's block, of shape (lanes, arms)."""
        lane, arm = np.indices((self.lanes, self.arms), dtype=np.intp)
        if self.capacity:
            polynomial, lane = np.divmod(lane, self.capacity)
            block = lane * self.arms + arm
        else:
            part, block = np.divmod(arm, self.arms_per_polynomial)
            polynomial = lane * self.polynomials_per_lane + part
        first: NDArray[np.intp] = polynomial * self.ring_dim + block * self.features
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
