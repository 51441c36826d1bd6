"""Certified ties: rounds whose two best arms are too close for the encrypted argmax to be certain.

Beside what the model's certified error allows (the twin's own certificate) the encrypted argmax may
miss the best score by the tolerance of its comparison, flooding included, and by twice what CKKS
adds to a score; all of it in units of the score, at the range that the round itself uses.
"""

from __future__ import annotations

import math

import numpy as np

from helba.bandits.policy import Array
from helba.bandits.radius import quadratic_weight
from helba.reference.numerics.argmax import argmax_tolerance
from helba.reference.numerics.compare import acomp_tolerance
from helba.reference.planning.bounds.precision import root_noise, score_noise
from helba.reference.planning.layout.root_packing import root_scale
from helba.reference.protocol.deployment import Deployment
from helba.reference.twin.paper import argmax_precision, inverse_floor, quadratic_interval
from helba.reference.twin.radius import paper_index_range, paper_radius, quadratic_range
from helba.reference.twin.terms import BatchTerms, BatchWeights


class ComparisonCertificate:
    """By how much the argmax of a deployment may miss the best of the scores it is given."""

    def __init__(self, deployment: Deployment) -> None:
        self.deployment = deployment
        self._terms: BatchTerms | None = None
        self._kappa = 0.0
        self._weights: BatchWeights | None = None

    def tolerance(self, contexts: Array, *, terms: BatchTerms, round: int) -> float:
        """Return it for the round of these contexts, in units of the score."""
        if self.deployment.sign is None:
            return self._paper_tolerance(terms, round=round)
        return self._ciphertext_tolerance(contexts, terms=terms)

    @property
    def _noise(self) -> float:
        """The noise of an entry of the comparison vector."""
        return self.deployment.comparison_noise + self.deployment.flood

    def _ciphertext_tolerance(self, contexts: Array, *, terms: BatchTerms) -> float:
        deployment, settings = self.deployment, self.deployment.settings
        assert deployment.sign is not None
        assert deployment.method is not None
        scale = self._scale(contexts, terms=terms)
        tolerance = argmax_tolerance(
            sign=deployment.sign,
            arms=settings.arms,
            scale=scale,
            method=deployment.method,
            noise=self._noise,
        )
        added = score_noise(
            settings,
            layout=deployment.scores,
            parameters=deployment.parameters,
            scale=scale,
            keys=deployment.keys,
        )
        if settings.bonus == "sqrt":
            added += root_noise(
                settings, slots=deployment.scores.slots, parameters=deployment.parameters
            )
        return tolerance + 2.0 * scale * added

    def _scale(self, contexts: Array, *, terms: BatchTerms) -> float:
        """The range over which the user of these contexts packs them."""
        settings = self.deployment.settings
        if terms != self._terms or self._weights is None:
            self._terms, self._weights = terms, terms.weights(settings)
            self._kappa = (
                root_scale(settings, terms=terms).kappa if settings.bonus == "sqrt" else 0.0
            )
        if settings.bonus == "sqrt":
            longest = math.sqrt(float(np.einsum("ij,ij->i", contexts, contexts).max()))
            return (longest or 1.0) * self._kappa
        scale = quadratic_range(
            settings,
            contexts,
            radius=self._weights.certain_radius,
            gamma=self._weights.gamma,
            residual=terms.residual,
        )
        return scale or 1.0  # 0 if all contexts are

    def _paper_tolerance(self, terms: BatchTerms, *, round: int) -> float:
        settings = self.deployment.settings
        beta = paper_radius(
            settings, round=round, batch_start=terms.start, estimate_error=terms.estimate_error
        )
        if settings.bonus == "sqrt":
            floor = inverse_floor(settings, batch_start=terms.start)
            least, most = paper_index_range(settings, radius=beta, round=round, floor=floor)
        else:
            gamma = quadratic_weight(settings, radius=beta, last_round=terms.last_round)
            least, most = quadratic_interval(
                settings, radius=beta, gamma=gamma, residual=terms.residual
            )
        return (most - least) * acomp_tolerance(error=argmax_precision(round), noise=self._noise)
