"""Messages as bytes, and back: a frame around head and parts, of one length for its kind.

    codec = Codec(deployment)
    data = codec.encode(message)

A `Task` and a `TaskReply` have one length for each kind of work. The reason of a `Refusal` is cut
where it would be too long. What is in a part is the engine's to check (see `frame`).
"""

from __future__ import annotations

import json
from dataclasses import replace

from helba.errors import DamagedData, InvalidInput, RunFailed
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.profiles.choice import profile_of
from helba.reference.protocol.wire.frame import frame, unframe
from helba.reference.protocol.wire.lengths import HEAD_BYTES, WORKS, message_lengths
from helba.reference.protocol.wire.messages import (
    Message,
    Refusal,
    Task,
    TaskReply,
    head_of,
    message_of,
)

VERSION = 3
MAGIC = b"\x89HELMSG\n"
MOST_PARTS = 64
CUT = "..."


class Codec:
    """Writes and reads the messages of one deployment."""

    def __init__(self, deployment: Deployment) -> None:
        self._fingerprint = deployment.fingerprint
        self._lengths = message_lengths(profile_of(deployment))

    def encode(self, message: Message) -> bytes:
        """Return the bytes of the message; `RunFailed` if it has more than its kind may have."""
        length = self.length_of(message)
        head = head_of(message, deployment=self._fingerprint)
        if len(head) > HEAD_BYTES and isinstance(message, Refusal):
            message = self._shortened(message)
            head = head_of(message, deployment=self._fingerprint)
        if len(head) > HEAD_BYTES:
            raise RunFailed(f"a head of {len(head)} bytes is longer than {HEAD_BYTES}")
        return frame(
            magic=MAGIC,
            version=VERSION,
            kind=message.kind,
            head=head,
            parts=message.parts,
            length=length,
        )

    def decode(self, data: bytes) -> Message:
        """Return the message, checked but for its parts, or raise `DamagedData`."""
        kind, head, parts = unframe(
            data,
            magic=MAGIC,
            version=VERSION,
            what="a message",
            most_head=HEAD_BYTES,
            most_parts=MOST_PARTS,
        )
        message = message_of(kind, head=head, parts=parts, deployment=self._fingerprint)
        try:
            length = self.length_of(message)
        except InvalidInput:
            raise DamagedData("a message about work that there is not") from None
        if len(data) != length:
            raise DamagedData(f"the message has {len(data)} bytes; all of its kind have {length}")
        return message

    def length_of(self, message: Message) -> int:
        """Return the bytes of every message of this kind, and of this work if it has one."""
        work = message.work if isinstance(message, Task | TaskReply) else None
        if (type(message), work) not in self._lengths:
            raise InvalidInput("work", work, f"one of {', '.join(WORKS)}")
        return self._lengths[type(message), work]

    def longest(self, kind: type[Message]) -> int:
        """Return the most bytes that a message of this kind has."""
        return max(length for (each, _), length in self._lengths.items() if each is kind)

    def _shortened(self, refusal: Refusal) -> Refusal:
        """The refusal with as much of its reason as fits."""
        bare = head_of(replace(refusal, reason=CUT), deployment=self._fingerprint)
        room, kept = HEAD_BYTES - len(bare), 0
        for character in refusal.reason:
            room -= len(json.dumps(character)) - len(json.dumps(""))
            if room < 0:
                break
            kept += 1
        return replace(refusal, reason=refusal.reason[:kept] + CUT)
