"""The encrypted bandit as a policy to run, with its plaintext twin beside it on the same history.

The twin is told when the model was updated: an update test within its band may go either way. A
round *agrees* if the twin plays the same arm. Where it does not, the round must be a certified
tie (`tie`): a disagreement anywhere else is an error of the implementation, but for rounds whose
scores left the range that the radius promises.
"""

from __future__ import annotations

import sys
from dataclasses import asdict
from typing import Any

from helba.bandits.policy import Array, Decision, Policy
from helba.bandits.settings import Settings
from helba.lab.play.stopwatch import TimedServer
from helba.lab.play.tie import ComparisonCertificate
from helba.lab.progress import note
from helba.reference.engine import get_scheme
from helba.reference.planning.parameters import Parameters
from helba.reference.protocol import Authority, Deployment, ReferenceBandit
from helba.reference.protocol.bandit import deployment_for
from helba.reference.protocol.wire.codec import Codec
from helba.reference.twin.ciphertext import CiphertextTwin
from helba.reference.twin.follow import FollowingTwin
from helba.reference.twin.paper import PaperTwin

SIMULATOR = "the simulator: nothing is encrypted, and messages are smaller than ciphertexts"


class EncryptedPlay(Policy):
    """Plays `bandit`, and lets its twin play along; `clock` has the seconds of the bandit alone.

    `decision` says whether the twin plays the same arm, and whether the round is a certified tie.
    """

    def __init__(self, authority: Authority) -> None:
        deployment = authority.deployment
        super().__init__(deployment.settings)
        self.clock = TimedServer(authority.make_server(), codec=Codec(deployment))
        self.bandit = ReferenceBandit(self.settings, authority=authority, server=self.clock)
        self.twin = twin_of(deployment)
        self._certificate = ComparisonCertificate(deployment)

    @property
    def seconds(self) -> float:
        """Seconds of the bandit, the twin apart."""
        return self.clock.seconds

    @property
    def deployment(self) -> Deployment:
        """The deployment that the parties agreed on."""
        return self.bandit.deployment

    def _choose(self, contexts: Array) -> int:
        terms = self.bandit.terms
        with self.clock.recommending():
            arm = self.bandit.select(contexts)
        self.overflows = self.bandit.overflows
        expected = self.twin.select(contexts)
        near = self.twin.decision
        self.decision = None
        played = self.bandit.recommendation
        if near is not None and played is not None and not played.overflow:
            index = self.twin.exact_index
            missed = self._certificate.tolerance(contexts, terms=terms, round=self.round)
            self.decision = Decision(
                arm=arm,
                exact_arm=expected,
                gap=near.gap,
                loss=float(index.max() - index[arm]),
                tolerance=near.tolerance + missed,
            )
        return arm

    def _learn(self, context: Array, reward: float) -> None:
        with self.clock.reporting():
            self.bandit.update(context, reward)
        updated = self.bandit.updates > self.updates
        self.updates = self.bandit.updates
        self.twin.follow(context, reward, terms=self.bandit.terms if updated else None)

    def update_bound(self) -> float:
        """That of the encrypted run, the band of its update test included."""
        return self.bandit.update_bound()

    def regret_bound(self) -> float | None:
        """That of the encrypted run, with the lag that was seen."""
        return self.bandit.regret_bound()

    def describe(self) -> str:
        """Return how far it is, in a few words."""
        rounds = max(1, self.round)
        left = self.bandit.server.status().levels_left
        text = f"{self.updates} updates, {self.clock.seconds / rounds:.2g} s a round"
        return text if left is None else f"{text}, {left} levels left"

    def as_json(self) -> dict[str, Any]:
        """Return what only an encrypted run has; bytes and seconds are those of the whole run."""
        clock, rounds = self.clock, max(1, self.round)
        status = self.bandit.server.status()
        round_seconds = clock.recommendation.total + clock.report.total
        return {
            "refresh": self.deployment.refresh,
            "keys": self.deployment.keys,
            "security": self.deployment.parameters.security,
            "rejected": status.rejected,
            "lag": status.lag,
            "test_band": self.deployment.test_band,
            "test_disclosure": self.deployment.test_disclosure,
            "bits_returned": status.bits,
            "bit_budget": status.bit_budget,
            "bytes_up": self.bandit.bytes_up,
            "bytes_down": self.bandit.bytes_down,
            "bytes_up_per_round": self.bandit.bytes_up / rounds,
            "bytes_down_per_round": self.bandit.bytes_down / rounds,
            "seconds_per_round_without_updates": round_seconds / rounds,
            "seconds_per_update": clock.update.total / clock.updates if clock.updates else None,
            "server_seconds_per_recommendation": clock.recommendation.server / rounds,
            "user_seconds_per_recommendation": clock.recommendation.user / rounds,
            "peak_memory_bytes": peak_memory(),
            "parameters": describe_parameters(self.deployment.parameters),
        }


def plan_play(
    settings: Settings,
    *,
    engine: str,
    security: int,
    refresh: str,
    keys: str,
) -> Deployment:
    """Plan a run and say so; `RunFailed` at once where OpenFHE is asked for and is not there."""
    get_scheme(engine)
    if engine == "simulate":
        note(SIMULATOR)
    note("planning")
    return deployment_for(
        settings,
        engine=engine,
        security=security,
        refresh=refresh,
        keys=keys,
    )


def make_play(deployment: Deployment) -> EncryptedPlay:
    """Make the keys, and say so."""
    parameters, count = deployment.parameters, len(deployment.rotations) + 1
    verb = "making" if deployment.scheme == "ckks" else "pretending to make"
    note(
        f"{verb} {count} evaluation keys: N = {parameters.ring_dim}, depth {parameters.depth}, "
        f"log2(QP) = {parameters.log2_qp}, security {parameters.security}"
    )
    return EncryptedPlay(Authority(deployment))


def twin_of(deployment: Deployment) -> FollowingTwin:
    """Return the plaintext twin of a deployment, with the errors that the deployment promises."""
    if deployment.settings.profile == "paper":
        return PaperTwin(deployment.settings)
    return CiphertextTwin(deployment.settings, accuracy=deployment.accuracy)


def describe_parameters(parameters: Parameters) -> dict[str, Any]:
    """Return the parameters in plain types."""
    fields = {name: value for name, value in asdict(parameters).items() if name != "_checked"}
    return {**fields, "log2_qp": parameters.log2_qp}


def peak_memory() -> int | None:
    """Return the most memory that this process ever had, in bytes; None where nobody knows."""
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else most * 1024
