"""What a flush does with what was left behind, and which refusals of a report are final."""

from __future__ import annotations

import time
from dataclasses import dataclass

from helba.service.client.outbox import PendingRound
from helba.service.client.transport import find_refusal

# A younger round may still be waiting for its answer, in another process.
ANSWER_SECONDS = 900.0
# A report that is damaged, against the protocol, too long, inadmissible: the same one stays so. All
# else is about who sends it, or where to, and may pass.
FINAL = frozenset({400, 409, 413, 422})


@dataclass(frozen=True, kw_only=True)
class Flushed:
    """How many reports were sent, how many refused, and how many rounds given up."""

    sent: int
    refused: int
    given_up: int


def is_final(error: BaseException) -> bool:
    """Return whether an error says that helba's server refused this very report."""
    refusal = find_refusal(error)
    return refusal is not None and refusal.by_helba and refusal.status in FINAL


def is_orphan(round: PendingRound) -> bool:
    """Return whether a round was asked for long ago, and no answer came."""
    return round.arm is None and time.time() - round.asked_at > ANSWER_SECONDS
