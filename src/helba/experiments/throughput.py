"""How many users a second one server answers when they share ciphertexts.

A batch goes from the users' ciphertexts to one answer for each: the ciphertexts are added up, one
evaluation compares everybody's arms, and every answer is cleared of the others and flooded for a
shared key. All of that counts in `recommendations_per_second`, the randomness of every answer
included; the masks and the model, which stay from batch to batch, do not. Reading the users'
messages and writing the answers counts in `recommendations_per_second_with_messages`. With keys of
their own, every answer is re-encrypted to its user and flooded under its key as well:
`recommendations_per_second_reencrypted`, and with messages
`recommendations_per_second_with_own_keys`. (Such answers would not need the flood for a shared key,
which is counted all the same.) What users do themselves is reported beside, and `core_seconds`,
what a batch takes of one core, messages apart: on a busy machine that is less than it takes by the
clock.

Each core serves a batch of its own: that wastes less than sharing every operation between them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from helba.circuits.argmax import comparison_vector
from helba.circuits.batch import Clearing
from helba.circuits.scores import score_differences
from helba.engine import EncryptedVector, Engine, KeySet, get_scheme
from helba.engine.parallel import run_parallel
from helba.errors import InvalidInput, RunFailed, require_positive
from helba.planning.clearing import answer_unit
from helba.planning.plan import Plan
from helba.planning.planner import make_plan
from helba.planning.request import PlanRequest
from helba.planning.score import ScoreLayout, most_users
from helba.planning.score_packing import pack_contexts, pack_model, read_answer
from helba.planning.sizes import outward_level

__all__ = ["measure_throughput"]

Array = NDArray[np.float64]

SEED = 20261115
HORIZON = 1000
# The users' ciphertexts are made and added in portions: a server would not keep them either.
PORTION = 32
# Messages that every core reads and writes, and contexts that it encrypts, to learn what one takes.
MESSAGES = 16
ENCRYPTIONS = 8
CHECKED_ANSWERS = 16


def measure_throughput(
    *,
    dim: int,
    arms: int,
    users: int | None = None,
    seconds: float = 10.0,
    security: int = 128,
) -> dict[str, Any]:
    """Serve one batch again and again for `seconds`, at least once, after one to warm up.

    Without `users` as many as fit the ring that is chosen for them. Raises `RunFailed` if an answer
    is not the right one.
    """
    require_positive("seconds", seconds)
    plan = _plan(dim=dim, arms=arms, users=users, security=security)
    cores = len(os.sched_getaffinity(0))
    batch = _Batch.of(plan)
    sent = batch.send(cores=cores)
    server = _Server(batch, sent=sent)
    batch.check(server.serve(0).answers)
    served: list[_Served] = []
    walls: list[float] = []
    while sum(walls) < seconds:
        began = time.perf_counter()
        served += run_parallel(server.serve, range(cores), threads=cores)
        walls.append(time.perf_counter() - began)
    messages = server.measure_messages(list(served[-1].answers.values()), cores=cores)
    own = server.measure_own_keys(list(served[-1].answers.values()), cores=cores)
    count, parameters = batch.layout.users, plan.parameters
    wall = sum(walls) / len(served)
    read = wall + messages.seconds / cores
    return {
        "dim": dim,
        "arms": arms,
        "users": count,
        "recommendations_per_second": count / wall,
        "recommendations_per_second_with_messages": count / read,
        "recommendations_per_second_reencrypted": count / (wall + own / cores),
        "recommendations_per_second_with_own_keys": count / (read + own / cores),
        "seconds": {  # of one core and one batch
            "adding": float(np.mean([each.adding for each in served])),
            "evaluation": float(np.mean([each.evaluation for each in served])),
            "clearing": float(np.mean([each.clearing for each in served])),
            "own_keys": own,
            "reading": messages.reading,
            "writing": messages.writing,
        },
        "core_seconds": float(np.mean([each.core_seconds for each in served])),
        "encryption_seconds_per_user": sent.encrypting,
        "bytes_up": messages.bytes_up,
        "bytes_down": messages.bytes_down,
        "batches": len(served),
        "cores": cores,
        "argmax": plan.method,
        "flood": plan.flood,
        "parameters": {
            "ring_dim": parameters.ring_dim,
            "log2_qp": parameters.log2_qp,
            "depth": parameters.depth,
            "scale_bits": parameters.scale_bits,
            "digits": parameters.digits,
            "security": security,
        },
    }


def _plan(*, dim: int, arms: int, users: int | None, security: int) -> Plan:
    alone = PlanRequest(dim=dim, arms=arms, horizon=HORIZON, security=security)
    plan = make_plan(alone if users is None else replace(alone, users=users))
    while users is None:  # a batch needs a level more than one user, and perhaps a larger ring
        most = most_users(dim=dim, arms=arms, max_slots=plan.parameters.max_slots)
        if most <= plan.users:
            break
        plan = make_plan(replace(alone, users=most))
    if plan.sign is None or plan.method is None:
        raise InvalidInput("profile", "paper", "fast")
    return plan


@dataclass(frozen=True, kw_only=True)
class _Sent:
    """What the users sent: all of it added up, and the ciphertexts of the first ones."""

    total: EncryptedVector
    first: Sequence[EncryptedVector]
    encrypting: float  # seconds of a user on one core


@dataclass(frozen=True, kw_only=True)
class _Served:
    """A batch that was served, and what it took; `core_seconds` without waiting for a core.

    `answers` are those of the users who are looked at: a server does not keep what it has sent.
    """

    answers: Mapping[int, EncryptedVector]
    core_seconds: float
    adding: float
    evaluation: float
    clearing: float


@dataclass(frozen=True, kw_only=True)
class _Messages:
    """Seconds of all messages of a batch on one core, and bytes of each."""

    reading: float
    writing: float
    bytes_up: int
    bytes_down: int

    @property
    def seconds(self) -> float:
        return self.reading + self.writing


@dataclass(frozen=True, kw_only=True)
class _Batch:
    """Keys, a model and contexts of all users, in the clear as only an experiment has them."""

    plan: Plan
    layout: ScoreLayout
    engine: Engine
    keys: KeySet
    contexts: Array
    inverse: Array
    estimate: Array
    gamma: float

    @classmethod
    def of(cls, plan: Plan) -> _Batch:
        request = plan.request
        dim, arms = request.dim, request.arms
        layout = ScoreLayout(dim=dim, arms=arms, users=request.users, form=plan.layout)
        assert plan.method is not None
        scheme = get_scheme("ckks")
        keys = scheme.generate_keys(plan.parameters, rotations=layout.rotations_for(plan.method))
        rng = np.random.default_rng(SEED)
        contexts = rng.normal(size=(layout.users, arms, dim))
        contexts /= np.linalg.norm(contexts, axis=2, keepdims=True)
        estimate = rng.normal(size=dim)
        root = rng.normal(size=(dim, 2 * dim)) / np.sqrt(dim)
        return cls(
            plan=plan,
            layout=layout,
            engine=scheme.engine(keys.public, evaluation_key=keys.evaluation),
            keys=keys,
            contexts=contexts,
            inverse=np.linalg.inv(np.eye(dim) + root @ root.T),
            estimate=estimate / np.linalg.norm(estimate),
            gamma=2.0,
        )

    @property
    def level(self) -> int:
        """Where a round starts that ends on the last level."""
        return self.plan.parameters.depth - self.plan.round_levels

    @property
    def unit(self) -> float:
        """What entries of an answer are multiplied by."""
        return answer_unit(self.layout, parameters=self.plan.parameters)

    @property
    def scores(self) -> Array:
        """Of each user, in the clear."""
        bonus = np.einsum("uki,ij,ukj->uk", self.contexts, self.inverse, self.contexts)
        scores: Array = self.contexts @ self.estimate + self.gamma / 2.0 * bonus
        return scores

    @property
    def scale(self) -> float:
        """What scores may differ by."""
        return float(np.ptp(self.scores))

    @property
    def looked_at(self) -> list[int]:
        """The users whose answers are checked."""
        count = min(CHECKED_ANSWERS, self.layout.users)
        return [int(user) for user in np.linspace(0, self.layout.users - 1, count)]

    def send(self, *, cores: int) -> _Sent:
        """Encrypt everybody's contexts and add them up, a portion at a time."""
        scale, users = self.scale, self.layout.users

        def encrypt(user: int) -> EncryptedVector:
            packed = pack_contexts(
                self.layout,
                contexts=self.contexts[user],
                gamma=self.gamma,
                scale=scale,
                user=user,
            )
            return self.engine.encrypt(packed, level=self.level)

        first = run_parallel(encrypt, range(min(PORTION, users)), threads=cores)
        total = self.engine.add_up(first)
        for start in range(PORTION, users, PORTION):
            portion = range(start, min(start + PORTION, users))
            vectors = run_parallel(encrypt, portion, threads=cores)
            total = self.engine.add_up([total, *vectors])
        began = time.perf_counter()
        some = islice(cycle(range(users)), cores * ENCRYPTIONS)
        run_parallel(encrypt, some, threads=cores)
        encrypting = (time.perf_counter() - began) / ENCRYPTIONS
        return _Sent(total=total, first=first, encrypting=encrypting)

    def check(self, answers: Mapping[int, EncryptedVector]) -> None:
        """Raise `RunFailed` unless users find their best arm, and only noise of the others."""
        layout, plan = self.layout, self.plan
        assert plan.method is not None
        noise = plan.flood + plan.comparison_error
        tolerance = plan.certificates["argmax"].error * self.scale / plan.score_range
        for user in self.looked_at:
            values = self.engine.decrypt(answers[user], secret_key=self.keys.secret) / self.unit
            b = read_answer(layout, values=values, method=plan.method, user=user).comparison
            scores = self.scores[user]
            if scores.max() - scores[np.argmax(b)] > tolerance:
                raise RunFailed(f"user {user} does not get the best arm")
            others = ~layout.slots_of(user, among=layout.compare_slots)
            if np.abs(values[others]).max(initial=0.0) > noise:
                raise RunFailed(f"user {user} gets more than noise of the others")


