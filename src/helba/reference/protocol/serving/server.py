"""The server: a state machine on ciphertexts. It has no secret key and learns one bit a round.

`receive` takes the bytes of one message and returns those to send back. A message that does not
fit raises an error or is answered by a `Refusal`, and changes nothing; so is one under a key that
is not enrolled. What the server needs help with stands in `tasks`: updates, for whoever is online,
which recommendations never wait for, and rounds, for their own users. Between any two messages the
whole state can be saved (`snapshot`). How it learns is in `learning`.
"""

from __future__ import annotations

from dataclasses import dataclass

from helba.errors import DamagedData, HelbaError, Refused, RunFailed
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import Enrolment, Rotation, name_key
from helba.reference.protocol.profiles.profile import RidingTest
from helba.reference.protocol.serving.directory import Directory
from helba.reference.protocol.serving.ledger import TEST_BITS, bits_told
from helba.reference.protocol.serving.rewards import NOT_YOURS, Rewards
from helba.reference.protocol.serving.work import AnswerWork, OpenRound
from helba.reference.protocol.wire.messages import (
    Answer,
    Ask,
    Notice,
    Report,
    TaskReply,
    TestReply,
    subject_of,
)

# Answers kept for a user who asks again because the first one got lost.
KEPT_ANSWERS = 64


@dataclass(frozen=True, kw_only=True)
class Status:
    """What a server tells about itself; all of it is public.

    `bits` are those that users returned under this collective key, of `bit_budget`; past that the
    key should be rotated.
    """

    round: int
    samples: int
    updates: int
    rejected: int
    held: int
    lag: int
    stretch: float
    levels_left: int | None
    last_error: str | None
    users: int
    bits: int
    bit_budget: int

    @property
    def rotation_due(self) -> bool:
        """Whether more bits came back than the budget allows."""
        return self.bits > self.bit_budget


