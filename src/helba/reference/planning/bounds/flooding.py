"""How much noise the server adds to a comparison vector before it leaves, and how long it lasts.

At most f in every slot, half of it uniform there and the other half spread over all coefficients
(`engine.reencryption`), so that what CKKS left in the low digits, which depends on the model and
on the server's ciphertexts, is covered by independent noise. How many times larger than the bound
of that error it is, a plan shows (`flood` and `comparison_error`): 38 and more for the plans of
docs/security.md.
The argmax pays for it: f counts as noise of an entry (`numerics.argmax.argmax_tolerance`), which a
sum over the opponents sees once and a product enlarges 2^K times. Hence 2^-10 for a sum, and less
for a product of many. The paper's acomp ends where its slope is small
(`numerics.compare.acomp_tolerance`): 2^-16 there.

*The budget of bits.* A bit that a user returns is the sign of a decrypted value with uniform noise
in [-1/2, 1/2] on it. It can depend on the error that CKKS made, and with it on secret keys, only if
the noise brings the value within that error of 0. A test's error is at most 3 e, for e that of an
entry: it may be read as a difference of two of them, and counts P where an entry has half of it. So
the probability is 6 e, and 1/(6 e) bits carry less than one such bit in expectation. Beyond that
the keys should be rotated.
"""

from __future__ import annotations

FLOOD = 2.0**-10
PAPER_FLOOD = 2.0**-16
PRODUCT_MARGIN_BITS = 4
# Where errors are so small that no run would come near it.
MOST_BUDGET = 1 << 20


def answer_flood(*, arms: int, method: str | None) -> float:
    """Return f for K = `arms` and the argmax by "sum", "product" or, for None, acomp."""
    if method is None:
        return PAPER_FLOOD
    if method == "sum" or arms == 2:
        return FLOOD
    return float(min(FLOOD, 2.0 ** -(arms + PRODUCT_MARGIN_BITS)))


def bit_budget(error: float) -> int:
    """Return how many bits may travel back under one key, for an error of `error` in an entry."""
    return MOST_BUDGET if error <= 0.0 else max(1, min(MOST_BUDGET, int(1.0 / (6.0 * error))))
