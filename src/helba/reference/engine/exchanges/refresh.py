"""Messages of the masked client refresh: request to the key's owner, reply, what the server keeps.

The server adds a uniform mask to a re-randomised ciphertext (`Engine.begin_refresh`); the owner
decrypts what is uniform to it and encrypts it again at the top (`Engine.answer_refresh`); the
server takes the mask off (`Engine.finish_refresh`). A mask serves once.
"""

from __future__ import annotations

from helba.reference.engine.exchanges.exchange import Message, Pending


class RefreshRequest(Message):
    """What the owner receives: a ciphertext of a uniform value. `id` finds the reply's mask."""


class RefreshReply(Message):
    """What the owner returns: the same uniform value, encrypted at the top level."""


class PendingRefresh(Pending):
    """The server's half of one refresh: the mask. It can be taken once."""

    exchange = "refresh"
