"""Asks and scores as integers: their bits, whose norms are promised, and what of them is checked.

Model and features are integers, so the score is one too. A model entry is off by one unit at most,
which moves a score by the sum of the sizes of its features: a score has as many bits as bring that
below `RESOLUTION` of its range, twice, since two scores are compared.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from helba.bandits.settings import Settings
from helba.errors import InvalidInput
from helba.learning.layout import InnerProducts
from helba.learning.number import Rounding
from helba.ring import DEVIATIONS, Bound, RingParameters
from helba.ring.grid import Grid, choose_grid

RESOLUTION = 0.7e-4  # of a score's range; noise in the model takes the rest of 1e-4
SHARE_BITS_MOST = 54  # one prime has 55
COMBINATIONS = 128  # random sums of an ask that are checked where it has more numbers


def feature_sizes(dim: int) -> float:
    """Return the largest sum of the sizes of an arm's features, over 2^b."""
    return math.sqrt(dim) + (dim + 1) / 2.0


_inner = lru_cache(maxsize=64)(InnerProducts)  # with the places that were asked for


@dataclass(frozen=True, kw_only=True)
class ScorePlan:
    """The part of a plan that a grid is chosen for: features, model and scores."""

    settings: Settings
    opener: str
    parameters: RingParameters
    rounding: Rounding

    def inner(self, lanes: int) -> InnerProducts:
        """Return the places of features and scores of that many users."""
        return _inner(
            ring_dim=self.parameters.ring_dim,
            features=self.rounding.features,
            arms=self.settings.arms,
            lanes=lanes,
        )

    @property
    def lanes(self) -> int:
        """The number of users whose scores one product makes."""
        return max(1, self.inner(1).capacity) if self.opener == "authority" else 1

    @property
    def score_bits(self) -> int:
        """Bits of a score: one unit in every entry of the model is below the resolution."""
        units = 2.0 * self.rounding.peak * feature_sizes(self.settings.dim) / RESOLUTION
        return math.ceil(math.log2(units))

    @property
    def ask_norm(self) -> float:
        """A bound of the norm of one ask's integers, over 2^b.

        Users who encrypt themselves follow the protocol. Of shares only the checks of the circuit
        hold: each number alone, or `COMBINATIONS` random sums Z, modulo 2^96, against the limit B
        of `checked_bits`. Coefficients are 0 with probability 1/2, else 1 or -1.

        If some number is 2 B or more in size, then, whatever the others make, a sum is within the
        limit for its coefficient 0 or for one of 1 and -1, and not for both: each sum passes with
        probability 1/2 at most. Else nothing goes around 2^96, and E Z^2 = |v|^2/2, E Z^4 <= 3 (E
        Z^2)^2: a sum is past |v|/sqrt(8) with probability 3/16 at least (Paley and Zygmund), so
        that all of them pass with probability 2^-38 at most unless |v| is at most sqrt(8) B.
        """
        if self.opener == "users":
            return self._honest_norm
        numbers = self.settings.arms * self.rounding.features
        limit = 2.0 ** (self.checked_bits - 1 - self.rounding.bits)
        return limit * math.sqrt(numbers if numbers <= COMBINATIONS else 8.0)

    @property
    def checked_bits(self) -> int:
        """The m for which what is checked of an ask lies in [-2^(m-1), 2^(m-1)).

        That is each number, or random sums of them. A coefficient is half the sum of two signs, so
        by Hoeffding's inequality a sum of honest numbers is within 9/sqrt(2) times their norm, but
        for 2^-57, and never past the sum of their sizes.
        """
        settings, bits = self.settings, self.rounding.bits
        if settings.arms * self.rounding.features <= COMBINATIONS:
            return bits + 2
        honest = DEVIATIONS / math.sqrt(2.0) * self._honest_norm
        limit = min(honest, settings.arms * feature_sizes(settings.dim) * 1.01)
        return bits + 1 + math.ceil(math.log2(limit))

    @property
    def _honest_norm(self) -> float:
        """|x|^2 <= 2^2b, and the squares of products x_i x_j with i <= j sum up to |x|^4."""
        units = math.sqrt(self.rounding.features) / self.rounding.peak  # products are rounded
        return math.sqrt(2.0 * self.settings.arms) * ((1.0 + self.rounding.slack) ** 2 + units)

    @property
    def model_units(self) -> Bound:
        """The bound of a model's integers.

        |w| L and (gamma/2) |A| L^2 share the score's range; off the diagonal A counts twice. The
        check of a model holds w to its part.
        """
        rounding = self.rounding
        size = 2.0**self.score_bits / rounding.peak
        norm = math.sqrt(2.0 * rounding.dim) * size * 1.05 + math.sqrt(rounding.features)
        return Bound.of(peak=2.0 * size, norm=norm, count=rounding.features)

    def choose_grid(self) -> Grid | None:
        """Return the grid of the fewest share bits that carries the score, if there is one."""
        degree, rounding = self.parameters.ring_dim, self.rounding
        norm = self.ask_norm * rounding.peak * math.sqrt(self.lanes)
        full = degree // rounding.features * rounding.features
        count = min(full, self.lanes * self.settings.arms * rounding.features)
        features = Bound(peak=float(rounding.peak), norm=norm, count=count)
        for bits in range(self.score_bits + 4, SHARE_BITS_MOST + 1):
            with suppress(InvalidInput):  # not in so few bits
                return choose_grid(
                    parameters=self.parameters,
                    features=features,
                    model=self.model_units,
                    score_peak=2.0**self.score_bits,
                    bits=bits,
                    encryptions=2,  # of w and of A
                )
        return None
