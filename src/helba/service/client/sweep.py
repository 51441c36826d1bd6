"""What a flush does with what was left behind."""

from __future__ import annotations

import time
from dataclasses import dataclass

from helba.service.client.shelf import KeptRound

__all__ = ["Flushed", "is_orphan"]

# A younger round may still be waiting for its answer, in another process.
ANSWER_SECONDS = 900.0


@dataclass(frozen=True, kw_only=True)
class Flushed:
    """How many reports were sent, how many refused, and how many rounds given up."""

    sent: int
    refused: int
    given_up: int


def is_orphan(round: KeptRound) -> bool:
    """Return whether a round was asked for long ago, and no answer came."""
    return round.arm is None and time.time() - round.asked_at > ANSWER_SECONDS
