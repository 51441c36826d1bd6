"""Computing without a secret key: encrypt, add, multiply, open behind a mask, reopen.

A `Ring` holds public keys only. It knows the public side of each value (primes, scale, bound,
noise), checks it before anything is computed, and leaves the polynomials to a backend: OpenFHE, or
the simulator, which computes in the clear. Both refuse the same things with the same words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from helba.errors import (
    EngineError,
    InvalidInput,
    LevelsExhausted,
    MissingKey,
    WrongVector,
    require_whole,
)
from helba.randomness import Draw, draw_bytes
from helba.ring.ciphertext import Ciphertext, count_primes, describe_fresh, describe_share
from helba.ring.key import EvaluationKey, PublicKey, Recipient
from helba.ring.noise import (
    Bound,
    encryption_noise,
    product_bound,
    product_noise,
    reencryption_noise,
    switching_noise,
)
from helba.ring.parameters import PRIMES
from helba.ring.sharing.integer import (
    Integers,
    Places,
    add_modulo,
    as_integers,
    checked_places,
    draw_residues,
    largest_of,
)
from helba.ring.sharing.pad import MOST_MULTIPLE, SHARE_MODULUS
from helba.ring.sharing.rearrangement import Rearrangement
from helba.ring.sharing.reopening import (
    LIFT_FAILURE,
    LIFT_MARGIN,
    describe_reopened,
    require_reopenable,
)
from helba.ring.sharing.share import NAME_BYTES, Mask, Opening, Share

SCALE_TOLERANCE = 2.0**-50  # what two scales may differ by, relatively, and still be added


class Ring:
    """Computes with ciphertexts under `public_key`; products need its evaluation key.

    Masks and names come from `draw`.
    """

    def __init__(
        self,
        public_key: PublicKey,
        *,
        evaluation_key: EvaluationKey | None = None,
        draw: Draw = draw_bytes,
    ) -> None:
        if evaluation_key is not None and evaluation_key.key_id != public_key.key_id:
            raise WrongVector("the evaluation key belongs to another public key")
        self.public_key = public_key
        self.evaluation_key = evaluation_key
        self.draw = draw
        self.parameters = public_key.parameters
        self.run_all = public_key.backend.run_all  # independent computations
        self._backend = public_key.backend

    # -- encryption

    def encrypt(
        self,
        values: Any,
        *,
        places: Any,
        scale: float,
        peak: float,
        norm: float | None = None,
        primes: int = PRIMES,
    ) -> Ciphertext:
        """Encrypt integers at `places`, each at most `peak` in size, together at most `norm`.

        The bounds are public and go with the ciphertext; values past them are refused, without
        being quoted.
        """
        require_whole("primes", primes, least=1, most=PRIMES)
        places, integers = self._checked_values(values, places=places)
        if largest_of(integers) > peak:
            raise InvalidInput("values", "a larger one", f"at most {peak:g} in size, as announced")
        length = float(np.linalg.norm(integers.astype(np.float64)))
        if norm is not None and length > norm * (1.0 + SCALE_TOLERANCE):
            raise InvalidInput("values", "longer ones", f"of norm {norm:g} at most, as announced")
        bound = Bound.of(peak=peak, norm=norm, count=len(places))
        fresh = describe_fresh(self.public_key, bound=bound).with_scale(scale)
        replace(fresh, primes=primes).require_shareable()
        if not peak < self._liftable:
            raise InvalidInput("peak", f"{peak:g}", f"below {self._liftable:g}")
        body = self._backend.encrypt(self.public_key.payload, integers, places)
        return self.drop(replace(fresh, body=body), primes=primes)

    def add_values(self, ciphertext: Ciphertext, values: Any, *, places: Any) -> Ciphertext:
        """Add public integers at `places`."""
        self._require_own(ciphertext)
        places, integers = self._checked_values(values, places=places)
        peak = float(largest_of(integers))
        if not peak < self._liftable:
            raise InvalidInput("values", "a larger one", "below half of the first two primes")
        added = Bound.of(peak=peak, count=len(places))
        made = replace(
            ciphertext, bound=ciphertext.bound.plus(added, most=self.parameters.ring_dim)
        ).require_room()
        body = self._backend.add_values(ciphertext.body, integers, places, primes=ciphertext.primes)
        return replace(made, body=body)

    # -- arithmetic

    def sum(self, ciphertexts: Sequence[Ciphertext], *, independent: bool = False) -> Ciphertext:
        """Add messages of one scale, at the fewest primes that one of them has.

        Errors add up like their bounds. Of those that fresh encryptions made the caller may know
        that they are `independent`: then these add up like their squares.
        """
        if not ciphertexts:
            raise InvalidInput("ciphertexts", "none", "at least one")
        for each in ciphertexts:
            self._require_own(each)
            if not math.isclose(each.scale, ciphertexts[0].scale, rel_tol=SCALE_TOLERANCE):
                raise WrongVector(
                    f"scales differ: {ciphertexts[0].scale:.17g} and {each.scale:.17g}"
                )
        primes = min(each.primes for each in ciphertexts)
        lowered = [self.drop(each, primes=primes) for each in ciphertexts]
        bound, noises = lowered[0].bound, [each.noise for each in lowered]
        for each in lowered[1:]:
            bound = bound.plus(each.bound, most=self.parameters.ring_dim)
        computed = math.fsum(each.computed for each in lowered)
        if independent:
            noises = [math.hypot(*(each.fresh for each in lowered), computed)]
        made = replace(
            lowered[0],
            bound=bound,
            noise=math.fsum(noises),
            computed=computed,
            failure=math.fsum(each.failure for each in lowered),
        ).require_room()
        return replace(made, body=self._backend.sum([each.body for each in lowered]))

    def negate(self, ciphertext: Ciphertext) -> Ciphertext:
        """Return the negative message."""
        self._require_own(ciphertext)
        return replace(ciphertext, body=self._backend.negate(ciphertext.body))

    def product(
        self,
        first: Ciphertext,
        second: Ciphertext,
        *,
        terms: int | None = None,
        peak: float | None = None,
        independent: bool = False,
    ) -> Ciphertext:
        """Multiply modulo X^N + 1: a convolution of the coefficients. It spends one prime.

        `terms` bounds how many products meet in one coefficient, where the layout knows, and `peak`
        the integers of the coefficients that are read, where an analysis knows: others may go
        around the modulus. `independent` says that the operands' errors have nothing to do with
        each other.
        """
        self._require_evaluation()
        self._require_own(first)
        self._require_own(second)
        primes = min(first.primes, second.primes)
        if primes < 2:
            left = count_primes(primes)
            raise LevelsExhausted(
                f"a product needs 2 primes, got a ciphertext with {left}: reopen it"
            )
        first, second = self.drop(first, primes=primes), self.drop(second, primes=primes)
        noise = product_noise(
            first, second, parameters=self.parameters, primes=primes, independent=independent
        )
        bound = product_bound(
            first.bound, second.bound, parameters=self.parameters, primes=primes, terms=terms
        )
        if peak is not None:
            bound = Bound.of(peak=min(peak, bound.peak), norm=bound.norm, count=bound.count)
        made = replace(
            first,
            primes=primes - 1,
            scale=first.scale * second.scale / self.parameters.moduli[primes - 1],
            bound=bound,
            noise=noise,
            computed=noise,
            failure=first.failure + second.failure,
        ).require_room()
        body = self._backend.product(first.body, second.body, primes=primes)
        return replace(made, body=body)

    def automorphism(self, ciphertext: Ciphertext) -> Ciphertext:
        """Return m(X^s) for the s of the evaluation key."""
        evaluation = self._require_evaluation()
        self._require_own(ciphertext)
        if evaluation.automorphism is None:
            raise MissingKey("the evaluation key has no automorphism")
        added = switching_noise(self.parameters, primes=ciphertext.primes)
        made = replace(
            ciphertext,
            noise=math.hypot(ciphertext.noise, added),
            computed=math.hypot(ciphertext.computed, added),
        ).require_room()
        body = self._backend.automorphism(
            ciphertext.body, evaluation=evaluation.payload, exponent=evaluation.automorphism
        )
        return replace(made, body=body)

    def drop(self, ciphertext: Ciphertext, *, primes: int) -> Ciphertext:
        """Return the same message modulo fewer primes; nothing is divided."""
        require_whole("primes", primes, least=1, most=PRIMES)
        if primes > ciphertext.primes:
            left = count_primes(ciphertext.primes)
            raise LevelsExhausted(f"expected {primes} primes, got a ciphertext with {left}")
        if primes == ciphertext.primes:
            return ciphertext
        made = replace(ciphertext, primes=primes).require_room()
        return replace(made, body=self._backend.drop(ciphertext.body, primes=primes))

    # -- opening

    def open(
        self, ciphertext: Ciphertext, *, places: Any, to: Recipient | None = None
    ) -> tuple[Opening, Mask]:
        """Mask the coefficients at `places` for the owner of the key, or for a recipient.

        The ciphertext is handed on to the recipient's key first, then re-randomised by a fresh
        encryption of 0 under the key it leaves with: otherwise the second polynomial would be a
        function of what the opener itself encrypted. The mask is exactly uniform.
        """
        self._require_own(ciphertext)
        if ciphertext.primes == PRIMES:
            raise EngineError("drop a fresh ciphertext to two primes or one before it is opened")
        places = checked_places(places, parameters=self.parameters)
        backend, primes = self._backend, ciphertext.primes
        body, noise = ciphertext.body, ciphertext.noise
        public = self.public_key if to is None else to.public
        calls = [partial(backend.encrypt_zero, public.payload, primes=primes)]
        if to is not None:
            key = to.reencryption
            if key.key_id != self.public_key.key_id or key.recipient_id != public.key_id:
                raise WrongVector("the re-encryption key does not lead from this key to theirs")
            calls.append(partial(backend.reencrypt, body, key.payload, recipient_id=public.key_id))
            noise = math.hypot(noise, reencryption_noise(self.parameters, primes=primes))
        zero, *switched = backend.run_all(calls)
        body = backend.sum([*(switched or [body]), zero])
        noise = math.hypot(noise, encryption_noise(self.parameters))
        carried = replace(ciphertext, body=None, noise=noise).require_room()
        moduli = self.parameters.moduli[:primes]
        first, second = self._backend.split(body, places, primes=primes)
        mask = draw_residues(moduli, len(places), draw=self.draw)
        opening = Opening(
            name=self.draw(NAME_BYTES),
            parameters=self.parameters,
            key_id=public.key_id,
            primes=primes,
            second=second,
            masked=add_modulo(first, mask, moduli),
        )
        share = Share(mask, places=places, parameters=self.parameters)
        return opening, Mask(share, carried=carried)

    def reopen(
        self,
        mask: Mask,
        replies: Sequence[Ciphertext],
        *,
        rearrangements: Sequence[Rearrangement],
        added: float | Sequence[float] = 0.0,
        renew: bool = False,
    ) -> list[Ciphertext]:
        """Take the mask off what the opener encrypted again: fresh ciphertexts, all primes.

        One reply belongs to each rearrangement, in order. The mask is spent. `added` is the
        deviation of the noise that the opener has added, if any, to all of them or to each: the
        plan knows it.

        With `renew` the integers that were opened count as the message, and the error they came
        with as part of it. That is for iterations, which correct earlier errors: a bound that is
        carried through every step would grow without end, so an analysis of the iteration takes
        its place.
        """
        if len(replies) != len(rearrangements):
            raise InvalidInput("replies", len(replies), f"{len(rearrangements)}, one for each")
        carried = mask.carried
        if carried.key_id != self.public_key.key_id:
            raise WrongVector("the mask belongs to another key")
        require_reopenable(carried, rearrangements)
        for reply, each in zip(replies, rearrangements, strict=True):
            self._require_own(reply)
            if reply != describe_share(self.public_key, count=len(each.targets)):
                raise WrongVector(
                    f"expected the opener's encryption of {len(each.targets)} shares, got another "
                    "ciphertext"
                )
        each_added = [added] * len(replies) if isinstance(added, int | float) else added
        made = [
            describe_reopened(each, carried, added=noise, renew=renew).require_shareable()
            for each, noise in zip(rearrangements, each_added, strict=True)
        ]
        places, share = mask.places, mask.take_integers()
        parts = [each.apply(share, places=places) for each in rearrangements]
        add = partial(self._backend.add_values, primes=PRIMES)
        bodies = self._backend.run_all(
            [
                partial(add, reply.body, part, each.targets)
                for reply, part, each in zip(replies, parts, rearrangements, strict=True)
            ]
        )
        return [replace(each, body=body) for each, body in zip(made, bodies, strict=True)]

    def add_shares(
        self, pads: Ciphertext, shares: Any, *, places: Any, multiple: int, peak: float
    ) -> Ciphertext:
        """Add the server's shares of inputs to the opener's encryption of their pads.

        The result holds the inputs times `multiple`, each at most `peak` in size before that, at
        the scale that `pads` has. All inputs of a polynomial are added at once.
        """
        self._require_own(pads)
        require_whole("multiple", multiple, least=1, most=MOST_MULTIPLE)
        count, scale, primes = pads.bound.count, pads.scale, pads.primes
        if pads != describe_share(self.public_key, count=count, scale=scale, primes=primes):
            raise WrongVector("expected the opener's encryption of pads, got another ciphertext")
        places = checked_places(places, parameters=self.parameters)
        numbers = as_integers(shares).astype(object)
        if not len(numbers) == len(places) == count:
            raise InvalidInput(
                "shares",
                f"{len(numbers)} for {len(places)} places",
                f"one for each of the {count} pads",
            )
        if min(numbers) < 0 or max(numbers) >= SHARE_MODULUS:
            raise InvalidInput("shares", "a number outside", "from 0 to 2^96 - 1")
        bound = Bound.of(peak=peak * multiple, count=len(places))
        wrap = 2 * bound.peak / self.parameters.share_modulus + (peak + 1) / SHARE_MODULUS
        if pads.primes == PRIMES:
            wrap += LIFT_FAILURE
        failure = pads.failure + len(places) * wrap
        made = replace(pads, bound=bound, failure=failure).require_shareable()
        lifted = (numbers - SHARE_MODULUS) * multiple
        body = self._backend.add_values(pads.body, lifted, places, primes=pads.primes)
        return replace(made, body=body)

    # -- bookkeeping

    @property
    def _liftable(self) -> float:
        """Integers below it are lifted from two primes to three without fail; see `reopening`."""
        return self.parameters.share_modulus / 2 * (1.0 - LIFT_MARGIN)

    def _checked_values(self, values: Any, *, places: Any) -> tuple[Places, Integers]:
        places = checked_places(places, parameters=self.parameters)
        integers = as_integers(values)
        if len(integers) != len(places):
            raise InvalidInput("values", f"{len(integers)} of them", f"{len(places)}, one a place")
        return places, integers

    def _require_own(self, ciphertext: Ciphertext) -> None:
        if not isinstance(ciphertext, Ciphertext):
            raise WrongVector(f"expected a Ciphertext, got {type(ciphertext).__name__}")
        if ciphertext.parameters != self.parameters:
            raise WrongVector("the ciphertext has other parameters")
        if ciphertext.key_id != self.public_key.key_id:
            raise WrongVector("the ciphertext belongs to another key")

    def _require_evaluation(self) -> EvaluationKey:
        if self.evaluation_key is None:
            raise MissingKey("this needs the evaluation key, which this ring was not given")
        return self.evaluation_key
