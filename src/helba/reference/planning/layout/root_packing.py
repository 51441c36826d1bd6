"""What a user puts into the slots for the sqrt bonus, and the public numbers of a batch for it.

The index <w, x> + weight sqrt(x^T A x + floor) of `reference.twin.ciphertext`, over a scale that
the longest context of the user sets, is

    <w, x>/(longest kappa) + coefficient sqrt(z + 1/n),    z = x^T A x/(top longest^2) in [0, 1],

with public kappa, coefficient, top = (1 + e)/ridge and n = max(ROOT_ROUNDS, last round). kappa
bounds differences of indices over the longest context, so that these lie in [-1, 1]:

    kappa = 2 S + 2 beta'/sqrt(ridge (1 - e)) + weight sqrt(top (1 + 1/n)),

beta' the radius that ranges rely on (`reference.twin.radius.root_range`; two contexts are at most
twice the longest one apart), weight = beta/sqrt(1 - e), coefficient = weight sqrt(top)/kappa.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from helba.bandits.settings import Settings
from helba.errors import InvalidInput, require_between, require_positive, require_whole
from helba.reference.numerics.root import root_iterations
from helba.reference.planning.layout.score import ScoreLayout
from helba.reference.planning.layout.score_packing import pack_contexts
from helba.reference.twin.ciphertext_bound import ROOT_ROUNDS, ROOT_SHARE
from helba.reference.twin.terms import BatchTerms

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class RootScale:
    """The public numbers of a batch; see the module. `rounds` is n."""

    rounds: int
    kappa: float
    top: float
    coefficient: float

    def __post_init__(self) -> None:
        require_whole("rounds", self.rounds, least=1, most=10**9)
        require_positive("kappa", self.kappa)
        require_positive("top", self.top)
        require_between("coefficient", self.coefficient, 0.0, 1.0)

    @property
    def iterations(self) -> int:
        """Steps of the root."""
        return normal_root(self.rounds)[1]


def normal_root(rounds: int) -> tuple[float, int]:
    """Return the end of the root's interval [1/n, 1 + 1/n], and the steps that it takes there."""
    low, high = 1.0 / rounds, 1.0 + 1.0 / rounds
    return high, root_iterations(low=low, high=high, error=ROOT_SHARE * math.sqrt(low))


def root_scale(settings: Settings, *, terms: BatchTerms) -> RootScale:
    """Return the numbers of a batch from what is public about it."""
    weights, ridge, e = terms.weights(settings), settings.ridge, terms.residual
    rounds = max(ROOT_ROUNDS, terms.last_round)
    weight, top = weights.radius / math.sqrt(1.0 - e), (1.0 + e) / ridge
    mean = 2.0 * (settings.parameter_bound + weights.certain_radius / math.sqrt(ridge * (1.0 - e)))
    kappa = mean + weight * math.sqrt(top * (1.0 + 1.0 / rounds))
    return RootScale(
        rounds=rounds, kappa=kappa, top=top, coefficient=weight * math.sqrt(top) / kappa
    )


def pack_root_contexts(
    layout: ScoreLayout, *, contexts: ArrayLike, scale: RootScale
) -> tuple[Array, Array]:
    """Return the slots of x over longest kappa, and of svec(x x^T) over top longest^2, by arms.

    Missing arms repeat the first, and so does the padding to a power of two: every slot holds a
    valid argument of the root.
    """
    if layout.form != "arms":
        raise InvalidInput("form", repr(layout.form), "'arms' for the sqrt bonus")
    rows = np.asarray(contexts, dtype=np.float64)
    longest = 1.0
    if rows.ndim == 2 and rows.size:
        longest = math.sqrt(float(np.einsum("ij,ij->i", rows, rows).max())) or 1.0
    linear = pack_contexts(layout, contexts=rows, gamma=0.0, scale=longest * scale.kappa)
    square = pack_contexts(layout, contexts=rows / longest, gamma=2.0 / scale.top, scale=1.0)
    quadratic = square.reshape(layout.features, layout.padded_arms)
    quadratic[: layout.dim] = 0.0
    table = linear.reshape(layout.features, layout.padded_arms)
    for packed in (table, quadratic):
        packed[:, layout.arms :] = packed[:, :1]
    return table.ravel(), quadratic.ravel()
