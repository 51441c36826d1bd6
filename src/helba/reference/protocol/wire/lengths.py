"""How long messages are: one length for each kind, whatever is in them.

It follows from what a deployment makes public: a part of known slots and level has a known number
of residues, and these a limit of packed bytes (`engine.wire.packing.packed_limit`). Messages are
filled up to that, so that their lengths say nothing about contexts, rewards, or decisions.
"""

from __future__ import annotations

from helba.reference.engine.exchanges.exchange import EXCHANGE_ID_BYTES
from helba.reference.engine.wire.envelope import DIGEST_BYTES, HEADER
from helba.reference.engine.wire.packing import packed_limit
from helba.reference.planning.parameters import Parameters
from helba.reference.protocol.profiles.profile import Profile
from helba.reference.protocol.wire.frame import frame_bytes
from helba.reference.protocol.wire.messages import (
    KINDS,
    Answer,
    Ask,
    Message,
    Report,
    Task,
    TaskReply,
)

# Room for the largest head, three times over.
HEAD_BYTES = 1 << 10
# What a helper may be asked for.
WORKS = ("refresh", "check", "opening")
# OpenFHE's primes lie about 2^bits, most of them above; none has more than 60 bits.
MOST_PRIME_BITS = 60
# A simulated number and the bound of its error.
SIMULATED_BYTES = 16

# By kind of message, and by kind of work where there is one.
Lengths = dict[tuple[type[Message], str | None], int]


def message_lengths(profile: Profile) -> Lengths:
    """Return the bytes of every kind of message of the profile's deployment."""
    scheme, parameters = profile.deployment.scheme, profile.deployment.parameters
    parts = _Parts(parameters) if scheme == "ckks" else _SimulatedParts(parameters)
    depth = parameters.depth
    contexts = [parts.vector(profile.context_slots, level=profile.context_level)]
    statistics = [parts.vector(slots, level=level) for slots, level in profile.statistics_shape]
    widest = max(
        profile.context_slots,
        profile.answer_slots,
        profile.deployment.matrices.size,
        *(slots for slots, _ in profile.statistics_shape),
    )
    lengths: Lengths = {(kind, None): _length() for kind in KINDS.values()}
    for name in (Task, TaskReply):
        del lengths[name, None]
    return lengths | {
        (Ask, None): _length(*contexts * profile.context_parts),
        (Answer, None): _length(parts.vector(profile.answer_slots, level=depth)),
        (Report, None): _length(*statistics),
        (Task, "refresh"): _length(parts.exchange(widest, level=depth - 1)),
        (Task, "check"): _length(parts.vector(profile.check_slots, level=depth)),
        (Task, "opening"): _length(parts.exchange(1, level=depth - 1)),
        (TaskReply, "refresh"): _length(parts.exchange(widest, level=0)),
        (TaskReply, "check"): _length(),
        (TaskReply, "opening"): _length(parts.opened(1)),
    }


def _length(*parts: int) -> int:
    return frame_bytes(head=HEAD_BYTES, parts=parts)


class _Parts:
    """The most bytes of each kind of part: residues of two polynomials; slots do not matter."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters

    def vector(self, slots: int, *, level: int) -> int:
        """A vector at `level`."""
        return _sealed(self._payload(slots, level=level))

    def exchange(self, slots: int, *, level: int) -> int:
        """A request, or the reply to a refresh."""
        return _sealed(self._payload(slots, level=level)) + EXCHANGE_ID_BYTES

    def opened(self, slots: int) -> int:
        """The reply to an opening: coefficients modulo the last two primes."""
        bits = self._bits(self.parameters.depth - 1)
        return _sealed(packed_limit(bits, ring_dim=2 * slots)) + EXCHANGE_ID_BYTES

    def _payload(self, slots: int, *, level: int) -> int:  # noqa: ARG002
        return packed_limit(2 * self._bits(level), ring_dim=self.parameters.ring_dim)

    def _bits(self, level: int) -> list[int]:
        """Bits of the primes that are left, at most."""
        chosen = self.parameters
        bits = [chosen.first_bits, *[chosen.scale_bits] * (chosen.depth - level)]
        return [min(each + 1, MOST_PRIME_BITS) for each in bits]


class _SimulatedParts(_Parts):
    """Numbers and bounds of their errors; levels do not matter."""

    def opened(self, slots: int) -> int:
        """As any other part."""
        return self.exchange(slots, level=0)

    def _payload(self, slots: int, *, level: int) -> int:  # noqa: ARG002
        return SIMULATED_BYTES * slots


def _sealed(payload: int) -> int:
    return HEADER.size + payload + DIGEST_BYTES
