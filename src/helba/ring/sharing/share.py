"""Openings: a ciphertext becomes two shares, one with the opener and one with the server.

The server adds a mask u, exactly uniform modulo each prime, to the coefficients that are to be
read. The opener decrypts value + u: uniform, whatever the value. That is its share; the server's is
u, to be taken off. Either side can bring its share to modulo 2^bits (`modulo`), for a comparison,
or rearrange it and encrypt it again (`helba.ring.ring`, `helba.ring.secret.opener`).

A mask serves once. It cannot be printed, copied or pickled, and its process keeps it to itself.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from helba.errors import EngineError, InvalidInput
from helba.ring.ciphertext import Ciphertext
from helba.ring.noise import DEVIATIONS, Bound
from helba.ring.parameters import RingParameters
from helba.ring.sharing.integer import (
    Integers,
    Places,
    Residues,
    add_modulo,
    compose,
    residues_of,
    round_to_bits,
)

NAME_BYTES = 16
MOST_SHARE_BITS = 63


@dataclass(frozen=True, kw_only=True, eq=False)
class Opening:
    """Server to opener: a masked ciphertext, without the coefficients that nobody reads.

    `second` is the whole second polynomial, evaluated; `masked` are the chosen coefficients of the
    first one, plus the mask. Which ones they are both sides know. `name` tells openings apart.
    """

    name: bytes
    parameters: RingParameters
    key_id: bytes
    primes: int
    second: Residues = field(repr=False)
    masked: Residues = field(repr=False)

    @property
    def count(self) -> int:
        """The number of numbers that are read."""
        return int(self.masked.shape[1])


class Share:
    """Residues of one party at `places`. The opener's is the value plus the server's mask."""

    def __init__(self, residues: Residues, *, places: Places, parameters: RingParameters) -> None:
        self._residues = residues
        self.places = places
        self.parameters = parameters

    @property
    def primes(self) -> int:
        """The number of primes that the value had."""
        return len(self._residues)

    def __repr__(self) -> str:
        return f"Share(primes={self.primes}, count={len(self.places)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Share is secret: it is neither pickled nor copied")

    @classmethod
    def join(cls, shares: Mapping[int, Share]) -> Share:
        """Return one share of the polynomials of a stack, by number: places of k begin at k N."""
        if not shares:
            raise InvalidInput("openings", "none", "at least one")
        first, *others = shares.values()
        if any((s.parameters, s.primes) != (first.parameters, first.primes) for s in others):
            raise EngineError("openings of several rings, or with other primes, cannot be joined")
        degree = first.parameters.ring_dim
        return cls(
            np.concatenate([share._residues for share in shares.values()], axis=1),
            places=np.concatenate([share.places + k * degree for k, share in shares.items()]),
            parameters=first.parameters,
        )

    def integers(self) -> Integers:
        """Return the share as integers around 0."""
        return compose(self._residues, self.parameters.moduli[: self.primes])

    def modulo(self, *, bits: int) -> NDArray[np.uint64]:
        """Return the share modulo 2^bits; minus the mask's, the value times 2^bits/q."""
        if not 1 <= bits <= MOST_SHARE_BITS:
            raise InvalidInput("bits", bits, f"from 1 to {MOST_SHARE_BITS}")
        if self.primes != 1:
            raise EngineError(f"a comparison needs a value with one prime left, not {self.primes}")
        modulus = self.parameters.moduli[0]
        return round_to_bits(self._residues[0], modulus=modulus, bits=bits)

    def plus(self, noise: Integers) -> Share:
        """Return the share with these integers added; see `helba.ring.gaussian`."""
        moduli = self.parameters.moduli[: self.primes]
        noisy = add_modulo(self._residues, residues_of(noise, moduli), moduli)
        return Share(noisy, places=self.places, parameters=self.parameters)


class Mask:
    """The server's share: what it added, and has to take off. It can be taken once.

    `carried` is the public side of the value under it, its error as it is after the opening.
    """

    def __init__(self, share: Share, *, carried: Ciphertext) -> None:
        self._share = share
        self.places = share.places
        self.carried = carried
        self._process = os.getpid()
        self._taken = False

    def __repr__(self) -> str:
        return f"Mask(primes={self.carried.primes}, count={len(self.places)})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Mask is secret: it is neither pickled nor copied")

    @classmethod
    def join(cls, masks: Mapping[int, Mask]) -> Mask:
        """Return one mask of the polynomials of a stack, whose own are taken; see `Share.join`.

        All must have been opened at one scale, and count as the largest of them.
        """
        carried = [mask.carried for mask in masks.values()]
        if len({(each.key_id, each.scale) for each in carried}) != 1:
            raise EngineError("masks of several keys or scales cannot be joined")
        share = Share.join({number: mask._share for number, mask in masks.items()})
        for mask in masks.values():
            mask._take()
        bounds = [each.bound for each in carried]
        whole = replace(
            carried[0],
            bound=Bound(
                peak=max(bound.peak for bound in bounds),
                norm=math.hypot(*(bound.norm for bound in bounds)),
                count=sum(bound.count for bound in bounds),
            ),
            noise=max(each.noise for each in carried),
            failure=math.fsum(each.failure for each in carried),
        )
        return cls(share, carried=whole)

    def error(self, *, bits: int, added: float = 0.0) -> float:
        """Return how far share minus mask may be from the value, in units of modulo 2^bits.

        It covers all errors and both roundings, and noise of deviation `added` by the opener, but
        for 2^-57 of the numbers.
        """
        deviation = math.hypot(self.carried.noise, added)
        return DEVIATIONS * deviation * 2.0**bits / self.carried.parameters.moduli[0] + 1.0

    def take_modulo(self, *, bits: int) -> NDArray[np.uint64]:
        """Take the mask: return it modulo 2^bits."""
        found = self._share.modulo(bits=bits)
        self._take()
        return found

    def take_integers(self) -> Integers:
        """Take the mask: return its negative as integers around 0, the server's share."""
        self._take()
        return -self._share.integers()

    def _take(self) -> None:
        if os.getpid() != self._process:
            raise EngineError("a mask belongs to the process that drew it")
        if self._taken:
            raise EngineError("a mask serves once, and this one was taken")
        self._taken = True
