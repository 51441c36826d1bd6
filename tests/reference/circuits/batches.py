"""Batches of users for tests: their problems, what they send, and what leaves for them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from helba.reference.circuits.argmax import Rider, comparison_vector
from helba.reference.circuits.batch import Clearing
from helba.reference.circuits.scores import score_differences
from helba.reference.engine import EncryptedVector
from helba.reference.numerics.sign import best_composition
from helba.reference.planning.clearing import answer_unit, clearing_cost
from helba.reference.planning.compare_cost import argmax_cost
from helba.reference.planning.parameters import insecure_parameters
from helba.reference.planning.score import ScoreLayout, score_cost
from helba.reference.planning.score_packing import pack_contexts, pack_model, pack_trace
from tests.engines import Desk, open_desk

QUICK = best_composition(resolution=2.0**-3, degrees=(5, 3))
METHODS = ["product", "sum"]
KEYS = ["shared", "own"]
GAMMA, SCALE, REACH = 1.0, 8.0, 40.0
FLOOD = 2.0**-10

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Problem:
    """A model, and for each user its contexts."""

    inverse: Array
    estimate: Array
    contexts: list[Array]

    @classmethod
    def of(cls, layout: ScoreLayout, *, seed: int) -> Problem:
        rng = np.random.default_rng(seed)
        root = rng.uniform(-1, 1, (layout.dim, layout.dim)) / layout.dim
        arms = rng.integers(1, layout.arms, size=layout.users, endpoint=True)
        contexts = [rng.uniform(-1, 1, (count, layout.dim)) / layout.dim**0.5 for count in arms]
        estimate = rng.uniform(-1, 1, layout.dim) / layout.dim**0.5
        return cls(root @ root.T, estimate, contexts)

    def scores(self, user: int) -> Array:
        x = self.contexts[user]
        bonus = np.einsum("ai,ij,aj->a", x, self.inverse, x)
        scores: Array = x @ self.estimate + GAMMA / 2 * bonus
        return scores


def desk_of(scheme: str, layout: ScoreLayout, *, depth: int, method: str = "sum") -> Desk:
    size = max(1 << 11, 2 * layout.compare_slots)
    parameters = insecure_parameters(ring_dim=size, depth=depth)
    return open_desk(scheme, parameters=parameters, rotations=layout.rotations_for(method))


def depth_of(layout: ScoreLayout, *, method: str) -> int:
    cost = score_cost(layout) + argmax_cost(layout, sign=QUICK, method=method)
    return (cost + clearing_cost(layout)).levels


def compare(
    desk: Desk,
    layout: ScoreLayout,
    problem: Problem,
    *,
    method: str,
    growth: Array | None = None,
    rider: Rider | None = None,
) -> EncryptedVector:
    """From every user's own ciphertext to the comparison vector of all."""
    engine = desk.engine
    sent = [
        engine.encrypt(
            pack_contexts(layout, contexts=contexts, gamma=GAMMA, scale=SCALE, user=user)
        )
        for user, contexts in enumerate(problem.contexts)
    ]
    if growth is not None:
        sent.append(engine.encrypt(pack_trace(layout, growth=growth, threshold=1.0, reach=REACH)))
    model = pack_model(layout, inverse=problem.inverse, estimate=problem.estimate)
    differences = score_differences(
        engine, engine.add_up(sent), model=engine.encrypt(model), layout=layout
    )
    return comparison_vector(
        engine, differences, layout=layout, sign=QUICK, method=method, rider=rider
    )


def leave(
    desk: Desk,
    batch: EncryptedVector,
    *,
    layout: ScoreLayout,
    users: Iterable[int] | None = None,
    keys: str = "shared",
    flood: float = FLOOD,
) -> list[EncryptedVector]:
    """The answers as they are sent: flooded together, or for users of "own" keys one by one."""
    engine, own = desk.engine, keys == "own"
    unit = answer_unit(layout, parameters=engine.parameters)
    return Clearing(engine, layout=layout, flood=None if own else flood).answers(
        batch,
        users=range(layout.users) if users is None else users,
        finish=lambda _, answer: engine.flood(answer, amount=flood * unit) if own else answer,
    )


def read(desk: Desk, answer: EncryptedVector, *, layout: ScoreLayout) -> Array:
    """All slots of an answer, in units of an entry."""
    values: Array = desk.open(answer) / answer_unit(layout, parameters=desk.engine.parameters)
    return values


def expected_of(layout: ScoreLayout, scores: Array, *, method: str) -> Array:
    """The comparison of a user by loops, dummies as `pack_contexts` lets them compete."""
    count, real = layout.arms, len(scores)

    def win(a: int, b: int) -> float:
        x = (
            (scores[a] - scores[b]) / SCALE
            if a < real and b < real
            else (a < real) * 1.0 - (b < real)
        )
        return float((1.0 + QUICK(np.array(x))) / 2.0)

    wins = [[win(a, b) for b in range(count) if b != a] for a in range(count)]
    if method == "sum" or count == 2:
        return np.array([sum(row) / (count - 1) for row in wins])
    return np.array([np.prod(row) for row in wins])
