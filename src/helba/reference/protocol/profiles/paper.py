"""The paper's profile: server-side products, cold inverse, encrypted root, amax and acomp.

Users send their arms, the arm they played and what it earned as plain vectors; the server
multiplies. Rounds, tests and updates are cut by refreshes wherever levels run out. The update test
is a comparison of its own, opened through an additive mask over the whole polynomial: the server
then sees a number in [0, 1], as in the paper, where the profile `ciphertext` shows it one bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from helba.reference.circuits.algebra.check import inverse_residual, squared_change
from helba.reference.circuits.algebra.inverse import cold_bound
from helba.reference.circuits.paper_round import (
    paper_answer_steps,
    paper_statistics,
    paper_test_steps,
    paper_update_steps,
)
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.numerics.inverse import cold_iterations
from helba.reference.planning.bounds.precision import longest_estimate
from helba.reference.planning.layout.paper_packing import PaperLayout, paper_index
from helba.reference.planning.layout.score_packing import Answer as Reading
from helba.reference.protocol.profiles.profile import (
    CHECK_SIGNS,
    Array,
    Model,
    Profile,
    RidingTest,
    Statistics,
    request_check,
)
from helba.reference.protocol.serving.jobs import JobSteps, Opening
from helba.reference.twin.paper import UPDATE_THRESHOLD, inverse_floor
from helba.reference.twin.terms import BatchTerms

# A worst case of the noise beyond this promises nothing; the error of exact arithmetic then stands
# in the terms, and the plan says that it is not certified.
MOST_CERTIFIED = 0.5


class PaperProfile(Profile):
    """The paper's profile, with either bonus."""

    rides: ClassVar[bool] = False
    context_parts: ClassVar[int] = 2
    opens: ClassVar[bool] = True

    @property
    def context_slots(self) -> int:
        """Kp p^2."""
        return self._layout.slots

    @property
    def statistics_shape(self) -> tuple[tuple[int, int], ...]:
        """The played arm by row and by column, and the reward."""
        return ((self._layout.stride, 0),) * 3

    def pack_contexts(
        self,
        contexts: Array,
        *,
        terms: BatchTerms,  # noqa: ARG002
    ) -> tuple[Array, ...]:
        """The arms by row and by column."""
        return self._layout.pack_arms(contexts)

    def pack_statistics(self, context: Array, *, reward: float) -> tuple[Array, ...]:
        """The played arm by row and by column, and the reward."""
        return self._layout.pack_play(context, reward=reward)

    @property
    def check_slots(self) -> int:
        """Those of a matrix, or more."""
        return max(CHECK_SIGNS, self._layout.stride)

    @property
    def answer_slots(self) -> int:
        """Kp p^2."""
        return self._layout.slots

    def read(
        self,
        values: Array,
        *,
        riding: bool,  # noqa: ARG002
    ) -> Reading:
        """The comparison vector; no test rides on it."""
        return Reading(self._layout.read_answer(values), None)

    def entry_range(self) -> tuple[float, float]:
        """Comparisons lie in [0, 1]."""
        noise = self.deployment.comparison_noise + self.deployment.flood
        return -noise, 1.0 + noise

    # -- the server's side

    def first_model(self, engine: Engine, *, terms: BatchTerms) -> Model:
        """Encrypted by the server itself, under the public key."""
        matrices, dim = self.deployment.matrices, self.settings.dim
        return Model(
            terms=terms,
            inverse=engine.encrypt(matrices.pack(np.eye(dim) / self.settings.ridge)),
            scoring=engine.encrypt(matrices.pack_by_column(np.zeros(dim))),
        )

    def absorb(self, engine: Engine, vectors: Sequence[EncryptedVector]) -> Statistics:
        """Two products."""
        rows, columns, reward = vectors
        design, response = paper_statistics(engine, rows=rows, columns=columns, reward=reward)
        return Statistics(design=design, response=response, growth=design if self.asks else None)

    def answer_steps(
        self,
        engine: Engine,
        contexts: Sequence[EncryptedVector],
        *,
        model: Model,
        round: int,
        test: RidingTest | None,  # noqa: ARG002
    ) -> JobSteps:
        """Index, root, amax, NewComp."""
        rows, columns = contexts
        return (
            yield from paper_answer_steps(
                engine,
                rows=rows,
                columns=columns,
                inverse=model.inverse,
                estimate=model.scoring,
                layout=self._layout,
                index=paper_index(self.settings, terms=model.terms, round=round),
            )
        )

    def test_steps(
        self, engine: Engine, *, growth: EncryptedVector, model: Model, plays: int, round: int
    ) -> JobSteps:
        """NewComp of trace and threshold, opened; see `reference.twin.paper.PaperTwin`."""
        settings = self.settings
        ridge, threshold = settings.ridge, settings.trace_threshold
        reach = settings.length**2 * (1.0 / ridge + 1.0 / math.sqrt(ridge)) * plays
        if reach <= threshold + 1.0 / (4.0 * round):
            return False  # it cannot have passed by more than the band
        compared = yield from paper_test_steps(
            engine,
            inverse=model.inverse,
            growth=growth,
            layout=self.deployment.matrices,
            threshold=threshold,
            reach=reach,
            gap=1.0 / (4.0 * round * reach),
        )
        # one slot: the fewer coefficients are opened, the less their noise tells
        (opened,) = yield Opening(vector=engine.fold(compared, 1))
        return bool(opened > UPDATE_THRESHOLD)

    def next_terms(
        self,
        *,
        terms: BatchTerms,
        reach: float,  # noqa: ARG002
        round: int,
        samples: int,
        last_round: int,
    ) -> BatchTerms:
        """What the cold start promises, noise included where that is still a promise."""
        settings = self.settings
        trace, error = self._cold(samples=samples, round=round)
        steps = cold_iterations(ridge=settings.ridge, trace_bound=trace, error=error)
        exact, noisy = (
            settings.ridge
            * cold_bound(ridge=settings.ridge, trace_bound=trace, iterations=steps, noise=noise)
            for noise in (0.0, self.deployment.accuracy.product_noise)
        )
        residual = noisy if noisy <= MOST_CERTIFIED else exact
        return BatchTerms(
            number=terms.number + 1,
            start=round,
            samples=samples,
            last_round=last_round,
            residual=residual,
            estimate_error=residual * settings.reward_max * math.sqrt(samples),
        )

    def update_steps(
        self,
        engine: Engine,
        *,
        design: EncryptedVector,
        response: EncryptedVector,
        model: Model,  # noqa: ARG002
        terms: BatchTerms,
        reach: float,  # noqa: ARG002
    ) -> JobSteps:
        """Newton from I/c with k1 steps, w = A g, both renewed; then the check."""
        trace, error = self._cold(samples=terms.samples, round=terms.start)
        matrices = self.deployment.matrices
        inverse, before, estimate = yield from paper_update_steps(
            engine,
            design=design,
            response=response,
            matrices=matrices,
            ridge=self.settings.ridge,
            trace_bound=trace,
            error=error,
            estimate_bound=longest_estimate(self.settings) + terms.estimate_error,
        )
        if self.deployment.refresh == "client":
            wrong = inverse_residual(engine, design=design, inverse=inverse, layout=matrices)
            moved = squared_change(engine, [(before, estimate)], stages=matrices.sum_all)
            passed = yield request_check(
                engine, residual=wrong, changes=[moved], slots=self.check_slots
            )
            if not passed:
                return None
        return Model(terms=terms, inverse=inverse, scoring=estimate)

    # -- parts

    def _cold(self, *, samples: int, round: int) -> tuple[float, float]:
        """The trace bound c and the error of the inverse of an update after `round`."""
        settings = self.settings
        trace = settings.ridge * settings.dim + settings.length**2 * samples
        return trace, inverse_floor(settings, batch_start=round) / settings.length**2

    @cached_property
    def _layout(self) -> PaperLayout:
        return PaperLayout(dim=self.settings.dim, arms=self.settings.arms)
