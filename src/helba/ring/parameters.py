"""Parameters of the ring: a `RingParameters` object exists only if it meets its security level.

A ciphertext has two polynomials modulo X^N + 1 and modulo the product of at most three primes. A
fresh one has all three; every product spends one. The first prime is what is left at the end, the
middle primes are what products divide by. Key switching uses one more prime, P, of 60 bits, and
cuts the modulus into three digits of one prime each.

The primes are those that OpenFHE 1.6.1 takes for these sizes: the largest one below 2^first_bits,
and for the middle ones the nearest below and above 2^middle_bits, all of them 1 modulo 2N. They are
computed here, so that the simulator has them too; the OpenFHE backend refuses to work if they
differ.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import InitVar, dataclass
from functools import cache, cached_property
from typing import ClassVar

from helba.errors import InvalidInput, require_whole
from helba.ring.security import RING_DIMS, describe_ring, max_log2_qp

PRIMES = 3
AUXILIARY_BITS = 60
# The middle primes stand on both sides of 2^middle_bits; together they stay below this excess.
EXCESS_BITS = 1


@dataclass(frozen=True, kw_only=True)
class RingParameters:
    """The ring of dimension `ring_dim` at `security` bits.

    `security` is None only for `insecure_parameters`. `log2_qp` bounds the bits of the modulus that
    security depends on.
    """

    ring_dim: int
    security: int | None
    _insecure: InitVar[bool] = False

    # From 56 bits on OpenFHE takes two primes for P. Two primes carry a share: with 95 bits or more
    # a message of 2^54 wraps around with probability 2^-40 at most.
    first_bits: ClassVar[int] = 55
    middle_bits: ClassVar[int] = 49
    log2_qp: ClassVar[int] = first_bits + 2 * middle_bits + EXCESS_BITS + AUXILIARY_BITS

    def __post_init__(self, _insecure: bool) -> None:
        if _insecure and self.security is None:
            return
        if self.security is None:
            raise InvalidInput("security", None, "one of 128, 192, 256")
        limit = max_log2_qp(self.ring_dim, security=self.security)
        if self.log2_qp > limit:
            ring = describe_ring(self.ring_dim)
            expected = f"at most {limit} at N = {ring} for {self.security} bits (ePrint 2024/463)"
            raise InvalidInput("log2(QP)", self.log2_qp, expected)

    @cached_property
    def moduli(self) -> tuple[int, int, int]:
        """The primes; the first one is the last that is left."""
        first, middle, step = 1 << self.first_bits, 1 << self.middle_bits, 2 * self.ring_dim
        return (
            next(filter(_is_prime, range(first + 1 - step, 0, -step))),
            next(filter(_is_prime, range(middle + 1 - step, 0, -step))),
            next(filter(_is_prime, range(middle + 1, first, step))),
        )

    @cached_property
    def share_modulus(self) -> int:
        """The product of the first two primes, modulo which values are shared and reopened."""
        return self.modulus(2)

    def modulus(self, primes: int) -> int:
        """Return the product of the first `primes` primes."""
        return math.prod(self.moduli[:primes])

    @cached_property
    def fingerprint(self) -> bytes:
        """Eight bytes that name these parameters; data of one fingerprint never meets another's."""
        text = f"{self.ring_dim} {self.first_bits} {self.middle_bits} {self.security}"
        return hashlib.blake2b(text.encode(), digest_size=8).digest()


@cache  # their primes are looked for once
def choose_parameters(*, security: int = 128) -> RingParameters:
    """Return the smallest ring that carries the primes at `security` bits."""
    limits = {ring_dim: max_log2_qp(ring_dim, security=security) for ring_dim in RING_DIMS}
    ring_dim = next(each for each in RING_DIMS if RingParameters.log2_qp <= limits[each])
    return RingParameters(ring_dim=ring_dim, security=security)


def insecure_parameters(log2_ring_dim: int = 9) -> RingParameters:
    """Return a small ring without any security, with the usual primes: for tests only."""
    require_whole("log2_ring_dim", log2_ring_dim, least=4, most=12)
    return RingParameters(ring_dim=1 << log2_ring_dim, security=None, _insecure=True)


def _is_prime(number: int) -> bool:
    """Miller and Rabin's test; these bases decide it below 3.3e24 (Sorenson, Webster 2015)."""
    even = number - 1
    halvings = (even & -even).bit_length() - 1
    odd = even >> halvings
    for base in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41):
        powers = [pow(base, odd << doublings, number) for doublings in range(halvings)]
        if powers[0] != 1 and even not in powers:
            return False
    return True
