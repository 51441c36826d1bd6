"""All parties of a small deployment around one table, and oracles from what only a test can open.

Plans and keys are made once. Rings are tiny and without any security: the depth and the scale are
those of the plan, and so are all certificates, for noise grows with the ring.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.bandits.settings import Settings
from helba.problems.toy import Toy
from helba.reference.engine import EncryptedVector, KeySet
from helba.reference.engine.vector import Body
from helba.reference.numerics.argmax import argmax_tolerance
from helba.reference.planning.bounds.precision import root_noise
from helba.reference.planning.layout.root_packing import root_scale
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.planning.plan import Plan
from helba.reference.planning.planner import make_plan
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.bandit import ReferenceBandit
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.serving.server import Server
from helba.reference.protocol.user import Recommendation, User
from helba.reference.protocol.wire.codec import MAGIC, VERSION, Codec
from helba.reference.protocol.wire.frame import frame, frame_bytes
from helba.reference.protocol.wire.messages import Message, TaskReply, head_of
from helba.reference.twin.ciphertext_bound import ROOT_SHARE
from helba.reference.twin.radius import quadratic_range
from helba.reference.twin.terms import BatchTerms

Array = NDArray[np.float64]

TOY = PlanRequest(
    dim=2,
    arms=2,
    horizon=130,
    length=Toy.length,
    parameter_bound=Toy.parameter_bound,
    noise=Toy.noise,
    reward_max=Toy.reward_max,
)
# Short contexts: the trace grows slowly, and its tests decide more often than the growth rule.
MILD = PlanRequest(dim=2, arms=3, horizon=200, growth=1.0, trace_threshold=0.3)


@lru_cache(maxsize=32)
def plan_of(request: PlanRequest) -> Plan:
    return make_plan(request)


@lru_cache(maxsize=16)
def deployment_of(request: PlanRequest, *, scheme: str, ring_dim: int = 1 << 9) -> Deployment:
    plan = plan_of(request)
    small = insecure_parameters(
        ring_dim=ring_dim,
        depth=plan.parameters.depth,
        scale_bits=plan.parameters.scale_bits,
        digits=plan.parameters.digits,
        secret=plan.parameters.secret,
    )
    return Deployment.from_plan(plan, scheme=scheme, parameters=small)


def authority_of(request: PlanRequest, *, scheme: str, ring_dim: int = 1 << 9) -> Authority:
    """An authority that nobody has enrolled with; its keys are made once."""
    deployment = deployment_of(request, scheme=scheme, ring_dim=ring_dim)
    return Authority(deployment, keys=_keys_of(request, scheme, ring_dim))


@lru_cache(maxsize=16)
def _keys_of(request: PlanRequest, scheme: str, ring_dim: int) -> KeySet:
    return Authority(deployment_of(request, scheme=scheme, ring_dim=ring_dim))._keys


@dataclass(frozen=True)
class Opened:
    """The model of a batch, decrypted."""

    inverse: Array
    estimate: Array
    scored_inverse: Array


class Table:
    """A server, users, and the key that opens everything."""

    def __init__(
        self, authority: Authority, *, server: Server | None = None, user: User | None = None
    ) -> None:
        self.authority = authority
        self.deployment = authority.deployment
        self.settings: Settings = self.deployment.settings
        self.user = authority.make_user() if user is None else user
        if server is None:
            self.server = authority.make_server()
        else:
            self.server = server
            if user is None:
                self._enrol(self.user)
        self.codec = Codec(self.deployment)

    def new_user(self) -> User:
        """One more user whom the server knows."""
        user = self.authority.make_user()
        self._enrol(user)
        return user

    def _enrol(self, user: User) -> None:
        if self.deployment.keys != "shared":
            self.server.enrol(self.authority.enrolment_of(user.id))

    # -- messages

    def tasks(self, user: User | None = None) -> tuple[bytes, ...]:
        """What the server asks a helper for."""
        return self.server.tasks((user or self.user).id)

    def decode(self, data: bytes) -> Any:
        return self.codec.decode(data)

    def encode(self, message: Message) -> bytes:
        return self.codec.encode(message)

    def force(self, message: Message) -> bytes:
        """The bytes of a message of any length; of that of its kind, if it fits."""
        head = head_of(message, deployment=self.deployment.fingerprint)
        needed = frame_bytes(head=len(head), parts=[len(part) for part in message.parts])
        return frame(
            magic=MAGIC,
            version=VERSION,
            kind=message.kind,
            head=head,
            parts=message.parts,
            length=max(needed, self.codec.length_of(message)),
        )

    def ask(self, contexts: Any, *, user: User | None = None) -> bytes:
        user = user or self.user
        return user.ask(contexts, terms=user.read_notice(self.server.notice()))

    def play(self, contexts: Any, *, user: User | None = None) -> Recommendation:
        """A round up to the arm; the bit of the test is not sent."""
        user = user or self.user
        (answer,) = self.server.receive(self.ask(contexts, user=user))
        return user.read(answer)

    def send_bit(self, recommendation: Recommendation) -> None:
        if recommendation.reply is not None:
            assert self.server.receive(recommendation.reply) == ()

    def report(
        self, round: bytes, *, context: Any, reward: float, user: User | None = None
    ) -> tuple[bytes, ...]:
        user = user or self.user
        return self.server.receive(user.report(round, context=context, reward=reward))

    def help(self) -> None:
        """Do all that the server asks for."""
        while tasks := self.tasks():
            for task in tasks:
                self.server.receive(self.user.help(task))

    def learn(self, context: Any, reward: float) -> None:
        """A whole round for one context: ask, answer, bit, report, help."""
        played = self.play([context])
        self.send_bit(played)
        self.report(played.round, context=context, reward=reward)
        self.help()

    # -- what only a test can see

    def open(self, vector: EncryptedVector) -> Array:
        return self.server._engine.decrypt(vector, secret_key=self.authority._keys.secret)

    def design(self) -> Array:
        return self.deployment.matrices.unpack(self.open(self.server.design))

    def response(self) -> Array:
        side = self.deployment.matrices.side
        return self.open(self.server.response).reshape(side, side)[: self.settings.dim, 0]

    def model(self) -> Opened:
        layout, d = self.deployment.scores, self.settings.dim
        column = self.open(self.server.model.scoring).reshape(layout.features, layout.pairs)[:, 0]
        scored, upper = np.zeros((d, d)), np.triu_indices(d)
        scored[upper] = scored.T[upper] = column[d : layout.constant_feature]
        return Opened(
            inverse=self.deployment.matrices.unpack(self.open(self.server.model.inverse)),
            estimate=column[:d],
            scored_inverse=scored,
        )

    def state(self) -> dict[str, Any]:
        """Everything that a message may have changed, as far as it can be compared."""
        server = self.server
        status = {k: v for k, v in asdict(server.status()).items() if k != "levels_left"}
        return {
            **status,
            "schedule": (
                server.schedule.start,
                server.schedule.plays,
                server.schedule.covered,
                server.schedule.passed,
            ),
            "design": self.design().round(6).tolist(),
            "response": self.response().round(6).tolist(),
            "models": list(server.models),
            "rounds": {k: (v.user, v.reported) for k, v in server.rounds.items()},
            "ledger": server.ledger.as_dict(),
            "held": [each.count for each in server.held],
            "answers": dict(server.answers),
            "tests": sorted(server.growth.out),
            "seen": (server.growth.count, len(server.growth.waiting)),
            "tasks": self.tasks(),
        }


class History:
    """What was reported, in the order of its coming: numpy's view of the statistics."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.contexts: list[Array] = []
        self.rewards: list[float] = []

    def add(self, context: Any, reward: float) -> None:
        self.contexts.append(np.asarray(context, dtype=np.float64))
        self.rewards.append(reward)

    def design(self, samples: int | None = None) -> Array:
        x = np.array(self.contexts[:samples]).reshape(-1, self.settings.dim)
        return self.settings.ridge * np.eye(self.settings.dim) + x.T @ x

    def response(self, samples: int | None = None) -> Array:
        x = np.array(self.contexts[:samples]).reshape(-1, self.settings.dim)
        return x.T @ np.array(self.rewards[:samples])


