"""What refresh and opening share: a message to or from the key's owner, and the mask that waits.

Both go the same way: the server adds a uniform mask to a re-randomised ciphertext and sends it; the
owner decrypts what is uniform to it; the server takes the mask off what comes back. The id of an
exchange finds its mask. A mask serves once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn

from helba.errors import EngineError
from helba.reference.planning.cost.chain import REFRESH_LEVELS

EXCHANGE_ID_BYTES = 16
EXCHANGE_LEVELS = REFRESH_LEVELS
# Bits of the two towers that remain, at least; and how likely a refresh may fail because value and
# mask wrap around them: N |value| / 2^first_bits.
EXCHANGE_BITS = 95
EXCHANGE_FAILURE = 2.0**-30


@dataclass(frozen=True, eq=False)
class Message:
    """A request or a reply of the exchange `id`, for a vector of `slots` under the key `tag`."""

    payload: Any
    slots: int
    tag: str
    id: bytes

    def __repr__(self) -> str:
        return f"<{type(self).__name__} slots={self.slots}>"


class Pending:
    """The server's half of one exchange: the mask. It can be taken once."""

    exchange: ClassVar[str]

    def __init__(self, payload: Any, *, slots: int, tag: str, id: bytes) -> None:
        self._payload = payload
        self.slots = slots
        self.tag = tag
        self.id = id

    def show(self) -> Any:
        """Return the mask without using it up; `EngineError` if it was taken before."""
        if self._payload is None:
            raise EngineError(
                f"this {self.exchange} was finished before: a mask never serves twice"
            )
        return self._payload

    def take(self) -> Any:
        """Return the mask and forget it; a second call raises `EngineError`."""
        payload, self._payload = self.show(), None
        return payload

    def __repr__(self) -> str:
        return f"<{type(self).__name__} slots={self.slots}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a pending {self.exchange} cannot be pickled: it holds a mask")
