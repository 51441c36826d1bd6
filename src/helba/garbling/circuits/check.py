"""Circuits that check shared values and return one bit a lane to the garbler."""

from __future__ import annotations

from functools import lru_cache

from helba.errors import require_whole
from helba.garbling.circuits.arithmetic import add_small, all_of, at_most, square_sum, values_of
from helba.garbling.circuits.builder import CircuitBuilder, join_copies
from helba.garbling.circuits.circuit import MAX_BITS, Circuit, ShareGroup


@lru_cache(maxsize=64)
def build_ranges_check(ranges: tuple[tuple[int, int], ...], *, bits: int) -> Circuit:
    """Return the circuit that returns one bit a lane: every value lies in its own range.

    Every value is a group of its own; ranges are (low, high), both included, of signed numbers. A
    secret limit is added to the garbler's share; then value - limit must not wrap around.
    """
    require_whole("bits", bits, least=8, most=MAX_BITS)
    for low, high in ranges:
        require_whole("high", high, least=-(1 << (bits - 1)), most=(1 << (bits - 1)) - 1)
        require_whole("low", low, least=-(1 << (bits - 1)), most=high)
    builder = CircuitBuilder(*(ShareGroup(1, bits, offset=-low) for low, _ in ranges))
    verdicts = [
        at_most(builder, value, high - low)
        for value, (low, high) in zip(values_of(builder, count=len(ranges)), ranges, strict=True)
    ]
    return builder.build(returned=[all_of(builder, verdicts)])


@lru_cache(maxsize=8)  # a circuit for a hundred reports has 10 MB
def build_report_check(
    dim: int,
    *,
    bits: int,
    limit: int,
    reward_limit: int,
    leading_bits: int,
    bound: int,
    reports: int = 1,
) -> Circuit:
    """Return the circuit that returns one bit a lane: all its reports are in range.

    A lane holds `reports` reports of dim + 1 values, the reward last. A report is in range if
    |x_i| <= limit for all i, |r| <= reward_limit, and sum_i m_i^2 <= bound for the leading bits m_i
    of the x_i: with s = (bits of limit) - leading_bits, m = floor(v / 2^s) for v >= 0 and
    floor((-v - 1) / 2^s) for v < 0. Then m 2^s <= |v| <= (m + 1) 2^s: whoever has
    sum v^2 <= 4^s bound passes, and whoever passes has a norm of at most
    2^s (sqrt(bound) + sqrt(dim)).
    """
    require_whole("bits", bits, least=8, most=MAX_BITS)
    require_whole("limit", limit, least=1, most=(1 << (bits - 1)) - 1)
    require_whole("reward_limit", reward_limit, least=0, most=(1 << (bits - 1)) - 1)
    require_whole("dim", dim, least=1, most=1 << 10)
    require_whole("reports", reports, least=1, most=1 << 10)
    magnitude_bits = int(limit).bit_length()
    require_whole("leading_bits", leading_bits, least=1, most=min(magnitude_bits, 16))
    require_whole("bound", bound, least=0, most=1 << 63)
    low_bits = 1 + max(magnitude_bits, int(reward_limit).bit_length())
    # Values in range, 2^(low_bits - 1) added, have low_bits bits; the highest one is not the sign.
    builder = CircuitBuilder(ShareGroup(dim + 1, bits, offset=1 << (low_bits - 1)))
    verdicts, magnitudes = [], []
    limits = [limit] * dim + [reward_limit]
    for own, other, largest in zip(builder.evaluator, builder.garbler, limits, strict=True):
        (*value, positive), small = add_small(builder, own, other, bits=low_bits)
        negative = builder.negate(positive)
        # v for v >= 0 and -v - 1 for v < 0: |v| is one more for v < 0.
        magnitude = [builder.xor(wire, negative) for wire in value]
        verdicts += [small, at_most(builder, magnitude, largest, plus=negative)]
        magnitudes.append(magnitude)
    leading = slice(magnitude_bits - leading_bits, magnitude_bits)
    squares = square_sum(builder, [magnitude[leading] for magnitude in magnitudes[:dim]])
    verdicts.append(at_most(builder, squares, bound))
    circuit = builder.build(returned=[all_of(builder, verdicts)])
    return join_copies(circuit, copies=reports)
