"""Messages of the masked opening: the server learns a vector, and the key's owner does not.

The server adds a uniform mask to a re-randomised ciphertext (`Engine.begin_opening`); the owner
decrypts what is uniform to it and returns it in the clear (`Engine.answer_opening`); the server
takes the mask off and reads the numbers (`Engine.finish_opening`).

*Flooding.* Whoever knows a ciphertext (c0, c1) and its exact decryption c0 + c1 s solves for the
secret s: one opening without further care would hand the server the key (Li and Micciancio, ePrint
2020/1533). So the owner returns only the 2s coefficients that s slots are read from, and adds to
each an independent uniform error below B = `flood` scale/2s. Slots are then off by `flood` at most,
and where the ciphertext's own error is at most e in a coefficient, the reply differs from one that
knows nothing of it by a total variation of at most 2s e/2B = 2 s^2 (e/scale)/flood: open few slots,
seldom, and with as much flooding as the reader bears.

An opening is a decryption that the server asks for. The owner cannot see of what.
"""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

from helba.errors import InvalidInput
from helba.reference.engine.exchanges.exchange import Message, Pending

# Enough to tell 0 from 1, and far above the error of a ciphertext.
OPENING_FLOOD = 2.0**-6


class OpeningRequest(Message):
    """What the owner receives: a ciphertext of a uniform value. `id` finds the reply's mask."""


class OpeningReply(Message):
    """What the owner returns: the same uniform value in the clear, and a little noise on it."""


class PendingOpening(Pending):
    """The server's half of one opening: the mask. It can be taken once."""

    exchange = "opening"


def draw_flood(count: int, *, bound: float) -> NDArray[np.int64]:
    """Return `count` independent integers, uniform on [-2^k, 2^k) with the largest 2^k <= bound."""
    if not 1.0 <= bound < 2.0**62:
        raise InvalidInput("flood", f"{bound:.3g} in units of the scale", "1 to 2^62")
    half = np.int64(1 << (int(bound).bit_length() - 1))
    bits = int(half).bit_length()  # of 2 * half values
    words = np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)
    return (words >> np.uint64(64 - bits)).astype(np.int64) - half
