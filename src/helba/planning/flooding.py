"""How much noise the server adds to a comparison vector before it leaves.

Uniform in [-f, f] in every slot, so that what CKKS left in the low digits, which depends on the
model and on the server's ciphertexts, is covered by independent noise. How many times larger than
the bound of that error it is, a plan shows (`flood` and `comparison_error`): 40 and more for the
fast profile.
The argmax pays for it: f counts as noise of an entry (`numerics.argmax.argmax_tolerance`), which a
sum over the opponents sees once and a product enlarges 2^K times. Hence 2^-10 for a sum, and less
for a product of many. The paper's acomp ends where its slope is small
(`numerics.compare.acomp_tolerance`): 2^-16 there.
"""

from __future__ import annotations

__all__ = ["answer_flood"]

FLOOD = 2.0**-10
PAPER_FLOOD = 2.0**-16
PRODUCT_MARGIN_BITS = 4


def answer_flood(*, arms: int, method: str | None) -> float:
    """Return f for K = `arms` and the argmax by "sum", "product" or, for None, acomp."""
    if method is None:
        return PAPER_FLOOD
    if method == "sum" or arms == 2:
        return FLOOD
    return float(min(FLOOD, 2.0 ** -(arms + PRODUCT_MARGIN_BITS)))