class _Server:
    """What stays from batch to batch: the encrypted model, and the masks of the answers."""

    def __init__(self, batch: _Batch, *, sent: _Sent) -> None:
        self.batch, self.sent = batch, sent
        packed = pack_model(batch.layout, inverse=batch.inverse, estimate=batch.estimate)
        self.model = batch.engine.encrypt(packed, level=batch.level)
        level = batch.level
        reader = batch.engine.collect(slots=batch.layout.slots, level=level)
        self.parsed = [reader.read(batch.engine.vector_to_bytes(vector)) for vector in sent.first]
        self.clearing = Clearing(batch.engine, layout=batch.layout, flood=batch.plan.flood)

    def serve(self, _: int) -> _Served:
        """From parsed ciphertexts to answers. The first users' stand for all others' in the sum.

        That takes as long, and spares the memory of all; the evaluation then starts from the sum
        that was made before.
        """
        engine, plan, layout = self.batch.engine, self.batch.plan, self.batch.layout
        assert plan.sign is not None
        assert plan.method is not None
        clock, started = [time.perf_counter()], time.thread_time()
        added = engine.collect(slots=layout.slots, level=self.batch.level)
        added.add(islice(cycle(self.parsed), layout.users))
        added.total()
        clock.append(time.perf_counter())
        differences = score_differences(engine, self.sent.total, model=self.model, layout=layout)
        comparison = comparison_vector(
            engine, differences, layout=layout, sign=plan.sign, method=plan.method
        )
        comparison = engine.lower(comparison, comparison.level)  # finishes what is pending
        clock.append(time.perf_counter())
        made, looked_at = enumerate(self.clearing.each(comparison)), set(self.batch.looked_at)
        answers = {user: answer for user, answer in made if user in looked_at}
        clock.append(time.perf_counter())
        adding, evaluation, clearing = np.diff(clock).tolist()
        return _Served(
            answers=answers,
            core_seconds=time.thread_time() - started,
            adding=adding,
            evaluation=evaluation,
            clearing=clearing,
        )

    def measure_own_keys(self, answers: Sequence[EncryptedVector], *, cores: int) -> float:
        """Return the seconds of one core to re-encrypt and flood all answers of a batch.

        A few users stand for all.
        """
        engine, scheme, plan = self.batch.engine, get_scheme("ckks"), self.batch.plan
        lines = []
        for _ in range(cores):
            pair = scheme.generate_pair(plan.parameters)
            key = scheme.make_reencryption_key(
                self.batch.keys.secret,
                recipient=pair.public,
                level=outward_level(plan.parameters),
            )
            lines.append((key, scheme.engine(pair.public)))

        def leave(index: int) -> None:
            key, theirs = lines[index % cores]
            moved = engine.reencrypt(answers[index % len(answers)], key=key)
            theirs.flood(moved, amount=plan.flood * self.batch.unit)

        run_parallel(leave, range(cores), threads=cores)  # sets everything up
        began = time.perf_counter()
        run_parallel(leave, range(cores * MESSAGES), threads=cores)
        return (time.perf_counter() - began) * self.batch.layout.users / MESSAGES

    def measure_messages(self, answers: Sequence[EncryptedVector], *, cores: int) -> _Messages:
        """Read what users sent and write answers, a few of each on every core."""
        engine, batch = self.batch.engine, self.batch
        layout, level = batch.layout, batch.level
        up = engine.vector_to_bytes(self.sent.first[0])
        down = engine.vector_to_bytes(answers[0])
        total = engine.collect(slots=layout.slots, level=level)

        def read(_: int) -> None:
            for _ in range(MESSAGES):
                total.read(up)

        def write(core: int) -> None:
            for index in range(MESSAGES):
                engine.vector_to_bytes(answers[(core + index) % len(answers)])

        clock = [time.perf_counter()]
        for work in (read, write):
            run_parallel(work, range(cores), threads=cores)
            clock.append(time.perf_counter())
        reading, writing = (np.diff(clock) * layout.users / MESSAGES).tolist()
        return _Messages(reading=reading, writing=writing, bytes_up=len(up), bytes_down=len(down))
