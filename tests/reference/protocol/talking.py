"""A table at which rounds are cut: their users are asked to help on the way to an answer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.serving.work import AnswerWork
from helba.reference.protocol.user import Recommendation, User
from helba.reference.protocol.wire.messages import Answer, Refusal, Task, TaskReply
from tests.reference.protocol.parties import MILD, TOY, Table, authority_of

# With a root a round needs more levels than there are. The ring and the depth are those that the
# planner takes, which spares it the search.
CUT_TOY = replace(TOY, bonus="sqrt", ring_dim=1 << 14, depth=5)
# Three arms: a tree of products, in which a round is cut too.
CUT_MILD = replace(MILD, bonus="sqrt", ring_dim=1 << 14, depth=5)
ARMS = [[1.0, 0.2], [-0.5, 0.6]]


class TalkingTable(Table):
    """Counts the tasks of rounds; those of updates are left alone until `help`."""

    def __init__(self, authority: Authority, *, request: PlanRequest) -> None:
        super().__init__(authority)
        self.request = request
        self.rounds_helped = 0

    def round_tasks(self, user: User | None = None) -> list[bytes]:
        """The tasks of a user's own rounds, the oldest first."""
        user = user or self.user
        open_work = [work for work in self.server.worker.work if work.open_to(user.id)]
        tasks = zip(open_work, self.tasks(user), strict=True)
        return [task for work, task in tasks if isinstance(work, AnswerWork)]

    def play(self, contexts: Any, *, user: User | None = None) -> Recommendation:
        """A round up to the arm, with all help for it."""
        user = user or self.user
        return user.read(self.finish(self.server.receive(self.ask(contexts, user=user)), user=user))

    def finish(self, replies: tuple[bytes, ...], *, user: User | None = None) -> bytes:
        """Help with the newest round of a user until its answer comes."""
        user = user or self.user
        while not replies:
            task = self.round_tasks(user)[-1]
            assert self.decode(task).work == "refresh"
            self.rounds_helped += 1
            replies = self.server.receive(user.help(task))
        (answer,) = replies
        assert isinstance(self.decode(answer), Answer)
        return answer

    def renamed(self, reply: bytes, *, user: User) -> bytes:
        """The same reply in the name of somebody else."""
        message: TaskReply = self.decode(reply)
        return self.encode(replace(message, user=user.id))

    def kinds(self) -> list[str]:
        """The kinds of the tasks that are done until nothing is left to do."""
        done = []
        while tasks := self.tasks():
            message: Task = self.decode(tasks[0])
            done.append(message.work)
            self.server.receive(self.user.help(tasks[0]))
        return done


def open_table(scheme: str = "simulate", *, request: PlanRequest = CUT_TOY) -> TalkingTable:
    return TalkingTable(authority_of(request, scheme=scheme), request=request)


def refusal_of(table: TalkingTable, replies: tuple[bytes, ...]) -> Refusal:
    (reply,) = replies
    message = table.decode(reply)
    assert isinstance(message, Refusal)
    return message
