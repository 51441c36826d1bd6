"""The public side of reopened values: scale, bound, error and the probability of failure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from helba.errors import EngineError
from helba.ring.ciphertext import Ciphertext
from helba.ring.noise import DEVIATIONS, Bound, encryption_noise
from helba.ring.parameters import PRIMES
from helba.ring.sharing.integer import checked_places
from helba.ring.sharing.rearrangement import Rearrangement
from helba.ring.sharing.share import Share

# OpenFHE lifts residues of two primes to three with a quotient in doubles: a number within 2^51.4
# of half the modulus may be lifted wrongly. Measured 2^-52.8 a share, and there are two.
LIFT_FAILURE = 2.0**-51
# Numbers that somebody chose stay this far, relatively, from half the modulus.
LIFT_MARGIN = 2.0**-48


def describe_reopened(
    rearrangement: Rearrangement, carried: Ciphertext, *, added: float, renew: bool
) -> Ciphertext:
    """Return the reopened value of one rearrangement, still without its body.

    It is wrong where a masked integer went around the modulus: with probability 2 |m|/Q at most
    for every number that was opened, the same for every one that was encrypted, stretched, and
    `LIFT_FAILURE` for its lift to three primes. Off the grid the old error stays in it, and each
    move rounds by one unit. `added` and `renew` are those of `Ring.reopen`.
    """
    parameters = carried.parameters
    stretches, numbers = rearrangement.stretches, len(rearrangement.targets)
    error = math.hypot(carried.noise, added)
    reach = carried.bound.peak + DEVIATIONS * error
    units = float(sum(move.multiple for move in rearrangement.moves))
    highest = float(stretches.max()) * reach + units
    norm = math.sqrt(float((stretches**2).sum())) * reach + units * math.sqrt(numbers)
    computed = 0.0
    if not (rearrangement.on_grid or renew):
        computed = math.hypot(float(stretches.max()) * error, units)
    wrap = 2.0 * (reach * len(rearrangement.sources) + highest * numbers)
    failure = wrap / parameters.share_modulus + LIFT_FAILURE * numbers
    return replace(
        carried,
        primes=PRIMES,
        scale=rearrangement.scale,
        bound=Bound.of(peak=highest, norm=norm, count=numbers),
        noise=math.hypot(encryption_noise(parameters), computed),
        computed=computed,
        failure=carried.failure + failure,
    )


def require_reopenable(share: Ciphertext | Share, rearrangements: Sequence[Rearrangement]) -> None:
    """Raise unless the opened value has two primes and all that is written lies in the ring."""
    if share.primes != 2:
        raise EngineError(f"a reopening needs a value with two primes left, not {share.primes}")
    for each in rearrangements:
        checked_places(each.targets, parameters=share.parameters)