def require_model(table: Table, history: History) -> None:
    """The served model is within its terms of numpy's ridge regression, in both its vectors."""
    terms, model = table.server.terms, table.model()
    V, g = history.design(terms.samples), history.response(terms.samples)
    lower = np.linalg.cholesky(V)
    first = 1e-7 if terms.number == 0 else 0.0  # its terms leave out the noise of encryption
    for inverse in (model.inverse, model.scored_inverse):
        gap = lower.T @ inverse @ lower - np.eye(len(V))
        assert np.linalg.norm(gap, 2) <= terms.residual + first
    off = np.linalg.norm(lower.T @ (model.estimate - np.linalg.solve(V, g)))
    assert off <= terms.estimate_error + first


def index_of(
    deployment: Deployment, contexts: Array, *, terms: BatchTerms, history: History
) -> tuple[Array, float]:
    """The exact index of every arm by numpy, and how far the best may be missed."""
    settings, weights = deployment.settings, terms.weights(deployment.settings)
    V, g = history.design(terms.samples), history.response(terms.samples)
    z = np.einsum("ki,ij,kj->k", contexts, np.linalg.inv(V), contexts)
    mean, error = contexts @ np.linalg.solve(V, g), terms.estimate_error * math.sqrt(z.max())
    if settings.bonus == "sqrt":
        bonus, scale, missed = _root_bonus(deployment, contexts, terms=terms, z=z)
    else:
        bonus, missed = weights.gamma / 2.0 * z, weights.gamma / 2.0 * terms.residual * z.max()
        scale = quadratic_range(
            settings,
            contexts,
            radius=weights.certain_radius,
            gamma=weights.gamma,
            residual=terms.residual,
        )
    tolerance = (scale or 1.0) * _relative_tolerance(deployment.fingerprint, deployment)
    return mean + bonus, tolerance + 2.0 * (error + missed)


