"""Real data as a bandit: scikit-learn's handwritten digits, recognised by their reward alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from helba.errors import require_whole
from helba.extras import require_extra
from helba.problems.linear import spawn_seeds
from helba.problems.problem import Array, Problem, Round

LABELS = 10
MAX_DIM = 16
CATALOGUE_EVERY = 5


class Replay(Problem):
    """Handwritten digits to name: reward 1 for the right label, else 0; regret counts mistakes.

    Every fifth image of the data is the *catalogue*, known to everybody; the others are replayed in
    a random order, and in a new one when they are used up. The catalogue gives a whitened principal
    component analysis of d components (at most 16) and, for each label, a prototype: the mean of
    the label's reduced images. The candidate "label k" of an image is described by the elementwise
    product of its reduced image and the prototype of k, each brought to length 1, all divided by
    one constant: the longest such product in the catalogue. The few that are still longer than 1
    are brought to length 1, so L = 1. The score <theta, x> is then a similarity of image and
    prototype, and theta the learned weights of its d directions. A round shows the right label and
    K - 1 others, drawn at random and in random order.

    A linear function of such x cannot equal a 0/1 reward: the model is misspecified, and no regret
    bound applies. S = 4 is an assumption: least squares gives a theta of length 2.0 over all
    candidates at d = 16, and of about 3.2 over those that a learner plays. sigma = 0.5 is what any
    reward in [0, 1] has around its mean. Nothing is drawn but the order and the labels shown: a
    reward equals its mean.

    The images come with scikit-learn; `MissingPackage` where it is not installed.
    """

    name = "replay"
    length = 1.0
    parameter_bound = 4.0
    noise = 0.5
    reward_max = 1.0
    linear = False

    def __init__(self, *, dim: int | None = None, arms: int | None = None, seed: int = 0) -> None:
        self.dim = MAX_DIM if dim is None else dim
        self.arms = LABELS if arms is None else arms
        require_whole("dim on the replay problem", self.dim, least=2, most=MAX_DIM)
        require_whole("arms on the replay problem", self.arms, least=2, most=LABELS)
        require_extra("lab", purpose="the replay problem", only="sklearn")
        _, self._round_seed = spawn_seeds(seed)
        self._table = _describe(self.dim)

    def rounds(self, horizon: int) -> Iterator[Round]:
        """Yield `horizon` rounds, the same ones at every call."""
        require_whole("horizon", horizon, least=0, most=10**9)
        generator = np.random.default_rng(self._round_seed)
        order: list[int] = []
        for _ in range(horizon):
            if not order:
                order = generator.permutation(len(self._table.labels)).tolist()
            image = order.pop()
            shown = self._draw_labels(generator, right=int(self._table.labels[image]))
            means = (shown == self._table.labels[image]).astype(np.float64)
            yield Round(contexts=self._table.candidates[image, shown], means=means, rewards=means)

    def _draw_labels(self, generator: np.random.Generator, *, right: int) -> NDArray[np.int64]:
        others = np.delete(np.arange(LABELS), right)
        wrong = generator.permutation(others)[: self.arms - 1]
        return generator.permutation(np.append(wrong, right))


@dataclass(frozen=True, kw_only=True)
class _Table:
    """The replayed images: `labels` (n) and `candidates` (n, 10, d), one row per possible label."""

    labels: NDArray[np.int64]
    candidates: Array


@lru_cache(maxsize=2)
def _describe(dim: int) -> _Table:
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    catalogue = np.arange(len(labels)) % CATALOGUE_EVERY == 0
    mean = images[catalogue].mean(axis=0)
    _, spread, directions = np.linalg.svd(images[catalogue] - mean, full_matrices=False)
    reduced = (images - mean) @ (directions[:dim] / spread[:dim, None]).T
    prototypes = np.stack(
        [reduced[catalogue & (labels == label)].mean(axis=0) for label in range(LABELS)]
    )
    products = _unit(reduced)[:, None, :] * _unit(prototypes)[None, :, :]
    products /= np.linalg.norm(products[catalogue], axis=-1).max()
    products /= np.maximum(1.0, np.linalg.norm(products, axis=-1, keepdims=True))
    return _Table(labels=labels[~catalogue].astype(np.int64), candidates=products[~catalogue])


def _unit(rows: Array) -> Array:
    unit: Array = rows / np.linalg.norm(rows, axis=-1, keepdims=True)
    return unit
