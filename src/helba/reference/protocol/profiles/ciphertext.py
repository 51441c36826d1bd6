"""The profile `ciphertext`: warm inverse, one vector for the scores, one composite sign.

With the quadratic bonus a round is one inner product and one sign for all pairs of arms. It needs
no refresh, unless the deployment has fewer levels than that, to be quicker. The user sends x x^T,
r x, and x x^T once more as features of the update test, over a range fixed for the deployment.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import ClassVar

import numpy as np

from helba.errors import RunFailed
from helba.numerics.inverse import WarmStart
from helba.reference.circuits.algebra.check import inverse_residual, squared_change
from helba.reference.circuits.algebra.inverse import invert_warm_steps
from helba.reference.circuits.comparison.argmax import comparison_steps
from helba.reference.circuits.levels import Renewal
from helba.reference.circuits.scores.scores import score_differences
from helba.reference.circuits.scores.scoring import Scoring, scoring_steps
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.numerics.composite import CompositeSign
from helba.reference.numerics.inverse import MATRIX_PRODUCT_LEVELS
from helba.reference.planning.bounds.bootstrap import BOOTSTRAP_LEVELS
from helba.reference.planning.bounds.precision import renewal_bounds
from helba.reference.planning.cost.chain import REFRESH_LEVELS, Chain, cut_chain
from helba.reference.planning.cost.workload import model_steps
from helba.reference.planning.layout.model import ModelAssembly
from helba.reference.planning.layout.packing import cyclic_stages
from helba.reference.planning.layout.score_packing import Answer as Reading
from helba.reference.planning.layout.score_packing import (
    pack_contexts,
    pack_model,
    pack_trace,
    read_answer,
)
from helba.reference.protocol.profiles.profile import (
    CHECK_SIGNS,
    Array,
    Model,
    Profile,
    RidingTest,
    Statistics,
    request_check,
)
from helba.reference.protocol.serving.jobs import Check, JobSteps
from helba.reference.twin.radius import quadratic_range
from helba.reference.twin.terms import BatchTerms


class CiphertextProfile(Profile):
    """The profile `ciphertext` with the quadratic bonus."""

    @property
    def context_slots(self) -> int:
        """F P of the layout."""
        return self.deployment.scores.slots

    context_parts: ClassVar[int] = 1

    @property
    def context_level(self) -> int:
        """The levels above those that a round needs are used up already; the top if it is cut."""
        return max(0, self.deployment.parameters.depth - self.deployment.round_levels)

    @property
    def statistics_shape(self) -> tuple[tuple[int, int], ...]:
        """Matrix and vector at the top, the test's features where contexts are."""
        size = self.deployment.matrices.size
        test = ((self.context_slots, self.context_level),) if self.asks else ()
        return ((size, 0), (size, 0), *test)

    def pack_contexts(self, contexts: Array, *, terms: BatchTerms) -> tuple[Array, ...]:
        """Differences of features over a range that these contexts cannot leave."""
        weights = terms.weights(self.settings)
        scale = quadratic_range(
            self.settings,
            contexts,
            radius=weights.certain_radius,
            gamma=weights.gamma,
            residual=terms.residual,
        )
        packed = pack_contexts(
            self.deployment.scores,
            contexts=contexts,
            gamma=weights.gamma,
            scale=scale or 1.0,  # 0 if all contexts are
        )
        return (packed,)

    def pack_statistics(self, context: Array, *, reward: float) -> tuple[Array, ...]:
        """x x^T, r x by row, and the features of the trace."""
        matrices = self.deployment.matrices
        square = np.outer(context, context)
        parts = [matrices.pack(square), matrices.pack_by_row(reward * context)]
        if self.asks:
            parts.append(
                pack_trace(
                    self.deployment.scores,
                    growth=square,
                    threshold=0.0,
                    reach=self.deployment.test_reach,
                )
            )
        return tuple(parts)

    @property
    def check_slots(self) -> int:
        """Those of the model, or more."""
        return max(CHECK_SIGNS, self.deployment.scores.slots)

    @property
    def answer_slots(self) -> int:
        """Two copies of the grid of pairs at least."""
        return self.deployment.scores.compare_slots

    def read(self, values: Array, *, riding: bool) -> Reading:
        """The comparison vector, and the value of the test if one rode along."""
        return read_answer(
            self.deployment.scores,
            values=values,
            method=self._method,
            riding=riding,
        )

    def entry_range(self) -> tuple[float, float]:
        """From what the sign polynomial may overshoot, noise and flooding."""
        sign, arms = self._sign, self.settings.arms
        over = (max(sign.maximum, 1.0 + sign.error) - 1.0) / 2.0
        noise = self.deployment.comparison_noise + self.deployment.flood
        product = self._method == "product" and arms > 2
        top = (1.0 + over) ** (arms - 1 if product else 1)
        return -over * top - noise, top + noise

    # -- the server's side

    def first_model(self, engine: Engine, *, terms: BatchTerms) -> Model:
        """Encrypted by the server itself, under the public key."""
        inverse = np.eye(self.settings.dim) / self.settings.ridge
        zero = np.zeros(self.settings.dim)
        scoring = pack_model(self.deployment.scores, inverse=inverse, estimate=zero)
        return Model(
            terms=terms,
            inverse=engine.encrypt(self.deployment.matrices.pack(inverse)),
            scoring=engine.encrypt(scoring, level=min(self.context_level, self._renewed_level)),
        )

    def absorb(
        self,
        engine: Engine,  # noqa: ARG002
        vectors: Sequence[EncryptedVector],
    ) -> Statistics:
        """The user knows its products in the clear: nothing to compute."""
        design, response, *growth = vectors
        return Statistics(design=design, response=response, growth=growth[0] if growth else None)

    def answer_steps(
        self,
        engine: Engine,
        contexts: Sequence[EncryptedVector],
        *,
        model: Model,
        round: int,  # noqa: ARG002
        test: RidingTest | None,
    ) -> JobSteps:
        """Scores, sign, argmax."""
        layout = self.deployment.scores
        (asked,), trace = contexts, None
        if test is not None:
            trace = engine.add_plain(test.growth, self._threshold)
            if layout.form == "pairs":
                asked, trace = engine.add(asked, trace), None
        differences = score_differences(
            engine, asked, model=model.scoring, layout=layout, trace=trace
        )
        return (
            yield from comparison_steps(
                engine,
                differences,
                layout=layout,
                sign=self._sign,
                method=self._method,
                rider=None if test is None else test.rider,
            )
        )

    def can_bridge(self, terms: BatchTerms, *, reach: float) -> bool:
        """Whether noise still allows the Newton steps that this takes."""
        try:
            self._plan(terms, reach=reach)
        except RunFailed:
            return False
        return True

    def most_bridged(self, most: int) -> int:
        """As many as noise allows in the worst case."""
        return self.deployment.accuracy.most_bridged(self.settings, most=most)

    def next_terms(
        self, *, terms: BatchTerms, reach: float, round: int, samples: int, last_round: int
    ) -> BatchTerms:
        """What the warm start promises."""
        plan = self._plan(terms, reach=reach)
        return BatchTerms(
            number=terms.number + 1,
            start=round,
            samples=samples,
            last_round=last_round,
            residual=plan.error,
            estimate_error=self.deployment.accuracy.estimate_error(
                self.settings, residual=plan.error, samples=samples
            ),
        )

    def update_steps(
        self,
        engine: Engine,
        *,
        design: EncryptedVector,
        response: EncryptedVector,
        model: Model,
        terms: BatchTerms,
        reach: float,
    ) -> JobSteps:
        """Inverse, estimate with one refinement, model, each part renewed; then the check."""
        matrices, plan = self.deployment.matrices, self._plan(model.terms, reach=reach)
        bounds = renewal_bounds(self.settings, piece=self.deployment.accuracy.piece)
        inverted = yield from invert_warm_steps(
            engine,
            matrix=design,
            start=model.inverse,
            layout=matrices,
            low=plan.low,
            high=plan.high,
            error=plan.error,
            noise=self.deployment.accuracy.inverse_noise,
            bound=bounds.newton,
            piece_levels=self._piece_levels(plan),
        )
        inverse = yield Renewal(vector=inverted.value, bound=bounds.inverse)
        scoring = yield from scoring_steps(
            engine,
            inverse=inverse,
            design=design,
            response=response,
            assembly=self._assembly,
            chain=self._model_chain,
            bound=bounds.model,
            lowered=self.deployment.refresh != "none",
        )
        fresh = yield Renewal(vector=scoring.model, bound=bounds.model)
        if self.deployment.refresh == "client":
            passed = yield self._check(
                engine, design=design, inverse=inverse, scoring=scoring, fresh=fresh
            )
            if not passed:
                return None
        return Model(terms=terms, inverse=inverse, scoring=fresh)

    # -- parts

    def _plan(self, terms: BatchTerms, *, reach: float) -> WarmStart:
        return self.deployment.accuracy.plan_inverse(residual=terms.residual, reach=reach)

    def _piece_levels(self, plan: WarmStart) -> int | None:
        """Levels between two refreshes: as few pieces as fit, of equal length."""
        if self.deployment.refresh == "none":
            return None
        room = self.deployment.parameters.depth - self._renewed_level - REFRESH_LEVELS
        products = plan.steps + 1  # V times the start, too
        pieces = -(-products // max(1, room // MATRIX_PRODUCT_LEVELS))
        return MATRIX_PRODUCT_LEVELS * -(-products // pieces)

    def _check(
        self,
        engine: Engine,
        *,
        design: EncryptedVector,
        inverse: EncryptedVector,
        scoring: Scoring,
        fresh: EncryptedVector,
    ) -> Check:
        """The inverse as a whole, and what renewals changed of the estimate and of the model."""
        scores, matrices = self.deployment.scores, self.deployment.matrices
        wrong = inverse_residual(engine, design=design, inverse=inverse, layout=matrices)
        features = cyclic_stages(stride=scores.pairs, count=scores.features, radix=scores.radix)
        stages = (*features, *self._assembly.spread)  # over the features, and over all copies
        changes = [squared_change(engine, [(scoring.model, fresh)], stages=stages)]
        if scoring.renewed:
            changes.append(squared_change(engine, scoring.renewed, stages=matrices.sum_all))
        return request_check(engine, residual=wrong, changes=changes, slots=self.check_slots)

    @property
    def _sign(self) -> CompositeSign:
        assert self.deployment.sign is not None
        return self.deployment.sign

    @property
    def _method(self) -> str:
        assert self.deployment.method is not None
        return self.deployment.method

    @property
    def _renewed_level(self) -> int:
        return BOOTSTRAP_LEVELS if self.deployment.refresh == "bootstrap" else 0

    @cached_property
    def _threshold(self) -> Array:
        """-C of the update test, in its constant feature."""
        return pack_trace(
            self.deployment.scores,
            growth=np.zeros((self.settings.dim, self.settings.dim)),
            threshold=self.settings.trace_threshold,
            reach=self.deployment.test_reach,
        )

    @cached_property
    def _assembly(self) -> ModelAssembly:
        return ModelAssembly(matrix=self.deployment.matrices, score=self.deployment.scores)

    @cached_property
    def _model_chain(self) -> Chain:
        deployment = self.deployment
        steps = model_steps(deployment.matrices, layout=deployment.scores)
        if deployment.refresh == "none":
            return Chain(pieces=(steps,))
        levels = deployment.parameters.depth - self._renewed_level
        chain = cut_chain(steps, levels=levels, ends_fresh=True)
        assert chain is not None  # or there would be no plan
        return chain
