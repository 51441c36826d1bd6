"""The profile `ciphertext` with the sqrt bonus: roots of all bonuses, then the same comparison.

Scores come by arms, and a round is cut by refreshes wherever its levels run out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from helba.reference.circuits.comparison.argmax import comparison_steps
from helba.reference.circuits.scores.root_scores import root_score_steps
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.numerics.argmax import argmax_levels
from helba.reference.planning.layout.root_packing import pack_root_contexts, root_scale
from helba.reference.protocol.profiles.ciphertext import CiphertextProfile
from helba.reference.protocol.profiles.profile import Array, Model, RidingTest
from helba.reference.protocol.serving.jobs import JobSteps
from helba.reference.twin.terms import BatchTerms


class CiphertextRootProfile(CiphertextProfile):
    """The profile `ciphertext` with the sqrt bonus."""

    context_parts: ClassVar[int] = 2

    @property
    def context_level(self) -> int:
        """The top, if the round is cut."""
        return max(0, super().context_level)

    def pack_contexts(
        self,
        contexts: Array,
        *,
        terms: BatchTerms,
    ) -> tuple[Array, ...]:
        """Linear and quadratic features, over ranges that the longest context sets."""
        scale = root_scale(self.settings, terms=terms)
        return pack_root_contexts(self.deployment.scores, contexts=contexts, scale=scale)

    def answer_steps(
        self,
        engine: Engine,
        contexts: Sequence[EncryptedVector],
        *,
        model: Model,
        round: int,  # noqa: ARG002
        test: RidingTest | None,
    ) -> JobSteps:
        """Scores with their roots, sign, argmax."""
        layout, scale = self.deployment.scores, root_scale(self.settings, terms=model.terms)
        linear, quadratic = contexts
        trace = None if test is None else engine.add_plain(test.growth, self._threshold)
        differences = yield from root_score_steps(
            engine,
            linear=linear,
            quadratic=quadratic,
            model=model.scoring,
            layout=layout,
            rounds=scale.rounds,
            iterations=scale.iterations,
            coefficient=scale.coefficient,
            trace=trace,
            levels_after=argmax_levels(
                sign=self._sign, arms=self.settings.arms, method=self._method
            ),
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
