"""Scores as exact integers: which multiples hide CKKS's error in the bits that are rounded away.

An answer that depends on CKKS's error tells something of the secret key (Li and Micciancio, ePrint
2020/1533). So features and model are integers, and the score S, the sum of their products, is an
integer too. Features are encrypted times a, the model times b. The opened product is a b S / q_1
plus an error, and shares of it modulo 2^bits hold

    a b S 2^bits / (q_0 q_1) + error.

a and b are chosen such that the factor before S is 2^low_bits, up to a relative error of 2^-50 or
so, and such that the certified error and what S makes of that relative error stay below half of it.
Then a circuit that rounds the low bits away has S itself, ties included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from helba.errors import InvalidInput, require_positive, require_whole
from helba.ring.noise import (
    DEVIATIONS,
    Bound,
    Operand,
    encryption_noise,
    product_noise,
    reencryption_noise,
    spread,
)
from helba.ring.parameters import RingParameters
from helba.ring.sharing.share import MOST_SHARE_BITS

TRIALS = 4096  # multiples of the features that are tried to come near the unit


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Features times `feature_multiple`, the model times `model_multiple`.

    Shares modulo 2^`bits` of the opened product carry the score above `low_bits` bits. `error` is
    certified: what is rounded away is at most that, below 2^(low_bits - 1).
    """

    feature_multiple: int
    model_multiple: int
    bits: int
    low_bits: int
    error: float

    @property
    def score_bits(self) -> int:
        """Bits of the scores that fit, without their sign."""
        return self.bits - self.low_bits - 1


def choose_grid(
    *,
    parameters: RingParameters,
    features: Bound,
    model: Bound,
    score_peak: float,
    bits: int,
    encryptions: int = 1,
) -> Grid:
    """Return the grid with the fewest low bits for integer features and model within bounds.

    `features` is the bound of the whole polynomial, of all users that share it; `score_peak` that
    of one score; the model is the sum of so many fresh `encryptions`. `InvalidInput` if no grid
    carries such scores in `bits` bits.
    """
    require_whole("bits", bits, least=8, most=MOST_SHARE_BITS)
    require_positive("features", features.norm)
    require_positive("model", model.norm)
    require_positive("score_peak", score_peak)
    first, middle = parameters.moduli[:2]
    degree = parameters.ring_dim
    reach = [
        each.norm * math.sqrt(spread(each.count, ring_dim=degree)) for each in (features, model)
    ]
    balance = math.sqrt(reach[1] / reach[0])  # then both operands' errors weigh the same
    for low_bits in range(2, bits - 1):
        if score_peak >= 2.0 ** (bits - low_bits - 1):
            break
        target = (first * middle << low_bits) >> bits  # of a b
        root = math.sqrt(target)  # `_near` searches long: not where noise rules a grid out
        likely = (features.scaled(balance * root), model.scaled(root / balance))
        noise = _opened_noise(parameters, *likely, encryptions=encryptions)
        if 0.99 * DEVIATIONS * noise * 2.0**bits / first >= 2.0 ** (low_bits - 1):
            continue
        feature_multiple, model_multiple = _near(target, balance=balance)
        if min(feature_multiple, model_multiple) < 1:
            continue
        product = feature_multiple * model_multiple
        unit_error = abs(product * (1 << bits) / (first * middle * (1 << low_bits)) - 1.0)
        noise = _opened_noise(
            parameters,
            features.scaled(feature_multiple),
            model.scaled(model_multiple),
            encryptions=encryptions,
        )
        # both sides round their shares: half a unit each
        error = DEVIATIONS * noise * 2.0**bits / first + 1.0
        error += score_peak * 2.0**low_bits * (unit_error + 2.0**-52)
        if error < 2.0 ** (low_bits - 1):
            return Grid(
                feature_multiple=feature_multiple,
                model_multiple=model_multiple,
                bits=bits,
                low_bits=low_bits,
                error=error,
            )
    raise InvalidInput(
        "score_peak",
        f"2^{math.log2(score_peak):.1f}",
        f"small enough for shares of {bits} bits: take fewer bits for features or model",
    )


def _near(target: int, *, balance: float) -> tuple[int, int]:
    """Whole numbers whose product is nearest `target`, the first about balance sqrt(target)."""
    start = max(1, round(balance * math.sqrt(target)))
    best = (target, 0, 0)
    for one in range(start, start + TRIALS):
        other = (2 * target + one) // (2 * one)
        best = min(best, (abs(one * other - target), one, other))
    return best[1], best[2]


def _opened_noise(
    parameters: RingParameters, features: Bound, model: Bound, *, encryptions: int
) -> float:
    """The noise of the opened product of fresh ciphertexts with two primes."""
    fresh = encryption_noise(parameters)
    asked = Operand(bound=features, noise=fresh)
    served = Operand(bound=model, noise=math.sqrt(encryptions) * fresh)
    product = product_noise(asked, served, parameters=parameters, primes=2, independent=True)
    switched = reencryption_noise(parameters, primes=1)  # where openers have their own keys
    return math.hypot(product, fresh, switched)
