"""Certificates of CKKS's errors: of encryption, product, key switch and re-encryption.

Every ciphertext carries `noise`, a proxy deviation s: a coefficient's error is sub-Gaussian, with
P(|error| > z s) <= 2 exp(-z^2/2). `DEVIATIONS` = 9 makes that 2^-57 a coefficient, and
`error_bound` = 9 s is what certificates state.

Where s comes from. The secret s(X) and the encryption's v(X) are uniform ternary (variance 2/3, and
sub-Gaussian with just that proxy), the errors are Gaussians of deviation 3.19. A fresh error is
v e_pk + e_0 + e_1 s. Given the key, it is linear in independent sub-Gaussian numbers, so its proxy
is the sum of their squares: N (2/3) 3.19^2 from each product and 3.19^2 from e_0.

A message m multiplies the other operand's error: m e = v (m e_pk) + m e_0 + e_1 (m s), with proxies
that go with |m s|^2 and |m e_pk|^2. On average over keys |m s|^2 = (2/3) N |m|^2. For a message
whose spectrum is narrow (all users ask the same) it can be more: Hsu, Kakade and Zhang (2012, *A
tail inequality for quadratic forms of subgaussian random vectors*, theorem 2.1) bound it by the
average times

    1 + 2 sqrt(t c/N) + 2 t c/N

but for a share exp(-t) of the keys, for each message, where c |m|^2 is the largest value of m's
spectrum: at most as many times |m|^2 as coefficients of m may differ from 0, and at most N/2 times,
because the spectrum of a real polynomial comes in pairs. That is `spread`, with t = 28 (2^-40 of
the keys, and 2^-37 for all six such norms in a product). It is close to 1 for a model, and 36 for a
full polynomial, where 1 is typical.

That needs errors of fresh encryptions, and messages that do not depend on the key (a reopened one
does, by the error that became a part of it, which is far smaller). **What computing adds to an
error may depend on the key and on messages in any way**: messages in one single frequency, one
after the other, make errors that grow eight times faster, with each of them, than analyses of CKKS
expect that spread errors over all frequencies (Costache et al., ePrint 2022/162). So a ciphertext
tells how much of its noise is `computed`, and a message m multiplies that part by |m|_1 = sum
|m_i|: numbers of proxies s_i have a sum of proxy s_1 + s_2 + ... at most, whatever they have to do
with each other (Hoelder). For the few coefficients of a model or a test that is little more.

Errors of two operands may depend on each other, as in a square: their parts are added, unless the
caller knows better of the fresh ones. Computed ones always are: OpenFHE's key switch cuts off where
it should round, which leaves the same half of (1 + X + ... + X^(N-1)) s(X) in every ciphertext.
Tests compare all of this with OpenFHE, on random and on narrow messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from helba.errors import InvalidInput
from helba.ring.parameters import RingParameters

DEVIATIONS = 9.0
KEY_TAIL = 28.0  # t above: one key in 2^40
GAUSSIAN_DEVIATION = 3.19
TERNARY_VARIANCE = 2.0 / 3.0
LEAST_LOG2_P = 59  # P is one prime of 60 bits


@dataclass(frozen=True, kw_only=True)
class Bound:
    """A public bound of a message, in the ring's integers.

    No coefficient is past `peak`, at most `count` of them differ from 0, and the Euclidean norm of
    all is at most `norm`. It holds for the message without its error.
    """

    peak: float
    norm: float
    count: int

    def __post_init__(self) -> None:
        numbers = (self.peak, self.norm, self.count)
        if not all(math.isfinite(each) and each >= 0 for each in numbers):
            raise InvalidInput("bound", numbers, "finite and not negative")

    @classmethod
    def of(cls, *, peak: float, count: int, norm: float | None = None) -> Bound:
        """Return the bound of `count` numbers up to `peak`, whose norm may be known to be less."""
        largest = peak * math.sqrt(count)
        return cls(peak=peak, norm=largest if norm is None else min(norm, largest), count=count)

    def scaled(self, factor: float) -> Bound:
        """Return the bound of the message times a number."""
        size = abs(factor)
        return Bound(peak=self.peak * size, norm=self.norm * size, count=self.count)

    def plus(self, other: Bound, *, most: int) -> Bound:
        """Return the bound of a sum of two messages with at most `most` coefficients."""
        return Bound(
            peak=self.peak + other.peak,
            norm=self.norm + other.norm,
            count=min(most, self.count + other.count),
        )


@dataclass(frozen=True, kw_only=True)
class Operand:
    """A factor: a public bound of its integers, its noise, and the part that was computed."""

    bound: Bound
    noise: float
    computed: float = 0.0

    @property
    def fresh(self) -> float:
        """The part of the noise that is a fresh encryption's."""
        return math.sqrt(max(0.0, self.noise**2 - self.computed**2))


