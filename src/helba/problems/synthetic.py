"""Linear problems of any size: arms drawn afresh every round, or once and for all."""

from __future__ import annotations

import numpy as np

from helba.errors import require_whole
from helba.problems.linear import LinearProblem, draw_ball, draw_sphere, spawn_seeds
from helba.problems.problem import Array

DEFAULT_DIM = 8
DEFAULT_ARMS = 8


class Synthetic(LinearProblem):
    """K fresh arms every round, uniform in the unit ball; theta uniform on the sphere.

    Any d >= 1 and K >= 2, both 8 unless told. L = 1, S = 1, sigma = 0.5 (a standard deviation),
    lambda = 1; rewards are clipped at 1 + 6 sigma, which happens in fewer than one of 10^8 rounds.
    """

    name = "synthetic"
    length = 1.0
    parameter_bound = 1.0
    noise = 0.5
    reward_max = 1.0 + 6 * noise

    def __init__(self, *, dim: int | None = None, arms: int | None = None, seed: int = 0) -> None:
        self.dim = DEFAULT_DIM if dim is None else dim
        self.arms = DEFAULT_ARMS if arms is None else arms
        require_whole("dim", self.dim, least=1, most=4096)
        require_whole("arms", self.arms, least=2, most=65_536)
        parameter_seed, round_seed = spawn_seeds(seed)
        super().__init__(round_seed=round_seed)
        generator = np.random.default_rng(parameter_seed)
        self.theta = draw_sphere(generator, shape=(self.dim,))
        self._draw_parameters(generator)

    def _draw_parameters(self, generator: np.random.Generator) -> None:
        """Draw what else stays fixed over the rounds; nothing where arms are fresh."""

    def _draw_contexts(self, generator: np.random.Generator, *, count: int) -> Array:
        return draw_ball(generator, shape=(count, self.arms, self.dim))


class FixedArms(Synthetic):
    """Like `Synthetic`, but the K arms are drawn once and stay the same in every round."""

    name = "fixed-arms"
    contexts: Array

    def _draw_parameters(self, generator: np.random.Generator) -> None:
        self.contexts = draw_ball(generator, shape=(self.arms, self.dim))

    def _draw_contexts(self, generator: np.random.Generator, *, count: int) -> Array:  # noqa: ARG002
        return np.broadcast_to(self.contexts, (count, self.arms, self.dim))