class Server(Rewards):
    """Serves one deployment with `engine`, which holds public and evaluation keys only.

    `directory` has the users, `ledger` the bits they returned, `levels_left` is that of the last
    answer.
    """

    def __init__(self, deployment: Deployment, *, engine: Engine, directory: Directory) -> None:
        super().__init__(deployment, engine=engine, directory=directory)
        self.levels_left: int | None = None

    def __repr__(self) -> str:
        return f"<Server of {self.deployment.fingerprint}, round {self.round}>"

    # -- what others see

    def notice(self) -> bytes:
        """Return the terms, and which collective key they are for, as a message."""
        return self._encode(Notice.from_terms(self.terms, key=name_key(self._engine.public_key)))

    def status(self) -> Status:
        """Return how far it is."""
        return Status(
            round=self.round,
            samples=self.samples,
            updates=self.updates,
            rejected=self.rejected,
            held=sum(each.count for each in self.held),
            lag=self.schedule.lag,
            stretch=self.schedule.stretch,
            levels_left=self.levels_left,
            last_error=self.last_error,
            users=len(self.directory.users),
            bits=self.ledger.total,
            bit_budget=self.ledger.budget,
        )

    def tasks(self, user: bytes) -> tuple[bytes, ...]:
        """Return what the server needs help with, for one helper; or raise `Refused`."""
        return (*self.round_tasks(user), *self.update_tasks(user))

    def round_tasks(self, user: bytes) -> tuple[bytes, ...]:
        """Return what a user's own rounds wait for."""
        return self.worker.tasks(user, rounds=True)

    def task_of(self, round: bytes) -> bytes | None:
        """Return what a round waits for its user to do; None if it does not wait."""
        for work in self.worker.work:
            if isinstance(work, AnswerWork) and work.asked == round:
                return self.worker.task(work, work.user)
        return None

    def update_tasks(self, user: bytes) -> tuple[bytes, ...]:
        """Return what updates and their tests wait for: anybody may help."""
        return self.worker.tasks(user, rounds=False)

    @property
    def wants_help(self) -> bool:
        """Whether an update, or a test of its own, waits for a helper."""
        return any(not isinstance(work, AnswerWork) for work in self.worker.work)

    # -- what the authority says

    def enrol(self, enrolment: bytes) -> None:
        """Serve a user from now on, or under new keys."""
        self.directory.enrol(Enrolment.from_bytes(enrolment, deployment=self.deployment))

    def introduce(self, user: bytes, inward_key: bytes) -> None:
        """Take the user's own key for data that arrives under the user's key."""
        self.directory.introduce(user, inward_key=inward_key)

    def revoke(self, user: bytes) -> None:
        """Refuse a user from now on, and delete its keys. What it reported stays."""
        self.directory.revoke(user)
        self._forget_helper(user)

    def rotate(self, rotation: bytes) -> tuple[bytes, ...]:
        """Go on under a new collective key, with the same model; return what to send to users.

        Rounds that were being answered are refused, and may be asked again under the new key; an
        update that was under way begins again after the next report.
        """
        given = Rotation.from_bytes(rotation, deployment=self.deployment)
        engine, directory, key = self.directory.under(given, old=self._engine)
        answering = [work for work in self.worker.work if isinstance(work, AnswerWork)]
        self.move(engine=engine, directory=directory, key=key)
        reason = "the collective key was rotated: ask again under the new one"
        return tuple(refusal for work in answering for refusal in self._withdraw(work, reason))

    # -- what comes in

    def receive(self, data: bytes) -> tuple[bytes, ...]:
        """Take one message in and return those to send back, which may be none."""
        message = self._decode(data)
        if isinstance(message, Ask):
            return self._ask(message)
        if not isinstance(message, Report | TestReply | TaskReply):
            raise DamagedData("a message that no server receives")
        try:
            self.directory.require(message.user)
        except Refused as error:
            return (self._refuse(subject_of(message), str(error)),)
        if isinstance(message, Report):
            return self._report(message)
        if isinstance(message, TestReply):
            return self._test_reply(message)
        return self._task_reply(message)

    def receive_help(self, data: bytes) -> tuple[bytes, ...]:
        """Take the reply to a task in, and return what to send back.

        Where the computation goes on and needs more, that is the helper's next task.
        """
        reply = self._decode(data)
        if not isinstance(reply, TaskReply):
            raise DamagedData("this is not the reply to a task")
        work = self.worker.find(reply)
        sent = self.receive(data)
        if not sent and work is not None and work in self.worker.work:
            return (self.worker.task(work, reply.user),)
        return sent

    # -- rounds

    def _ask(self, ask: Ask) -> tuple[bytes, ...]:
        """Answer an ask, or begin to; or say why not."""
        try:
            self.directory.line(ask.user)
            known = self.rounds.get(ask.round)
            if known is not None and known.user != ask.user:
                raise Refused(NOT_YOURS)
            said = self._known_ask(ask)
            contexts = self._contexts(ask) if said is None else []
        except Refused as error:
            return (self._refuse(ask.round, str(error)),)
        return tuple(self._answer(ask, contexts) if said is None else said)

    def _known_ask(self, ask: Ask) -> list[bytes] | None:
        """What to say to an ask that needs no evaluation; None if it does."""
        if ask.round in self.answers:
            return [self.answers[ask.round]]
        if ask.round in self.rounds:
            return (
                [] if self._is_in_work(ask.round) else [self._refuse(ask.round, "answered before")]
            )
        if ask.batch not in self.models:
            text = f"batch {ask.batch} is over: ask under batch {self.terms.number}"
            return [self._refuse(ask.round, text)]
        return None

    def _contexts(self, ask: Ask) -> list[EncryptedVector]:
        profile = self.profile
        if len(ask.parts) != profile.context_parts:
            raise DamagedData(f"an ask has {profile.context_parts} ciphertexts")
        line, collective = self.directory.line(ask.user), self._engine
        shape = {"slots": profile.context_slots, "level": profile.context_level}
        return [line.read(part, collective=collective, **shape) for part in ask.parts]

    def _answer(self, ask: Ask, contexts: list[EncryptedVector]) -> list[bytes]:
        model, newest = self.models[ask.batch], ask.batch == self.terms.number
        name, test = self._riding_test() if newest else (None, None)
        self.round += 1
        self.rounds[ask.round] = OpenRound(user=ask.user)
        work = AnswerWork(
            user=ask.user,
            asked=ask.round,
            model=model,
            round=self.round,
            contexts=contexts,
            test=test,
            test_name=name,
        )
        replies = self._begin(work, helper=ask.user)
        seen = self.schedule.covered if newest else self.schedule.covered_before
        unseen = self.round - 1 - model.terms.samples - seen
        self.schedule.lag = max(self.schedule.lag, unseen)
        stretch = self.round / model.terms.last_round
        self.schedule.stretch = max(self.schedule.stretch, stretch)
        return replies

    def _riding_test(self) -> tuple[bytes | None, RidingTest | None]:
        """An update test of the newest growth, if there is any reason for one."""
        schedule = self.schedule
        if not (self.profile.asks and self.profile.rides) or schedule.passed or self._updating():
            return None, None
        found = self.growth.riding(
            self._engine,
            batch=self.terms.number,
            covered=schedule.covered,
            most=schedule.covered + self.deployment.unseen,
        )
        return found or (None, None)

    def _test_reply(self, reply: TestReply) -> tuple[bytes, ...]:
        test = self.growth.take(reply.test)
        if self.growth.closed.tell(reply.test, user=reply.user):
            self.ledger.add(reply.user, TEST_BITS)  # also of one that is late: the bit is out
        if test is None:
            return (self._refuse(reply.test, "no test of this name is open"),)
        if test.batch == self.terms.number:
            passed = reply.positive == (test.flip > 0)
            self.schedule.answer(passed=passed, covered=test.covered)
        return ()

    # -- help, and what it leads to

    def _task_reply(self, reply: TaskReply) -> tuple[bytes, ...]:
        work = self.worker.find(reply)
        if work is None:
            if self.worker.closed.tell(reply.task, user=reply.user):
                self.ledger.add(reply.user, bits_told(reply))
            return (self._refuse(reply.task, "no task of this name is open"),)
        try:
            ended = self.worker.go_on(work, reply)
            return tuple(self._complete(work, helper=reply.user)) if ended else ()
        except HelbaError as error:
            if work in self.worker.work:  # the reply was none: the task stays open
                raise
            return tuple(self._fail(work, error))
        except BaseException:
            if work not in self.worker.work:
                self._fail(work, RunFailed("the computation broke off"))
            raise

    def _send(self, work: AnswerWork, comparison: EncryptedVector) -> list[bytes]:
        """The answer: on the last level, flooded, under its user's key."""
        self.levels_left = comparison.levels_left
        try:
            line = self.directory.line(work.user)
        except Refused as error:
            return [self._refuse(work.asked, str(error))]
        low = self._engine.lower(comparison, self._engine.parameters.depth)
        part = line.send(low, collective=self._engine, flood=self.deployment.flood)
        answer = self._encode(Answer(round=work.asked, test=work.test_name, parts=(part,)))
        self.answers[work.asked] = answer
        while len(self.answers) > KEPT_ANSWERS:
            self.answers.popitem(last=False)
        return [answer]

    def _withdraw(self, work: AnswerWork, reason: str) -> list[bytes]:
        """Forget a round that could not be answered: it may be asked again.

        A test that rode along stays out: it rides again as it is, for others may have it.
        """
        del self.rounds[work.asked]
        self.round -= 1
        return [self._refuse(work.asked, reason)]
