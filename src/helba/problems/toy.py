"""The paper's toy problem (Sec. 5): two arms in dimension two, four contexts."""

from __future__ import annotations

import math

import numpy as np

from helba.errors import InvalidInput
from helba.problems.linear import LinearProblem, spawn_seeds
from helba.problems.problem import Array

CONTEXTS = 4


class Toy(LinearProblem):
    """Four contexts of two arms in dimension two; every round shows one of them, uniformly.

    The paper gives sigma = 0.5, L = 5.5 and lambda = 1 and leaves the rest open. Here the four
    contexts are uniform in [-1, 1]^(2 x 2) and theta is uniform in [-1, 1]^2, then brought to
    length 1, so that S = 1; both are fixed by the seed. sigma is a standard deviation. Contexts are
    no longer than sqrt(2): L = 5.5 is the paper's bound, not a tight one. Rewards are clipped at
    sqrt(2) + 6 sigma (erratum 15), which happens in fewer than one of 10^8 rounds.
    """

    name = "toy"
    dim = 2
    arms = 2
    length = 5.5
    parameter_bound = 1.0
    noise = 0.5
    reward_max = math.sqrt(2) + 6 * noise

    def __init__(self, *, dim: int | None = None, arms: int | None = None, seed: int = 0) -> None:
        for name, value in (("dim", dim), ("arms", arms)):
            if value not in (None, 2):
                raise InvalidInput(name, value, "2 on the toy problem")
        parameter_seed, round_seed = spawn_seeds(seed)
        super().__init__(round_seed=round_seed)
        generator = np.random.default_rng(parameter_seed)
        self.contexts: Array = generator.uniform(-1.0, 1.0, (CONTEXTS, self.arms, self.dim))
        theta = generator.uniform(-1.0, 1.0, self.dim)
        self.theta = theta / np.linalg.norm(theta)

    def _draw_contexts(self, generator: np.random.Generator, *, count: int) -> Array:
        return self.contexts[generator.integers(CONTEXTS, size=count)]
