"""The owner of a secret key: it reads its share of an opening, and encrypts it again.

What the opener sees of an opening is uniform: the second polynomial was re-randomised, and the
coefficients carry the server's mask. It adds noise of its own where what is opened later depends on
CKKS's error; the server does not know that noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from helba.errors import InvalidInput, WrongVector, require_whole
from helba.ring.ciphertext import Ciphertext, describe_share
from helba.ring.key import PublicKey
from helba.ring.parameters import PRIMES
from helba.ring.secret.key import SecretKey
from helba.ring.sharing.integer import (
    Integers,
    Places,
    add_modulo,
    as_integers,
    checked_places,
    compose,
)
from helba.ring.sharing.pad import MOST_MULTIPLE, SHARE_MODULUS
from helba.ring.sharing.rearrangement import Rearrangement
from helba.ring.sharing.reopening import require_reopenable
from helba.ring.sharing.share import Opening, Share


class Opener:
    """Opens with `secret_key`, and encrypts again under `public_key`, the one of the server's ring.

    The two belong together unless openers have keys of their own.
    """

    def __init__(self, secret_key: SecretKey, *, public_key: PublicKey) -> None:
        if secret_key.parameters != public_key.parameters:
            raise WrongVector("the two keys have other parameters")
        self._secret_key = secret_key
        self.public_key = public_key
        self.parameters = public_key.parameters
        self.run_all = public_key.backend.run_all  # independent computations
        self._backend = public_key.backend

    def __repr__(self) -> str:
        return f"Opener(ring_dim={self.parameters.ring_dim})"

    def receive(self, opening: Opening, *, places: Any) -> Share:
        """Return the share of an opening; `places` are those that the server opened."""
        places = checked_places(places, parameters=self.parameters)
        if opening.parameters != self.parameters or opening.key_id != self._secret_key.key_id:
            raise WrongVector("the opening belongs to another key")
        if opening.count != len(places):
            raise WrongVector(f"the opening has {opening.count} numbers, not {len(places)}")
        moduli = self.parameters.moduli[: opening.primes]
        part = self._backend.open_second(opening.second, self._secret_key.payload, places)
        masked = add_modulo(opening.masked, part, moduli)
        return Share(masked, places=places, parameters=self.parameters)

    def add_noise(self, share: Share, *, deviation: float) -> Share:
        """Return the share with discrete Gaussian noise, in the integers of the opened value."""
        return share.plus(self._backend.draw_gaussian(len(share.places), deviation=deviation))

    def reopen(self, shares: Sequence[tuple[Share, Rearrangement]]) -> list[Ciphertext]:
        """Encrypt shares again, each by its own rearrangement; the server takes its mask off."""
        integers: dict[int, Integers] = {}
        calls = []
        for share, each in shares:
            require_reopenable(share, [each])
            if id(share) not in integers:
                integers[id(share)] = share.integers()
            moved = each.apply(integers[id(share)], places=share.places)
            calls.append(partial(self._encrypt, moved, each.targets))
        return self.run_all(calls)

    def encrypt_pads(
        self, parts: Sequence[tuple[Any, Any]], *, multiple: int, scale: float, primes: int = PRIMES
    ) -> list[Ciphertext]:
        """Encrypt several arrays of pads, each at its own places; on all threads that there are."""
        require_whole("multiple", multiple, least=1, most=MOST_MULTIPLE)
        require_whole("primes", primes, least=1, most=PRIMES)
        encrypt, calls = partial(self._encrypt, scale=scale, primes=primes), []
        for pads, where in parts:
            places = checked_places(where, parameters=self.parameters)
            numbers = as_integers(pads).astype(object)
            if len(numbers) != len(places):
                raise InvalidInput("pads", f"{len(numbers)} of them", f"{len(places)}, one a place")
            if len(numbers) and not 0 <= min(numbers) <= max(numbers) < SHARE_MODULUS:
                raise InvalidInput("pads", "a number outside", "from 0 to 2^96 - 1")
            calls.append(partial(encrypt, numbers * multiple, places))
        return self.run_all(calls)

    def decrypt(self, ciphertext: Ciphertext, *, places: Any) -> Integers:
        """Return message plus error at `places`, exactly: for tests and measurements only."""
        if ciphertext.key_id != self._secret_key.key_id:
            raise WrongVector("the ciphertext belongs to another key")
        places = checked_places(places, parameters=self.parameters)
        primes, body = ciphertext.primes, ciphertext.body
        if primes == PRIMES:
            primes, body = 2, self._backend.drop(body, primes=2)
        moduli = self.parameters.moduli[:primes]
        first, second = self._backend.split(body, places, primes=primes)
        part = self._backend.open_second(second, self._secret_key.payload, places)
        return compose(add_modulo(first, part, moduli), moduli)

    def _encrypt(
        self, integers: Integers, places: Places, *, scale: float = 1.0, primes: int = PRIMES
    ) -> Ciphertext:
        body = self._backend.encrypt(self.public_key.payload, integers, places)
        if primes != PRIMES:
            body = self._backend.drop(body, primes=primes)
        share = describe_share(self.public_key, count=len(places), scale=scale, primes=primes)
        return replace(share, body=body)
