"""A twin of the reference that follows an encrypted run instead of deciding when to update."""

from __future__ import annotations

from helba.bandits.helba import HelbaTwin, Model
from helba.bandits.policy import Array, check_context, clip_reward
from helba.bandits.ridge import solve_ridge
from helba.reference.twin.terms import BatchTerms


class FollowingTwin(HelbaTwin):
    """HELBA's twin with the numerics of a reference profile."""

    def follow(self, context: Array, reward: float, *, terms: BatchTerms | None = None) -> None:
        """Learn what another HELBA learned, and update when it did, to a model of these `terms`.

        So the twin of an encrypted run has the same history, times of updates included: a test
        within its band may go either way. Its inverse and estimate are exact, and `decision`
        allows for the errors that the terms admit.
        """
        row = check_context(self.settings, context)
        earned, clipped = clip_reward(self.settings, reward)
        self.clipped += clipped
        self.samples += 1
        self.design += row[:, None] * row
        self.response += earned * row
        if terms is None:
            return
        inverse, estimate = solve_ridge(self.design, response=self.response)
        self.model = Model(
            start=terms.start,
            samples=terms.samples,
            inverse=inverse,
            estimate=estimate,
            residual=terms.residual,
            estimate_error=terms.estimate_error,
            exact_inverse=inverse,
            exact_estimate=estimate,
        )
        self.schedule.restart(round=terms.start)
        self.updates += 1
