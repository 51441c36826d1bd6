"""Problems whose mean reward is linear in the context, with Gaussian noise."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np

from helba.errors import require_whole
from helba.problems.problem import Array, Problem, Round

# Rounds are drawn in blocks, because one draw a round costs more than a round of learning. The size
# of a block depends on the problem alone, never on the horizon: a longer run extends a shorter one.
BLOCK_ROUNDS = 256
BLOCK_NUMBERS = 2**20


class LinearProblem(Problem):
    """Rounds with means `contexts @ theta` and rewards `means + noise * N(0, 1)`, for each arm.

    A subclass sets the bounds and `theta`, and draws contexts. The seed of the parameters and the
    seed of the rounds are two children of one seed, so that neither depends on how much of the
    other was used.
    """

    theta: Array

    def __init__(self, *, round_seed: np.random.SeedSequence) -> None:
        self._round_seed = round_seed

    @abstractmethod
    def _draw_contexts(self, generator: np.random.Generator, *, count: int) -> Array:
        """Return `count` rounds of contexts: an array of shape (count, K, d)."""

    def rounds(self, horizon: int) -> Iterator[Round]:
        """Yield `horizon` rounds, the same ones at every call."""
        require_whole("horizon", horizon, least=0, most=10**9)
        generator = np.random.default_rng(self._round_seed)
        block = max(1, min(BLOCK_ROUNDS, BLOCK_NUMBERS // (self.arms * self.dim)))
        for start in range(0, horizon, block):
            contexts = self._draw_contexts(generator, count=block)
            means = contexts @ self.theta
            rewards = means + self.noise * generator.standard_normal(means.shape)
            for index in range(min(block, horizon - start)):
                yield Round(contexts=contexts[index], means=means[index], rewards=rewards[index])


def spawn_seeds(seed: int) -> tuple[np.random.SeedSequence, np.random.SeedSequence]:
    """Return independent seeds for the parameters of a problem and for its rounds."""
    require_whole("seed", seed, least=0, most=2**63 - 1)
    parameters, rounds = np.random.SeedSequence(seed).spawn(2)
    return parameters, rounds


def draw_sphere(generator: np.random.Generator, *, shape: tuple[int, ...]) -> Array:
    """Return vectors uniform on the unit sphere; the last axis of `shape` is their dimension."""
    normal = generator.standard_normal(shape)
    unit: Array = normal / np.linalg.norm(normal, axis=-1, keepdims=True)
    return unit


def draw_ball(generator: np.random.Generator, *, shape: tuple[int, ...]) -> Array:
    """Return vectors uniform in the unit ball; the last axis of `shape` is their dimension."""
    radius = generator.random((*shape[:-1], 1)) ** (1.0 / shape[-1])
    return draw_sphere(generator, shape=shape) * radius
