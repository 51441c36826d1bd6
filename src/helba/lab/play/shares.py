"""The bandit on shares as a policy to run, with its plaintext twin beside it on the same grid.

A round *agrees* if the twin plays the same arm. Where it does not, the two best scores must be
nearer than the resolution that the plan states: a disagreement anywhere else is an error.
"""

from __future__ import annotations

from typing import Any

from helba.bandits.policy import Array, Policy
from helba.bandits.settings import Settings
from helba.in_process.bandit import EncryptedBandit
from helba.lab.play.encrypted import SIMULATOR, peak_memory
from helba.lab.play.twin import GridTwin
from helba.lab.progress import note
from helba.learning.plan import SharesPlan
from helba.protocol.deployment import SharesDeployment
from helba.ring.key import find_backend


class SharesPlay(Policy):
    """Plays an `EncryptedBandit`, and lets its twin play along; `seed` is the simulator's."""

    def __init__(self, deployment: SharesDeployment, *, seed: int | None = None) -> None:
        super().__init__(deployment.settings)
        self.deployment = deployment
        self.bandit = EncryptedBandit(self.settings, deployment=deployment, seed=seed)
        self.twin = GridTwin(deployment.plan)

    @property
    def seconds(self) -> float:
        """Seconds of all parties, the twin apart."""
        return self.bandit.ledger.total()

    def _choose(self, contexts: Array) -> int:
        arm = self.bandit.select(contexts)
        self.decision = None
        if len(contexts) > 1:
            self.decision = self.twin.decide(contexts, arm=arm)
        return arm

    def _learn(self, context: Array, reward: float) -> None:
        self.bandit.update(context, reward)
        self.twin.learn(context, reward)
        if self.bandit.updates > self.updates:
            terms = self.bandit.server.state.adopted
            assert terms is not None
            self.twin.follow(terms)
        self.updates = self.bandit.updates

    def update_bound(self) -> float:
        """That of the bandit."""
        return self.bandit.update_bound()

    def regret_bound(self) -> float | None:
        """That of the bandit, with what was certified in this run."""
        return self.bandit.regret_bound()

    def describe(self) -> str:
        """Return how far it is, in a few words."""
        spent = self.seconds / max(1, self.round)
        return f"{self.updates} updates, {1e3 * spent:.3g} ms a round"

    def as_json(self) -> dict[str, Any]:
        """Return what only an encrypted run has; bytes and seconds are those of the whole run."""
        ledger, rounds = self.bandit.ledger, max(1, self.round)
        state = self.bandit.server.state
        learning = ledger.total(purpose="test") + ledger.total(purpose="update")
        updating = ledger.total(purpose="update")

        def recommending(party: str) -> float:
            return ledger.total(party=party, purpose="recommendation") / rounds

        return {
            "opener": self.deployment.plan.opener,
            "security": self.deployment.plan.parameters.security,
            "rejected": state.rejected,
            "tests": state.tests,
            "failure_probability": state.failure,
            "resolution": self.twin.resolution,
            "bytes_up": ledger.bytes_up,
            "bytes_down": ledger.bytes_down,
            "bytes_up_per_round": ledger.bytes_up / rounds,
            "bytes_down_per_round": ledger.bytes_down / rounds,
            "bytes_server_opener": ledger.bytes_to_opener + ledger.bytes_from_opener,
            "seconds_per_round_without_updates": (ledger.total() - learning) / rounds,
            "seconds_per_update": updating / self.updates if self.updates else None,
            "seconds_per_test": (
                ledger.total(purpose="test") / state.tests if state.tests else None
            ),
            "server_seconds_per_recommendation": recommending("server"),
            "user_seconds_per_recommendation": recommending("user"),
            "opener_seconds_per_recommendation": recommending("opener"),
            "peak_memory_bytes": peak_memory(),
            "parameters": describe_shares(self.deployment.plan),
        }


def plan_shares_play(
    settings: Settings, *, engine: str, opener: str, security: int
) -> SharesDeployment:
    """Plan a run and say so; `RunFailed` at once where OpenFHE is asked for and is not there."""
    deployment = SharesDeployment.of(settings, engine=engine, opener=opener, security=security)
    find_backend(deployment.backend, deployment.plan.parameters)
    if engine == "simulate":
        note(SIMULATOR)
    parameters = deployment.plan.parameters
    note(
        f"on shares: N = {parameters.ring_dim}, log2(QP) = {parameters.log2_qp}, "
        f"security {parameters.security}, opener: {opener}"
    )
    return deployment


def describe_shares(plan: SharesPlan) -> dict[str, Any]:
    """Return the parameters of a plan in plain types."""
    parameters = plan.parameters
    return {
        "ring_dim": parameters.ring_dim,
        "log2_qp": parameters.log2_qp,
        "primes": [parameters.first_bits, parameters.middle_bits, parameters.middle_bits],
        "security": parameters.security,
        "share_bits": plan.grid.bits,
        "score_bits": plan.score_bits,
        "context_bits": plan.rounding.bits,
    }
