"""Ciphertexts as polynomials with numbers in their coefficients.

A product of two ciphertexts is a convolution modulo X^N + 1, so inner products, matrix products and
outer products come out of one product, without rotations. What is opened is opened behind a uniform
mask, to two shares; shares can be compared (`helba.garbling`) or encrypted again in another
arrangement, with all primes back.

    from helba.ring.secret import Opener, make_keys

    keys = make_keys(choose_parameters(security=128))
    ring = Ring(keys.public, evaluation_key=keys.evaluation)      # the server: public keys only
    opener = Opener(keys.secret, public_key=keys.public)

    number = ring.encrypt([3 << 40], places=[0], scale=2.0**40, peak=2.0**42, primes=2)
    opening, mask = ring.open(ring.product(number, number), places=[0])
    share = opener.receive(opening, places=[0])                   # uniform; the server has the mask

Layers: `parameters` and `security` (what is allowed), `noise` (certificates), `ciphertext`, `ring`
(what the server does), `secret` (secret keys, and what openers do), `sharing` (openings, and inputs
as shares), `wire` (bytes), and two backends behind `backend`: `ckks`, which is OpenFHE, and
`simulate`, in the clear. `secret` is imported by name, and never by the server.
"""

from __future__ import annotations

from helba.ring.ciphertext import Ciphertext
from helba.ring.key import EvaluationKey, PublicKey, Recipient
from helba.ring.noise import DEVIATIONS, Bound
from helba.ring.parameters import PRIMES, RingParameters, choose_parameters, insecure_parameters
from helba.ring.ring import Ring
from helba.ring.sharing.rearrangement import Move, Rearrangement
from helba.ring.sharing.share import Mask, Opening, Share

__all__ = [
    "DEVIATIONS",
    "PRIMES",
    "Bound",
    "Ciphertext",
    "EvaluationKey",
    "Mask",
    "Move",
    "Opening",
    "PublicKey",
    "Rearrangement",
    "Recipient",
    "Ring",
    "RingParameters",
    "Share",
    "choose_parameters",
    "insecure_parameters",
]
