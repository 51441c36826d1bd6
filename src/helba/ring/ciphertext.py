"""Ciphertexts: polynomials that nobody but the owner of the key can read, and what is public."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from helba.errors import InvalidInput, OutOfRange
from helba.ring.key import PublicKey
from helba.ring.noise import DEVIATIONS, Bound, Operand, encryption_noise
from helba.ring.parameters import PRIMES, RingParameters


@dataclass(frozen=True, kw_only=True, repr=False)
class Ciphertext(Operand):
    """An encrypted polynomial with `primes` primes left, under the key named `key_id`.

    Its coefficients are integers; a number x stands there as round(scale x). The scale is public
    and belongs to no modulus: constants are folded into it and cost nothing. `failure` is the
    probability that a reopening it came from went around the modulus, over all of them.
    """

    body: Any = field(compare=False)
    parameters: RingParameters
    key_id: bytes
    primes: int
    scale: float
    failure: float = 0.0

    @property
    def error_bound(self) -> float:
        """No coefficient is off by more, in the ring's integers, but for 2^-57 of them."""
        return DEVIATIONS * self.noise

    @property
    def is_masked(self) -> bool:
        """True for an encrypted share, whose integers are uniform modulo the first two primes."""
        return self.bound.peak == float(self.parameters.share_modulus // 2)

    def require_room(self) -> Ciphertext:
        """Return it; `OutOfRange` if a coefficient within its bounds may go around the modulus.

        Integers of an encrypted share may go around two primes: the other share takes it back.
        """
        peak = 0.0 if self.is_masked and self.primes >= 2 else self.bound.peak
        largest, half = peak + self.error_bound, self.parameters.modulus(self.primes) / 2
        if largest < half:
            return self
        raise OutOfRange(
            f"integers of up to 2^{math.log2(largest):.1f} do not fit {count_primes(self.primes)}, "
            f"which hold 2^{math.log2(half):.1f}: lower the scale"
        )

    def require_shareable(self) -> Ciphertext:
        """Return it; `OutOfRange` if its integers do not fit the two primes that shares have."""
        replace(self, primes=min(self.primes, 2)).require_room()
        return self

    def with_scale(self, scale: float) -> Ciphertext:
        """Return the same integers read at another scale: the numbers times scale/new scale."""
        if not (math.isfinite(scale) and scale > 0):
            raise InvalidInput("scale", scale, "finite and greater than 0")
        return replace(self, scale=scale)

    def within(
        self, *, peak: float | None = None, norm: float | None = None, count: int | None = None
    ) -> Ciphertext:
        """Return the same with a tighter bound that the caller vouches for, in integers."""
        bound = self.bound
        counted = bound.count if count is None else min(count, bound.count)
        highest = bound.peak if peak is None else min(peak, bound.peak)
        longest = bound.norm if norm is None else min(norm, bound.norm)
        return replace(self, bound=Bound.of(peak=highest, norm=longest, count=counted))

    def __repr__(self) -> str:
        numbers = {"scale": self.scale, "peak": self.bound.peak, "error": self.error_bound}
        bits = ", ".join(
            f"{name}=2^{math.log2(value):.1f}" if value else f"{name}=0"
            for name, value in numbers.items()
        )
        return f"Ciphertext(primes={self.primes}, {bits}, count={self.bound.count})"

    def __getstate__(self) -> Any:
        raise TypeError("a ciphertext is stored by helba.ring.wire, not pickled")


def count_primes(primes: int) -> str:
    """Return the number with its noun."""
    return "1 prime" if primes == 1 else f"{primes} primes"


def describe_fresh(public_key: PublicKey, *, bound: Bound) -> Ciphertext:
    """Return the public side of a fresh encryption, at scale 1; it has no body yet."""
    return Ciphertext(
        body=None,
        parameters=public_key.parameters,
        key_id=public_key.key_id,
        primes=PRIMES,
        scale=1.0,
        bound=bound,
        noise=encryption_noise(public_key.parameters),
    )


def describe_share(
    public_key: PublicKey, *, count: int, scale: float = 1.0, primes: int = PRIMES
) -> Ciphertext:
    """Return the public side of a share of `count` numbers that the opener encrypted."""
    half = float(public_key.parameters.share_modulus // 2)
    fresh = describe_fresh(public_key, bound=Bound.of(peak=half, count=count))
    return replace(fresh, primes=primes).with_scale(scale)