def _root_bonus(
    deployment: Deployment, contexts: Array, *, terms: BatchTerms, z: Array
) -> tuple[Array, float, float]:
    """The exact bonus of every arm, the range of the index, and how far a bonus may be missed."""
    settings, e = deployment.settings, terms.residual
    scale = root_scale(settings, terms=terms)
    longest = float(np.linalg.norm(contexts, axis=1).max())
    weight = terms.weights(settings).radius / math.sqrt(1.0 - e)
    floor = scale.top * longest**2 / scale.rounds
    # |z' - z| <= e z, and the sum of the two roots is at least 2 sqrt((1 - e) z)
    drift = e * math.sqrt(z.max() / (1.0 - e)) / 2.0
    missed = weight * (ROOT_SHARE * math.sqrt(floor) + drift)
    noise = root_noise(settings, slots=deployment.scores.slots, parameters=deployment.parameters)
    reach = longest * scale.kappa
    return weight * np.sqrt(z + floor), reach, missed + reach * noise


_tolerances: dict[str, float] = {}


def _relative_tolerance(name: str, deployment: Deployment) -> float:
    """The tolerance of the argmax at scale 1, worked out once for each deployment."""
    if name not in _tolerances:
        assert deployment.sign is not None
        assert deployment.method is not None
        _tolerances[name] = argmax_tolerance(
            sign=deployment.sign,
            arms=deployment.settings.arms,
            scale=1.0,
            method=deployment.method,
            noise=deployment.comparison_noise + deployment.flood,
        )
    return _tolerances[name]


def require_arm(
    deployment: Deployment, contexts: Array, *, arm: int, terms: BatchTerms, history: History
) -> bool:
    """The arm is the best one up to the certificate; return whether only it could be."""
    index, tolerance = index_of(deployment, contexts, terms=terms, history=history)
    assert index.max() - index[arm] <= tolerance
    if len(index) == 1:
        return True
    return bool(index.max() - np.partition(index, -2)[-2] > tolerance)


def play_toy(
    bandit: ReferenceBandit, *, rounds: int, rotate_after: int | None = None
) -> tuple[list[int], bool]:
    """The arms of rounds of the toy problem, and whether none was a tie."""
    arms, certain, history = [], True, History(bandit.settings)
    for number, each in enumerate(Toy(seed=0).rounds(rounds)):
        if number == rotate_after:
            bandit.rotate_keys()
        terms = bandit.terms
        arm = bandit.select(each.contexts)
        certain &= require_arm(
            bandit.deployment, each.contexts, arm=arm, terms=terms, history=history
        )
        history.add(each.contexts[arm], float(each.rewards[arm]))
        bandit.update(each.contexts[arm], float(each.rewards[arm]))
        arms.append(arm)
    return arms, certain


def draw_contexts(
    generator: np.random.Generator, settings: Settings, *, arms: int | None = None
) -> Array:
    """Contexts of every length up to L."""
    count = settings.arms if arms is None else arms
    x = generator.normal(size=(count, settings.dim))
    x *= settings.length * generator.random((count, 1)) / np.linalg.norm(x, axis=1)[:, None]
    return x


def with_settings(authority: Authority, **changes: Any) -> Authority:
    """An authority of the same plan for other settings, which the plan does not know of."""
    deployment = authority.deployment
    return Authority(replace(deployment, settings=replace(deployment.settings, **changes)))


def forge_share(
    table: Table, task: bytes, *, how: str, spare: bytes | None = None, shift: float | Array = 1.0
) -> bytes:
    """A share that answers this refresh wrongly, but rightly encrypted and named.

    "zeros" and "random" encrypt other numbers, "shifted" adds `shift` to the right ones, one for
    all slots or one for each, and "another" is the share in `spare`, the reply to another refresh.
    """
    engine, own = table.user._engine, table.user._own
    request = own.request_from_bytes(table.decode(task).parts[0])
    honest = own.answer_refresh(request, secret_key=table.user._secret_key, under=engine.public_key)
    simulated = table.deployment.scheme == "simulate"
    if how == "another":
        assert spare is not None
        payload = engine.reply_from_bytes(table.decode(spare).parts[0]).payload
    else:
        numbers: float | Array | None = {"zeros": 0.0, "shifted": shift}.get(how)
        generator = np.random.default_rng(0)
        values = (
            generator.uniform(-1, 1, request.slots)
            if numbers is None
            else np.full(request.slots, numbers)
        )
        if simulated:
            integers = np.round(values * 2.0**40).astype(np.int64).astype(np.uint64)
            if how == "shifted":
                integers = integers + honest.payload.integers
            payload = replace(honest.payload, integers=integers)
        else:
            payload = engine.encrypt(values)._body.payload
            if how == "shifted":
                payload = engine._add(Body(honest.payload, 0), Body(payload, 0))
    forged = type(honest)(payload, slots=honest.slots, tag=honest.tag, id=honest.id)
    part = engine.reply_to_bytes(forged)
    name = table.decode(task).task
    return table.encode(TaskReply(user=table.user.id, task=name, work="refresh", parts=(part,)))
