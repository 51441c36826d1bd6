"""Argmax of K scores from all pairs at once, by one composite sign polynomial.

With P the polynomial and u_ab = (1 + P((s_a - s_b)/scale))/2, arm a gets

    product:  b_a = prod_{b != a} u_ab        (shows the winner only; ceil(log2 K) more levels)
    sum:      b_a = mean_{b != a} u_ab        (shows the order of the arms; no more levels)

and whoever decrypts b plays its largest entry. Scores must differ by at most `scale`. If every
entry of b carries an error of at most `noise` (nu), the arm played is certain to be within
g * scale of the best, where P(x) > p for all x >= g and, with e the error of P past its resolution
(0 if P is monotone: it has no ripples),

    sum:      p = (K - 2) e + 2 (K - 1) nu
    product:  p = (G - 1 + 2^K nu)/(G + 1),   G = (1 + 2 e)^(K - 2).

A tie halves the best arm's product once for each of the K - 2 others, so the product drowns in the
noise past some K; the sum does not. Below its resolution P rises steeply, so g is far below the
resolution. Where p exceeds what P reaches nothing is certain. The proofs are in docs/theory.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput, require_at_least, require_choice, require_positive
from helba.reference.numerics.certificate import Certificate, Certified
from helba.reference.numerics.composite import CompositeSign

Array = NDArray[np.float64]

METHODS = ("product", "sum")
# Where no certificate is possible the tolerance is the whole range, and more.
NO_CERTIFICATE = math.inf
MOST_ARMS = 1 << 10


def comparison_vector(
    scores: Array, *, sign: CompositeSign, scale: float, method: str, noise: float = 0.0
) -> Certified[Array]:
    """Return b for `scores`, with the tolerance of its argmax, in units of the score.

    `noise` is not added; it is what the certificate allows for.
    """
    row = np.asarray(scores, dtype=np.float64)
    if row.ndim != 1 or len(row) < 2:
        raise InvalidInput("scores", f"shape {row.shape}", "a vector of at least 2 scores")
    require_positive("scale", scale)
    require_choice("method", method, METHODS)
    spread = float(row.max() - row.min())
    if not spread <= scale * (1 + 1e-9):
        raise InvalidInput("spread of the scores", f"{spread:g}", f"at most the scale, {scale:g}")
    differences = np.clip((row[:, None] - row[None, :]) / scale, -1.0, 1.0)
    wins = (1.0 + sign(differences)) / 2.0
    if method == "product":
        np.fill_diagonal(wins, 1.0)
        vector = wins.prod(axis=1)
    else:
        np.fill_diagonal(wins, 0.0)
        vector = wins.sum(axis=1) / (len(row) - 1)
    certificate = Certificate(
        quantity="best score minus the score of the largest entry",
        interval=(0.0, scale),
        error=argmax_tolerance(sign=sign, arms=len(row), scale=scale, method=method, noise=noise),
        levels=argmax_levels(sign=sign, arms=len(row), method=method),
    )
    return Certified(value=vector, certificate=certificate)


def argmax_levels(*, sign: CompositeSign, arms: int, method: str) -> int:
    """Levels from differences of scores to b: the sign, and for the product a tree of products.

    The affine map (1 + P)/2 rides in the last stage's coefficients; the mean's divisor likewise.
    A row of the tree holds the K comparisons of an arm, that with itself included, padded to a
    power of two. Two arms need no tree: one comparison is both product and mean.
    """
    tree = (arms - 1).bit_length() if method == "product" and arms > 2 else 0
    return sign.levels + tree


def argmax_tolerance(
    *, sign: CompositeSign, arms: int, scale: float, method: str, noise: float
) -> float:
    """Return how far, in units of the score, the chosen arm may be from the best, or inf."""
    require_at_least("arms", arms, 2)
    require_at_least("noise", noise, 0.0)
    require_positive("scale", scale)
    require_choice("method", method, METHODS)
    ripple = 0.0 if sign.monotone else max(sign.error, sign.maximum - 1.0)
    if method == "sum":
        needed = (arms - 2) * ripple + 2.0 * (arms - 1) * noise
    else:
        growth = (1.0 + 2.0 * ripple) ** (arms - 2)
        needed = (growth - 1.0 + 2.0**arms * noise) / (growth + 1.0)
    return scale * _gap_reaching(sign, needed)


def product_arm_limit(*, sign: CompositeSign, noise: float) -> int:
    """Return the largest K whose argmax by product is certified; past it noise drowns the product.

    1 if not even two arms can be told apart.
    """
    require_positive("noise", noise)
    arms = 1
    while arms < MOST_ARMS:
        tolerance = argmax_tolerance(
            sign=sign, arms=arms + 1, scale=1.0, method="product", noise=noise
        )
        if tolerance == NO_CERTIFICATE:
            break
        arms += 1
    return arms


def choose_method(*, sign: CompositeSign, arms: int, noise: float, margin: float = 16.0) -> str:
    """Return "product" where it stays well above the noise (by `margin`), else "sum"."""
    limit = product_arm_limit(sign=sign, noise=noise * margin)
    return "product" if arms <= limit else "sum"


@dataclass(frozen=True, kw_only=True)
class Disclosure:
    """What b tells its reader of the gaps between its own scores.

    Gaps below `revealed_below` (units of the score) may be learned to the precision of the noise.
    Of scores that are all further apart the winner (product) or the order (sum) shows, and the rest
    as far as the flood lets it: every entry of b stays within `ripple` of the value that any such
    scores with that winner, or that order, give. Entries stand in `slots` slots.
    """

    revealed_below: float
    ripple: float
    slots: int
    shows_order: bool

    def advantage(self, *, flood: float) -> float:
        """Bound how well two such vectors of scores are told apart: their total variation.

        Flooding is at least uniform in [-flood/2, flood/2], independently in every slot. Two values
        at most 2 ripple apart, each smeared over `flood`, overlap but for 2 ripple/flood.
        """
        require_positive("flood", flood)
        return min(1.0, self.slots * 2.0 * self.ripple / flood)


def disclosure(
    *, sign: CompositeSign, arms: int, scale: float, method: str, slots: int | None = None
) -> Disclosure:
    """Return what the comparison vector reveals of a gap at the resolution of `sign`.

    It fills `slots`, one for each arm unless told.
    """
    require_at_least("arms", arms, 2)
    require_positive("scale", scale)
    require_choice("method", method, METHODS)
    half = sign.error / 2.0
    if method == "sum":
        ripple = half
    else:
        upper = (1.0 + half) ** (arms - 1) - 1.0
        lower = 1.0 - (1.0 - half) ** (arms - 1)
        ripple = max(upper, lower, half * (1.0 + half) ** (arms - 2))
    return Disclosure(
        revealed_below=scale * sign.resolution,
        ripple=ripple,
        slots=arms if slots is None else slots,
        shows_order=method == "sum" and arms > 2,
    )


@lru_cache(maxsize=1024)
def _gap_reaching(sign: CompositeSign, value: float) -> float:
    """The smallest gap found with P > value on [gap, 1]; 0 if value is 0; inf if there is none.

    If P is not proven to rise until its resolution, the resolution is the gap.
    """
    if value <= 0.0:
        return 0.0
    reached = sign.least(1.0) if sign.monotone else 1.0 - sign.error
    if value * (1.0 + 1e-12) >= reached:
        return NO_CERTIFICATE
    return sign.gap_for(value * (1.0 + 1e-12)) if sign.rising else sign.resolution
