"""CKKS parameters that were checked: a `Parameters` object exists only if it meets its level.

`log2_q` and `log2_p` are upper bounds of the moduli that OpenFHE 1.6.1 generates, not nominal
sizes. They are read off its behaviour and compared with it by tests, not proven from its sources.
`insecure_parameters` is the one way around the security table; it is for tests, and what it returns
says so in `security` (None), in its fingerprint and in its printed form.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass, field
from functools import cached_property

from helba.errors import InvalidInput, require_choice, require_whole
from helba.reference.planning.modulus import require_modulus

SECRETS = ("uniform", "sparse")
AUXILIARY_PRIME_BITS = 60
# Observed: OpenFHE 1.6.1 makes P longer than the largest digit by 4 bits, which primes a hair above
# 2^scale_bits may make one bit longer than its nominal size.
AUXILIARY_MARGIN_BITS = 4 + 1
# Primes are taken alternately from below and above 2^scale_bits. Observed: from 35 bits on, all of
# them together are less than 0.02 bits above nominal for moduli up to 2^1000, and less than 0.34
# for the largest of the table (at 28 bits up to 3).
EXCESS_BITS = 1
LEAST_SECURE_SCALE_BITS = 35
# What planner and requests use at most. An answer at the last level may reach 3.1 (a riding test
# with its noise, by product): a range of 4, which the 60 bits of the first prime leave.
MOST_SCALE_BITS = 56
_UNCHECKED = object()


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """A ring of dimension `ring_dim` with `depth` levels of `scale_bits` above `first_bits`.

    `digits` is the number of parts into which key switching cuts the modulus; every part but the
    last holds the same number of primes. `secret` is "uniform" (ternary) or "sparse" (encapsulated,
    for bootstrapping only; the security table does not cover it). `security` is None only for
    `insecure_parameters`.
    """

    ring_dim: int
    depth: int
    scale_bits: int
    digits: int
    security: int | None
    first_bits: int = 60
    secret: str = "uniform"
    _checked: object = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        require_whole("ring_dim", self.ring_dim, least=4, most=1 << 17)
        require_whole("depth", self.depth, least=1, most=100)
        require_whole("scale_bits", self.scale_bits, least=20, most=59)
        require_whole("first_bits", self.first_bits, least=self.scale_bits, most=60)
        require_whole("digits", self.digits, least=1, most=self.depth + 1)
        require_choice("secret", self.secret, SECRETS)
        for name in ("ring_dim", "depth", "scale_bits", "first_bits", "digits"):
            object.__setattr__(self, name, int(getattr(self, name)))  # numpy's integers are others
        if even_digits(self.depth, at_most=self.digits) != self.digits:
            fewer = even_digits(self.depth, at_most=self.digits)
            raise InvalidInput(
                "digits", self.digits, f"a number that fills {self.depth + 1} primes, like {fewer}"
            )
        if self.security is None:
            if self._checked is not _UNCHECKED:
                raise InvalidInput("security", None, "one of 128, 192, 256")
            object.__setattr__(self, "_checked", None)
            return
        require_whole("security", self.security, least=128, most=256)
        object.__setattr__(self, "security", int(self.security))
        require_whole("scale_bits", self.scale_bits, least=LEAST_SECURE_SCALE_BITS, most=59)
        require_modulus(self.log2_qp, ring_dim=self.ring_dim, security=self.security)

    @property
    def max_slots(self) -> int:
        """Numbers that one ciphertext can hold."""
        return self.ring_dim // 2

    @property
    def digit_width(self) -> int:
        """Primes in a digit of key switching; the last digit may have fewer."""
        return math.ceil((self.depth + 1) / self.digits)

    @property
    def auxiliary_primes(self) -> int:
        """Primes of the auxiliary modulus P of key switching, at most."""
        widest = self.first_bits + (self.digit_width - 1) * self.scale_bits
        return math.ceil((widest + AUXILIARY_MARGIN_BITS) / AUXILIARY_PRIME_BITS)

    @property
    def log2_q(self) -> int:
        """Bits of the ciphertext modulus, at most."""
        return self.first_bits + self.depth * self.scale_bits + EXCESS_BITS

    @property
    def log2_p(self) -> int:
        """Bits of the auxiliary modulus of key switching, at most: primes below 2^60."""
        return AUXILIARY_PRIME_BITS * self.auxiliary_primes

    @property
    def log2_qp(self) -> int:
        """Bits of the modulus that security depends on, at most."""
        return self.log2_q + self.log2_p

    @cached_property
    def fingerprint(self) -> str:
        """Names these parameters; data of one fingerprint never meets another's."""
        fields = {name: value for name, value in asdict(self).items() if name != "_checked"}
        text = json.dumps(fields, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def insecure_parameters(
    *,
    ring_dim: int = 1 << 11,
    depth: int = 8,
    scale_bits: int = 45,
    digits: int = 3,
    first_bits: int = 60,
    secret: str = "uniform",
) -> Parameters:
    """Return parameters without any security, small and quick: for tests only.

    `digits` is lowered to a number that the primes fill.
    """
    return Parameters(
        ring_dim=ring_dim,
        depth=depth,
        scale_bits=scale_bits,
        digits=even_digits(depth, at_most=digits),
        security=None,
        first_bits=first_bits,
        secret=secret,
        _checked=_UNCHECKED,
    )


def even_digits(depth: int, *, at_most: int) -> int:
    """Return the largest number of digits, up to `at_most`, that depth + 1 primes fill evenly.

    Every digit but the last holds ceil(primes/digits) primes; OpenFHE refuses an empty last one.
    """
    require_whole("depth", depth, least=1, most=100)
    primes = depth + 1
    return math.ceil(primes / math.ceil(primes / max(1, min(at_most, primes))))
