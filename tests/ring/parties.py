"""Parties of a ring for tests, and an oracle for products that shares no code with the ring."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from helba.ring import Recipient, Ring, choose_parameters, insecure_parameters
from helba.ring.secret import KeyPair, Opener, make_keys, make_reencryption_key

AUTOMORPHISM = 9


@dataclass(frozen=True, kw_only=True)
class Parties:
    """A server with public keys, the opener, and a user with a key of its own."""

    keys: KeyPair
    ring: Ring
    opener: Opener
    user_keys: KeyPair
    user: Opener
    to_user: Recipient

    @property
    def parameters(self):
        return self.ring.parameters

    @property
    def everywhere(self):
        return np.arange(self.parameters.ring_dim)

    def read(self, ciphertext, places):
        """Message plus error, exactly."""
        return self.opener.decrypt(ciphertext, places=places)

    def open(self, ciphertext, places, *, bits=40, to=None):
        """The opened value modulo 2^bits, around 0, as the two shares give it."""
        opening, mask = self.ring.open(ciphertext, places=places, to=to)
        opener = self.opener if to is None else self.user
        share = opener.receive(opening, places=places).modulo(bits=bits)
        return around_zero(share, mask.take_modulo(bits=bits), bits=bits)

    def reopen(self, ciphertext, rearrangements, *, noise=None, renew=False):
        """Both sides of a reopening."""
        places = np.unique(np.concatenate([each.sources for each in rearrangements]))
        opening, mask = self.ring.open(ciphertext, places=places)
        share = self.opener.receive(opening, places=places)
        if noise is not None:
            share = self.opener.add_noise(share, deviation=noise)
        replies = self.opener.reopen([(share, each) for each in rearrangements])
        return self.ring.reopen(
            mask, replies, rearrangements=rearrangements, added=noise or 0.0, renew=renew
        )


@lru_cache(maxsize=8)
def make_parties(backend, log2_ring_dim=9, *, security=128):
    """Parties on an insecure ring, or from 13 on, on that of a security level."""
    if log2_ring_dim >= 13:
        parameters = choose_parameters(security=security)
        assert parameters.ring_dim == 1 << log2_ring_dim
    else:
        parameters = insecure_parameters(log2_ring_dim)
    keys = make_keys(parameters, backend=backend, automorphism=AUTOMORPHISM)
    user_keys = make_keys(parameters, backend=backend)
    way = make_reencryption_key(keys.secret, to=user_keys.public)
    return Parties(
        keys=keys,
        ring=Ring(keys.public, evaluation_key=keys.evaluation),
        opener=Opener(keys.secret, public_key=keys.public),
        user_keys=user_keys,
        user=Opener(user_keys.secret, public_key=keys.public),
        to_user=Recipient(public=user_keys.public, reencryption=way),
    )


def around_zero(share, mask, *, bits):
    """share - mask modulo 2^bits, in [-2^(bits-1), 2^(bits-1))."""
    difference = (share - mask) & np.uint64((1 << bits) - 1)
    signed = difference.astype(np.int64)
    return np.where(signed >= 1 << (bits - 1), signed - (1 << bits), signed)


def convolve(first, second):
    """The product modulo X^N + 1 by the definition, in Python's integers."""
    degree = len(first)
    total = np.zeros(degree, dtype=object)
    second = np.asarray(second, dtype=object)
    for place in np.flatnonzero(first):
        shifted = int(first[place]) * second
        total[place:] += shifted[: degree - place]
        total[:place] -= shifted[degree - place :]
    return total


def scatter(values, places, degree):
    """A polynomial with these coefficients."""
    polynomial = np.zeros(degree, dtype=object)
    polynomial[np.asarray(places).reshape(-1)] = np.asarray(values, dtype=object).reshape(-1)
    return polynomial


def worst(found, exact):
    """The largest difference of two arrays of integers or fractions."""
    return max(abs(float(one - other)) for one, other in zip(found, exact, strict=True))