def spread(count: int, *, ring_dim: int) -> float:
    """Return by how much |m s|^2 may exceed its average over keys; see above."""
    share = KEY_TAIL * min(count, ring_dim // 2) / ring_dim
    return 1.0 + 2.0 * math.sqrt(share) + 2.0 * share


@lru_cache(maxsize=64)
def encryption_noise(parameters: RingParameters) -> float:
    """Return the noise of a fresh encryption under a public key: about 350 at N = 2^13."""
    degree = parameters.ring_dim
    products = 2.0 * degree * TERNARY_VARIANCE * spread(1, ring_dim=degree)
    return GAUSSIAN_DEVIATION * math.sqrt(products + 1.0)


@lru_cache(maxsize=64)
def rounding_noise(parameters: RingParameters) -> float:
    """Return the noise of rounding both polynomials to integers: r_0 + r_1 s, r uniform."""
    degree = parameters.ring_dim
    return math.sqrt((1.0 + degree * TERNARY_VARIANCE * spread(1, ring_dim=degree)) / 12.0)


@lru_cache(maxsize=256)
def switching_noise(
    parameters: RingParameters, *, primes: int, key_noise: float = GAUSSIAN_DEVIATION
) -> float:
    """Return the noise of a key switch of a ciphertext with `primes` primes.

    Each digit is a residue up to its prime and meets an error of the key, a Gaussian but for
    re-encryption, divided by P; the division rounds, and OpenFHE cuts off instead, which is 1/2 too
    low in every coefficient of both polynomials: (1 + X + ... + X^(N-1)) s(X)/2 under the key.
    """
    degree = parameters.ring_dim
    digits = sum(
        degree * 2.0 ** (2 * (math.log2(prime) - LEAST_LOG2_P)) / 3.0
        for prime in parameters.moduli[:primes]
    )
    offset = 0.25 * (1.0 + degree * TERNARY_VARIANCE * spread(1, ring_dim=degree))
    return math.sqrt(digits * key_noise**2 + offset + rounding_noise(parameters) ** 2)


def reencryption_noise(parameters: RingParameters, *, primes: int) -> float:
    """Return the noise of a re-encryption, whose key was made with a public key.

    Its errors are those of fresh encryptions, not Gaussians.
    """
    return switching_noise(parameters, primes=primes, key_noise=encryption_noise(parameters))


def product_bound(
    first: Bound, second: Bound, *, parameters: RingParameters, primes: int, terms: int | None
) -> Bound:
    """Return the bound of the rescaled product of two messages with `primes` primes.

    At most `terms` products meet in a coefficient, where the layout knows. The norm obeys Young's
    inequality, with |a|_1 <= sqrt(count) |a|_2.
    """
    divisor = parameters.moduli[primes - 1]
    fewer = min(first.count, second.count)
    if terms is not None:
        fewer = min(fewer, terms)
    peak = min(fewer * first.peak * second.peak, first.norm * second.norm)
    count = min(parameters.ring_dim, first.count * second.count)
    norm = math.sqrt(min(first.count, second.count)) * first.norm * second.norm
    return Bound.of(peak=peak / divisor, norm=norm / divisor, count=count)


def product_noise(
    first: Operand,
    second: Operand,
    *,
    parameters: RingParameters,
    primes: int,
    independent: bool = False,
) -> float:
    """Return the noise of the relinearised and rescaled product; all of it counts as computed.

    Where fresh errors are `independent`, as those of two encryptions are, their squares add up.
    """
    degree = parameters.ring_dim
    pairs = ((first, second), (second, first))
    fresh = [
        one.bound.norm * math.sqrt(spread(one.bound.count, ring_dim=degree)) * other.fresh
        for one, other in pairs
    ]
    crossed = math.hypot(*fresh) if independent else sum(fresh)
    crossed += sum(
        one.bound.norm * math.sqrt(one.bound.count) * other.computed for one, other in pairs
    )
    # The product of both errors: every coefficient of one meets all of the other.
    both = math.sqrt(degree * spread(degree, ring_dim=degree)) * first.fresh * second.fresh
    mixed = first.computed * second.noise + first.fresh * second.computed
    both += DEVIATIONS * degree * mixed
    switched = switching_noise(parameters, primes=primes)
    divisor = parameters.moduli[primes - 1]
    return math.hypot((crossed + both) / divisor, switched / divisor, rounding_noise(parameters))
