"""What a user says to the server over a link, and what it makes of the replies.

Rounds that are cut need the user's help on the way to their answer. Wherever a reply is lost, the
same ask is sent again: the server answers it with the answer, or with the tasks that still stand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from helba.errors import DamagedData, RunFailed
from helba.reference.protocol.user import User
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Answer, Ask, Receipt, Refusal, Task
from helba.service.client.link import ServerLink
from helba.service.client.transport import Rejected

CONFLICT = 409
# Tasks of one round, and of one call for help; more often than this nothing is right.
MOST_EXCHANGES = 256
MOST_TASKS = 1 << 12


class Dialogue:
    """One user and its link to the server."""

    def __init__(self, user: User, link: ServerLink) -> None:
        self._user = user
        self._link = link
        self._codec = Codec(user.deployment)

    def round_of(self, ask: bytes) -> str:
        """Return the id of the round that an ask is for."""
        message = self._codec.decode(ask)
        if not isinstance(message, Ask):
            raise DamagedData("this is no ask")
        return message.round.hex()

    def answer_to(self, ask: bytes) -> bytes:
        """Return the answer, after all help that it needs; or raise `Rejected`, with the reason."""
        replies = self._link.ask(ask)
        for _ in range(MOST_EXCHANGES):
            answer = self._find_answer(replies)
            if answer is not None:
                return answer
            tasks = self._tasks(replies)
            if not tasks:
                raise Rejected("the server gave the round up", status=CONFLICT)
            replies = self._share_first(tasks) or self._link.ask(ask)
        raise RunFailed("the server asks for help with one round without end")

    def report(self, report: bytes) -> bool:
        """Send a report until it is acknowledged; return whether this one was counted.

        False says that the same round had been counted before. `Rejected` if it is refused.
        """
        message = self._codec.decode(self._link.report(report))
        if isinstance(message, Refusal):
            raise Rejected(message.reason, status=CONFLICT)
        if not isinstance(message, Receipt):
            raise DamagedData("a report is answered by a receipt")
        return message.counted

    def help(self, *, most: int | None = None, once: bool = False) -> int:
        """Do what the server asks for until it asks no more; return how many shares it took.

        With `once` it ends with the update: where many play, one follows another without end.
        """
        limit, done = MOST_TASKS if most is None else most, 0
        tasks = self._tasks(self._link.tasks()) if limit > 0 else []
        batch = self._link.batch
        while tasks and done < limit:
            shared = [self._share(task) for task in tasks[: limit - done]]
            taken = [replies for replies in shared if replies is not None]
            done += len(taken)
            if not taken or done >= limit or (once and self._link.batch != batch):
                break
            following = [reply for replies in taken for reply in replies]
            tasks = self._tasks(following) or self._tasks(self._link.tasks())
        return done

    def _share_first(self, tasks: Sequence[bytes]) -> list[bytes]:
        """What follows from the first share that leads on; nothing if none does."""
        for task in tasks:
            replies = self._share(task)
            if replies:
                return replies
        return []

    def _share(self, task: bytes) -> list[bytes] | None:
        """What follows from the share of a task; None if it came too late."""
        try:
            return self._link.send_share(self._user.help(task))
        except Rejected as error:  # somebody else was faster, or the reply to this share was lost
            if error.status != CONFLICT:
                raise
            return None

    def _find_answer(self, replies: Iterable[bytes]) -> bytes | None:
        for reply in replies:
            message = self._codec.decode(reply)
            if isinstance(message, Answer):
                return reply
            if isinstance(message, Refusal):
                raise Rejected(message.reason, status=CONFLICT)
        return None

    def _tasks(self, replies: Iterable[bytes]) -> list[bytes]:
        return [reply for reply in replies if isinstance(self._codec.decode(reply), Task)]
