"""Circuits that check shared values and return one bit a lane to the garbler."""

from __future__ import annotations

from functools import lru_cache

from helba.errors import InvalidInput, require_whole
from helba.garbling.circuits.arithmetic import add_small, all_of, exceeds, square_sum, values_of
from helba.garbling.circuits.builder import CircuitBuilder, join_copies
from helba.garbling.circuits.circuit import MAX_BITS, Circuit, ShareGroup


def require_range(low: int, high: int, *, bits: int) -> None:
    """Raise `InvalidInput` unless low <= high are signed numbers of `bits` bits, 8 to 128."""
    require_whole("bits", bits, least=8, most=MAX_BITS)
    require_whole("high", high, least=-(1 << (bits - 1)), most=(1 << (bits - 1)) - 1)
    require_whole("low", low, least=-(1 << (bits - 1)), most=high)


def within(builder: CircuitBuilder, value: list[int], span: int) -> int:
    """Return value <= span for the unsigned value; about one AND a bit."""
    return builder.negate(exceeds(builder, value, span))


@lru_cache(maxsize=64)
def build_threshold(*, bits: int, limit: int = 0) -> Circuit:
    """Return the circuit for one signed value a lane that returns the bit value >= limit.

    It is right for every value; at limit 0 it is the sign alone. A secret limit is added to the
    garbler's share; then value - limit must not wrap around.
    """
    require_range(limit, (1 << (bits - 1)) - 1, bits=bits)
    builder = CircuitBuilder(ShareGroup(1, bits, offset=-limit))
    reached = within(builder, values_of(builder)[0], (1 << (bits - 1)) - 1 - limit)
    return builder.build(title=f"threshold of {bits} bits", returned=[reached])


@lru_cache(maxsize=64)
def build_range_check(values: int, *, bits: int, low: int, high: int) -> Circuit:
    """Return the circuit that returns one bit a lane: low <= value <= high for all its values."""
    require_range(low, high, bits=bits)
    if high - low == (1 << bits) - 1:
        raise InvalidInput("range", "all values", "smaller: there is nothing to check")
    builder = CircuitBuilder(ShareGroup(values, bits, offset=-low))
    verdicts = [within(builder, value, high - low) for value in values_of(builder)]
    title = f"range of {values} values of {bits} bits"
    return builder.build(title=title, returned=[all_of(builder, verdicts)])


@lru_cache(maxsize=64)
def build_ranges_check(ranges: tuple[tuple[int, int], ...], *, bits: int) -> Circuit:
    """Return the circuit that returns one bit a lane: every value lies in its own range.

    Every value is a group of its own; ranges are (low, high), both included.
    """
    for low, high in ranges:
        require_range(low, high, bits=bits)
    builder = CircuitBuilder(*(ShareGroup(1, bits, offset=-low) for low, _ in ranges))
    verdicts = [
        within(builder, value, high - low)
        for value, (low, high) in zip(values_of(builder), ranges, strict=True)
    ]
    title = f"{len(ranges)} ranges of values of {bits} bits"
    return builder.build(title=title, returned=[all_of(builder, verdicts)])


@lru_cache(maxsize=64)
def build_norm_check(
    values: int, *, bits: int, magnitude_bits: int, leading_bits: int, bound: int
) -> Circuit:
    """Return the circuit that returns the bit sum_i m_i^2 <= bound for the values of a lane.

    With s = magnitude_bits - leading_bits, m = floor(v / 2^s) for v >= 0 and floor((-v - 1) / 2^s)
    for v < 0, modulo 2^leading_bits: the leading bits of the magnitude if |v| < 2^magnitude_bits,
    which this circuit does not check (`build_report_check` does). Then m 2^s <= |v| <= (m + 1) 2^s:
    whoever has sum v^2 <= 4^s bound passes, and whoever passes has a norm of at most
    2^s (sqrt(bound) + sqrt(values)).
    """
    _require_leading(bits=bits, magnitude_bits=magnitude_bits, leading_bits=leading_bits)
    require_whole("values", values, least=1, most=1 << 16)
    require_whole("bound", bound, least=0, most=values * ((1 << leading_bits) - 1) ** 2 - 1)
    builder = CircuitBuilder(ShareGroup(values, bits))
    leading = slice(magnitude_bits - leading_bits, magnitude_bits)
    numbers = [_take_magnitude(builder, value)[leading] for value in values_of(builder)]
    small = builder.negate(exceeds(builder, square_sum(builder, numbers), bound))
    title = f"norm of {values} values of {bits} bits"
    return builder.build(title=title, returned=[small])


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
    |x_i| <= limit for all i, |r| <= reward_limit, and the sum of the squares of the leading bits
    of the x_i is at most `bound`, as in `build_norm_check` with the magnitude bits of `limit`.
    """
    require_range(-limit, limit, bits=bits)
    require_range(-reward_limit, reward_limit, bits=bits)
    require_whole("dim", dim, least=1, most=1 << 10)
    require_whole("reports", reports, least=1, most=1 << 10)
    magnitude_bits = int(limit).bit_length()
    _require_leading(bits=bits, magnitude_bits=magnitude_bits, leading_bits=leading_bits)
    require_whole("bound", bound, least=0, most=1 << 63)
    low_bits = 1 + max(magnitude_bits, int(reward_limit).bit_length())
    # Values in range, 2^(low_bits - 1) added, have low_bits bits; the highest one is not the sign.
    builder = CircuitBuilder(ShareGroup(dim + 1, bits, offset=1 << (low_bits - 1)))
    verdicts, magnitudes = [], []
    limits = [limit] * dim + [reward_limit]
    for own, other, largest in zip(builder.evaluator, builder.garbler, limits, strict=True):
        (*value, positive), small = add_small(builder, own, other, bits=low_bits)
        negative = builder.negate(positive)
        magnitude = _take_magnitude(builder, [*value, negative])
        # |v| is the magnitude for v >= 0, and one more for v < 0.
        above = exceeds(builder, magnitude, largest, plus=negative)
        verdicts += [small, builder.negate(above)]
        magnitudes.append(magnitude)
    leading = slice(magnitude_bits - leading_bits, magnitude_bits)
    squares = square_sum(builder, [magnitude[leading] for magnitude in magnitudes[:dim]])
    verdicts.append(builder.negate(exceeds(builder, squares, bound)))
    title = f"{reports} reports of {dim} + 1 values of {bits} bits"
    circuit = builder.build(title=title, returned=[all_of(builder, verdicts)])
    return join_copies(circuit, copies=reports, title=title)


def _take_magnitude(builder: CircuitBuilder, value: list[int]) -> list[int]:
    """Return v for v >= 0 and -v - 1 for v < 0, without the sign; free."""
    return [builder.xor(wire, value[-1]) for wire in value[:-1]]


def _require_leading(*, bits: int, magnitude_bits: int, leading_bits: int) -> None:
    require_whole("bits", bits, least=8, most=MAX_BITS)
    require_whole("magnitude_bits", magnitude_bits, least=1, most=bits - 1)
    require_whole("leading_bits", leading_bits, least=1, most=min(magnitude_bits, 16))
