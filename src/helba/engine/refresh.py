"""Messages of the masked client refresh: request to the key's owner, reply, what the server keeps.

The server adds a uniform mask to a re-randomised ciphertext (`Engine.begin_refresh`); the owner
decrypts what is uniform to it and encrypts it again at the top (`Engine.answer_refresh`); the
server takes the mask off (`Engine.finish_refresh`). A mask serves once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from helba.errors import EngineError
from helba.planning.chain import REFRESH_LEVELS

__all__ = [
    "REFRESH_BITS",
    "REFRESH_FAILURE",
    "REFRESH_ID_BYTES",
    "REFRESH_LEVELS",
    "PendingRefresh",
    "RefreshReply",
    "RefreshRequest",
]

REFRESH_ID_BYTES = 16
# Bits of the two towers that remain, at least; and how likely a refresh may fail because value and
# mask wrap around them: N |value| / 2^first_bits.
REFRESH_BITS = 95
REFRESH_FAILURE = 2.0**-30


@dataclass(frozen=True, eq=False)
class RefreshRequest:
    """What the owner receives: a ciphertext of a uniform value. `id` finds the reply's mask."""

    payload: Any
    slots: int
    tag: str
    id: bytes

    def __repr__(self) -> str:
        return f"<RefreshRequest slots={self.slots}>"


@dataclass(frozen=True, eq=False)
class RefreshReply:
    """What the owner returns: the same uniform value, encrypted at the top level."""

    payload: Any
    slots: int
    tag: str
    id: bytes

    def __repr__(self) -> str:
        return f"<RefreshReply slots={self.slots}>"


class PendingRefresh:
    """The server's half of one refresh: the mask. It can be taken once."""

    def __init__(self, payload: Any, *, slots: int, tag: str, id: bytes) -> None:
        self._payload = payload
        self.slots = slots
        self.tag = tag
        self.id = id

    def take(self) -> Any:
        """Return the mask and forget it; a second call raises `EngineError`."""
        if self._payload is None:
            raise EngineError("this refresh was finished before: a mask never serves twice")
        payload, self._payload = self._payload, None
        return payload

    def __repr__(self) -> str:
        return f"<PendingRefresh slots={self.slots}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a pending refresh cannot be pickled: it holds a mask")
