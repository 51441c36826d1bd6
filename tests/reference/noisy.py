"""The simulator with noise: values err as CKKS makes them err, by independent Gaussian numbers.

`SimulatedEngine` carries bounds of the error beside exact values; over hundreds of updates such
bounds say nothing. Here the errors themselves are drawn, of the size that `planning.bounds.noise`
gives to encryption, rescaling and key switching, an eighth of its bound as standard deviation. It
shows whether accuracy lasts, for horizons that are out of reach on ciphertexts. For tests.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from helba.reference.engine.engine import Engine
from helba.reference.engine.keys import EvaluationKey, PublicKey, ReencryptionKey, SecretKey
from helba.reference.engine.primitives import Array
from helba.reference.engine.simulated import SimulatorScheme
from helba.reference.engine.simulator import FRACTION_BITS, Clear, Masked, SimulatedEngine
from helba.reference.engine.vector import Body
from helba.reference.planning.bounds.noise import TAILS

__all__ = ["NoisyEngine", "NoisyScheme"]


class NoisyScheme(SimulatorScheme):
    """The simulator's keys, for engines whose values err."""

    def engine(
        self, public_key: PublicKey, *, evaluation_key: EvaluationKey | None = None
    ) -> Engine:
        """Return an engine of these tokens."""
        return NoisyEngine(public_key, evaluation_key=evaluation_key)


class NoisyEngine(SimulatedEngine):
    """Computes in the clear, with drawn errors."""

    def __init__(self, public_key: PublicKey, *, evaluation_key: EvaluationKey | None) -> None:
        super().__init__(public_key, evaluation_key=evaluation_key)
        self._generator = np.random.default_rng(secrets.randbits(128))

    def _drawn(self, count: int, bound: Callable[[int], float]) -> Array:
        return self._generator.normal(0.0, bound(count) / TAILS, count)

    def _erring(self, made: Any, bound: Callable[[int], float]) -> Clear:
        return Clear(made.values + self._drawn(len(made.values), bound), made.noise)

    def _switch_bound(self, body: Body) -> Callable[[int], float]:
        if body.degree == 2:
            return self.model.pending_key_switching
        return self.model.key_switching

    def _encrypt(self, clear: Array, level: int) -> Any:
        return self._erring(super()._encrypt(clear, level), self.model.encryption)

    def _relinearise(self, body: Body) -> Any:
        return self._erring(super()._relinearise(body), self.model.pending_key_switching)

    def _rescale(self, body: Body) -> Any:
        return self._erring(super()._rescale(body), self.model.rescaling)

    def _rotate(self, body: Body, key: int) -> Any:
        return self._erring(super()._rotate(body, key), self._switch_bound(body))

    def _sum_rotations(self, body: Body, keys: Sequence[int]) -> Any:
        total = super()._sum_rotations(body, keys)
        for _ in keys:
            total = self._erring(total, self._switch_bound(body))
        return total

    def _reencrypt(self, body: Body, key: ReencryptionKey) -> Any:
        made = super()._reencrypt(body, key)
        return self._erring(made, lambda n: self.model.reencryption(n, level=body.level))

    def _answer_refresh(self, request: Any, secret_key: SecretKey, under: PublicKey) -> Any:
        reply = super()._answer_refresh(request, secret_key, under)
        error = self._drawn(len(reply.integers), self.model.encryption) * 2.0**FRACTION_BITS
        return Masked(reply.integers + error.astype(np.int64).astype(np.uint64), reply.noise)
