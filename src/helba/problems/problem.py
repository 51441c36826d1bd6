"""The interface of a problem: a reproducible stream of rounds, and the bounds that describe it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round: K x d contexts, the mean reward of every arm, and the reward each would earn.

    A learner sees `contexts` and the one entry of `rewards` that it plays; regret is measured
    with `means`. All rewards of a round are drawn whichever arm is played, so that policies
    compared on the same seed meet the same luck. `rewards` are not clipped.
    """

    contexts: Array
    means: Array
    rewards: Array


class Problem(ABC):
    """A stream of rounds fixed by a seed, and the public bounds a learner may rely on.

    `length` bounds the norm of every context (L), `parameter_bound` that of the parameter (S),
    `noise` is the subgaussian constant of rewards (sigma), `reward_max` where they are clipped,
    `ridge` the regularisation that goes with the problem (lambda). Where `linear` is False the
    means are no linear function of the contexts, and no regret bound applies.
    """

    name: str
    dim: int
    arms: int
    length: float
    parameter_bound: float
    noise: float
    reward_max: float
    ridge: float = 1.0
    linear: bool = True

    @abstractmethod
    def rounds(self, horizon: int) -> Iterator[Round]:
        """Yield `horizon` rounds, the same ones at every call."""
