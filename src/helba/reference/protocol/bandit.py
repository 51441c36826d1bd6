"""All parties in one process, behind the verbs of a policy: `select`, then `update`.

Every message crosses as bytes, so the traffic is counted and the server sees what it would see
elsewhere. The server may also be one in a process of its own (`process.ServerProcess`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from helba.bandits.bounds import growth_bound, switch_bound
from helba.bandits.policy import Array, Policy
from helba.bandits.settings import Settings
from helba.errors import InvalidInput, RunFailed
from helba.reference.planning.planner import make_plan
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.serving.server import Status
from helba.reference.protocol.user import Recommendation, User
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Answer, Message, Receipt, Refusal
from helba.reference.twin.ciphertext_bound import Comparison, fast_regret_bound
from helba.reference.twin.terms import BatchTerms

# An ask may meet an update; more often than this nothing is right.
MOST_RETRIES = 8


class ServerLink(Protocol):
    """A server, here or elsewhere."""

    def receive(self, data: bytes) -> tuple[bytes, ...]:
        """Take a message in, return those to send back."""
        ...

    def tasks(self, user: bytes) -> tuple[bytes, ...]:
        """Return what the server needs help with, for one helper."""
        ...

    def enrol(self, enrolment: bytes) -> None:
        """Serve a user from now on."""
        ...

    def introduce(self, user: bytes, inward_key: bytes) -> None:
        """Take the user's own key for data that arrives under the user's key."""
        ...

    def rotate(self, rotation: bytes) -> tuple[bytes, ...]:
        """Go on under a new collective key."""
        ...

    def notice(self) -> bytes:
        """Return the terms of the batch that is served."""
        ...

    def status(self) -> Status:
        """Return how far it is."""
        ...


def reference_settings(settings: Settings) -> Settings:
    """Return the settings for the profile `ciphertext` if they are those of shares."""
    return replace(settings, profile="ciphertext") if settings.profile == "shares" else settings


def deployment_for(
    settings: Settings,
    *,
    engine: str = "ckks",
    security: int = 128,
    refresh: str = "client",
    keys: str = "own",
) -> Deployment:
    """Plan for these settings and return the deployment; those of shares play on ciphertexts."""
    settings = reference_settings(settings)
    request = PlanRequest(
        dim=settings.dim,
        arms=settings.arms,
        horizon=settings.horizon,
        security=security,
        profile=settings.profile,
        refresh=refresh,
        bonus=settings.bonus,
        schedule=settings.schedule,
        length=settings.length,
        parameter_bound=settings.parameter_bound,
        noise=settings.noise,
        reward_max=settings.reward_max,
        ridge=settings.ridge,
        delta=settings.delta,
        trace_threshold=settings.trace_threshold,
        growth=settings.growth,
        keys=keys,
    )
    return Deployment.from_plan(make_plan(request), scheme=engine, settings=settings)


class ReferenceBandit(Policy):
    """HELBA of the profiles `ciphertext` and `paper`: a policy whose server sees ciphertexts alone.

    Planning and key generation happen here and take seconds; `deployment` skips the planning, and
    `server` puts a server of one's own choice in place of one in this process. `bytes_up` and
    `bytes_down` count what the user sent and received. Rewards may come late: `select` several
    times, and `update` later, with the round that `recommendation.round` named.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        engine: str = "ckks",
        security: int = 128,
        refresh: str = "client",
        keys: str = "own",
        deployment: Deployment | None = None,
        authority: Authority | None = None,
        server: ServerLink | None = None,
    ) -> None:
        settings = reference_settings(settings)
        super().__init__(settings)
        if authority is None and server is not None:
            raise InvalidInput("server", "one without its authority", "given with `authority`")
        if authority is None:
            authority = Authority(
                deployment
                or deployment_for(
                    settings,
                    engine=engine,
                    security=security,
                    refresh=refresh,
                    keys=keys,
                )
            )
        self.deployment = authority.deployment
        if self.deployment.settings != settings:
            raise InvalidInput("deployment", "one of other settings", "that of these settings")
        self.server: ServerLink = authority.make_server() if server is None else server
        self.user: User = authority.make_user()
        self._authority = authority
        if self.deployment.keys != "shared":
            self.server.enrol(authority.enrolment_of(self.user.id))
            self._introduce()
        self._codec = Codec(self.deployment)
        self.bytes_up = 0
        self.bytes_down = 0
        self.recommendation: Recommendation | None = None
        self._unrewarded: list[bytes] = []
        self._rewarded = b""
        self._worst_residual = 0.0
        self._worst_estimate_error = 0.0

    @property
    def terms(self) -> BatchTerms:
        """The terms of the batch that is served."""
        return self.user.read_notice(self.server.notice())

    def update_bound(self) -> float:
        """Updates by the growth rule, and by the trace rule if it is asked for."""
        by_growth = growth_bound(self.settings)
        if self.settings.schedule == "public":
            return by_growth
        by_trace = switch_bound(
            self.settings, band=self.deployment.test_band, residual=self._worst_residual
        )
        return by_growth + by_trace

    def regret_bound(self) -> float | None:
        """The bound of the profile `ciphertext`, with what was certified, and the lag seen.

        None where batches served longer than planned: their gamma was too small for the theorem.
        """
        deployment, status = self.deployment, self.server.status()
        if deployment.sign is None or deployment.method is None or status.stretch > 1.0:
            return None
        return fast_regret_bound(
            self.settings,
            residual=self._worst_residual,
            estimate_error=self._worst_estimate_error,
            lag=status.lag,
            band=deployment.test_band,
            comparison=Comparison(
                sign=deployment.sign,
                method=deployment.method,
                noise=deployment.comparison_noise + deployment.flood,
            ),
        )

    def rotate_keys(self) -> None:
        """Replace the collective keys; the model and all decisions stay."""
        self.server.rotate(self._authority.rotate())
        shared = self.deployment.keys == "shared"
        self.user.adopt(
            self._authority.public_key_bytes(),
            secret_key=self._authority.secret_key_bytes() if shared else None,
        )
        self._introduce()

    def _introduce(self) -> None:
        """Where data arrives switched, give the server the key for it."""
        if self.deployment.keys == "switched":
            self.server.introduce(self.user.id, self.user.inward_key_bytes())

    def _choose(self, contexts: Array) -> int:
        reason = ""
        for _ in range(MOST_RETRIES):
            ask = self.user.ask(contexts, terms=self.terms)
            answer = self._answer_to(ask)
            if isinstance(answer, bytes):
                break
            self.user.forget(ask)
            reason = answer
        else:
            raise RunFailed(f"the server keeps refusing this round: {reason}")
        self.recommendation = self.user.read(answer)
        self.overflows = self.user.overflows
        if self.recommendation.reply is not None:
            self._send(self.recommendation.reply)
        self._unrewarded.append(self.recommendation.round)
        return self.recommendation.arm

    def update(self, context: Array, reward: float, *, round: bytes | None = None) -> None:
        """Learn what playing `context` earned, in the oldest round that still waits or in `round`.

        A refused call changes nothing.
        """
        if round is None and self._unrewarded:
            round = self._unrewarded[0]
        if round not in self._unrewarded:
            raise InvalidInput("round", "one that does not wait", "a round that waits for a reward")
        self._rewarded = round
        super().update(context, reward)

    def _learn(self, context: Array, reward: float) -> None:
        round = self._rewarded
        first, *_ = self._send(self.user.report(round, context=context, reward=reward))
        receipt = self._read(first)
        if not isinstance(receipt, Receipt):
            raise RunFailed(f"the server refused a reward: {_reason(receipt)}")
        self._unrewarded.remove(round)
        while self._help():  # answers to others' rounds may come between
            pass
        done = self.server.status().updates
        if done > self.updates:
            terms = self.terms
            self._worst_residual = max(self._worst_residual, terms.residual)
            self._worst_estimate_error = max(self._worst_estimate_error, terms.estimate_error)
        self.updates = done

    def _answer_to(self, ask: bytes) -> bytes | str:
        """The answer, after helping where it needs refreshes; or why the server refuses."""
        replies = self._send(ask)
        while not replies and self.server.tasks(self.user.id):
            replies = self._help()
        for reply in replies:
            message = self._read(reply)
            if isinstance(message, Answer):
                return reply
            if isinstance(message, Refusal):
                return message.reason
        return "it gave the round up"

    def _help(self) -> tuple[bytes, ...]:
        """Do what the server asks for until it asks no more, or answers."""
        while True:
            tasks = self.server.tasks(self.user.id)
            if not tasks:
                return ()
            for task in tasks:
                self.bytes_down += len(task)
                replies = self._send(self.user.help(task))
                if replies:
                    return replies

    def _read(self, data: bytes) -> Message:
        return self._codec.decode(data)

    def _send(self, data: bytes) -> tuple[bytes, ...]:
        self.bytes_up += len(data)
        replies = self.server.receive(data)
        self.bytes_down += sum(map(len, replies))
        return replies


def _reason(message: Message) -> str:
    return message.reason if isinstance(message, Refusal) else "it says something else"
