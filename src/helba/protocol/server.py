"""The server: a state machine on ciphertexts. It has no secret key and learns one bit a round.

`receive` takes the bytes of one message and returns those to send back. A message that does not
fit raises an error or is answered by a `Refusal`, and changes nothing. What the server needs help
with stands in `tasks`, for whoever is online; recommendations never wait for it. Between any two
messages the whole state can be saved (`snapshot`).

An update is due after a report, by the growth rule or because a test said so. It works on the
statistics of that moment; reports that come in meanwhile count for the next batch. Its model is
adopted only when a check has passed, and the last one stays for rounds that were asked under it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from helba.bandits.terms import BatchTerms
from helba.engine import EncryptedVector, Engine
from helba.errors import DamagedData, HelbaError, InvalidInput
from helba.protocol.deployment import Deployment
from helba.protocol.growth import GrowthTests
from helba.protocol.messages import (
    Answer,
    Ask,
    Message,
    Notice,
    Receipt,
    Refusal,
    Report,
    TaskReply,
    TestReply,
    decode,
    encode,
)
from helba.protocol.profile import Model, RidingTest, Statistics
from helba.protocol.profiles import profile_of
from helba.protocol.schedule import ServerSchedule, last_round
from helba.protocol.work import AnswerWork, OpenRound, TestWork, UpdateWork, Work
from helba.protocol.worker import Worker

__all__ = ["Server", "Status"]

# Models that rounds in flight may still have been asked under.
KEPT_MODELS = 2
# Answers kept for a user who asks again because the first one got lost.
KEPT_ANSWERS = 64


@dataclass(frozen=True, kw_only=True)
class Status:
    """What a server tells about itself; all of it is public."""

    round: int
    samples: int
    updates: int
    rejected: int
    held: int
    lag: int
    stretch: float
    levels_left: int | None
    last_error: str | None


class Server:
    """Serves one deployment with `engine`, which holds public and evaluation keys only.

    `round` counts answered rounds, `samples` the rewards in the statistics, `updates` the models
    adopted, `rejected` those that were not. `levels_left` is that of the last answer. Rewards that
    come in during an update, or more of them than one update can take, are `held` for the next.
    """

    def __init__(self, deployment: Deployment, *, engine: Engine) -> None:
        self.deployment = deployment
        self.profile = profile_of(deployment)
        self._engine = engine
        settings, matrices = deployment.settings, deployment.matrices
        self.schedule = ServerSchedule(settings, band=deployment.test_band)
        self.round = 0
        self.samples = 0
        self.updates = 0
        self.rejected = 0
        self.levels_left: int | None = None
        self.last_error: str | None = None
        first = BatchTerms(
            number=0,
            start=1,
            samples=0,
            last_round=last_round(settings, start=1),
            residual=0.0,
            estimate_error=0.0,
        )
        model = self.profile.first_model(engine, terms=first)
        self.models: OrderedDict[int, Model] = OrderedDict({0: model})
        ridge, nothing = settings.ridge * np.eye(settings.dim), np.zeros(settings.dim)
        self.design = engine.encrypt(matrices.pack(ridge))
        self.response = engine.encrypt(matrices.pack_by_row(nothing))
        self.growth = GrowthTests()
        self.held: list[Statistics] = []  # rewards that wait for the next batch
        self.rounds: dict[bytes, OpenRound] = {}
        self.answers: OrderedDict[bytes, bytes] = OrderedDict()
        self.worker = Worker(deployment, engine=engine, profile=self.profile)

    def __repr__(self) -> str:
        return f"<Server of {self.deployment.fingerprint}, round {self.round}>"

    # -- what others see

    @property
    def terms(self) -> BatchTerms:
        """The terms of the batch that is served."""
        return self.model.terms

    @property
    def model(self) -> Model:
        """The model that is served."""
        return next(reversed(self.models.values()))

    def notice(self) -> bytes:
        """Return the terms as a message."""
        return self._encode(Notice.from_terms(self.terms))

    def status(self) -> Status:
        """Return how far it is."""
        return Status(
            round=self.round,
            samples=self.samples,
            updates=self.updates,
            rejected=self.rejected,
            held=len(self.held),
            lag=self.schedule.lag,
            stretch=self.schedule.stretch,
            levels_left=self.levels_left,
            last_error=self.last_error,
        )

    def tasks(self) -> tuple[bytes, ...]:
        """Return what the server needs help with; the same until somebody has helped."""
        return self.worker.tasks()

    # -- what comes in

    def receive(self, data: bytes) -> tuple[bytes, ...]:
        """Take one message in and return those to send back, which may be none."""
        message = self._decode(data)
        if isinstance(message, Ask):
            return self._ask([message])
        if isinstance(message, Report):
            return self._report(message)
        if isinstance(message, TestReply):
            return self._test_reply(message)
        if isinstance(message, TaskReply):
            return self._task_reply(message)
        raise DamagedData("a message that no server receives")

    def receive_asks(self, asks: Sequence[bytes]) -> tuple[bytes, ...]:
        """Answer several waiting users with as few evaluations as their slots allow.

        An ask that does not fit is refused and spoils nobody else's. Update tests ride in slot 0:
        somebody has to use it.
        """
        messages = [self._decode(data) for data in asks]
        if not all(isinstance(message, Ask) for message in messages):
            raise DamagedData("these are not all asks")
        return self._ask([ask for ask in messages if isinstance(ask, Ask)], refuse=True)

    # -- rounds

    def _ask(self, asks: Sequence[Ask], *, refuse: bool = False) -> tuple[bytes, ...]:
        """Answer asks together; one that does not fit raises, or is refused."""
        replies: list[bytes] = []
        taken: set[bytes] = set()
        groups: list[dict[int, tuple[Ask, list[EncryptedVector]]]] = []
        for ask in asks:
            if ask.round in taken:  # a round that comes twice is one
                continue
            known = self._known_ask(ask)
            if known is not None:
                taken.add(ask.round)
                replies += known
                continue
            try:
                vectors = self._contexts(ask)
            except HelbaError as error:
                if not refuse:
                    raise
                replies.append(self._refuse(ask.round, str(error)))
                continue
            taken.add(ask.round)
            for group in groups:
                other = next(iter(group.values()))[0]
                if ask.slot not in group and other.batch == ask.batch:
                    group[ask.slot] = (ask, vectors)
                    break
            else:
                groups.append({ask.slot: (ask, vectors)})
        for group in groups:
            replies += self._answer(group)
        return tuple(replies)

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

    def _is_in_work(self, round: bytes) -> bool:
        return any(
            isinstance(work, AnswerWork) and round in work.users for work in self.worker.work
        )

    def _contexts(self, ask: Ask) -> list[EncryptedVector]:
        profile = self.profile
        if len(ask.parts) != profile.context_parts:
            raise DamagedData(f"an ask has {profile.context_parts} ciphertexts")
        if ask.slot >= self.deployment.users:
            raise InvalidInput("slot", ask.slot, f"below {self.deployment.users}")
        return [
            self._engine.vector_from_bytes(
                part, slots=profile.context_slots, level=profile.context_level
            )
            for part in ask.parts
        ]

    def _answer(self, group: dict[int, tuple[Ask, list[EncryptedVector]]]) -> list[bytes]:
        first = next(iter(group.values()))[0]
        model = self.models[first.batch]
        parts = zip(*(vectors for _, vectors in group.values()), strict=True)
        contexts = [self._engine.combine([(v, 1.0) for v in same]) for same in parts]
        test = name = None
        if 0 in group and first.batch == self.terms.number:
            name, test = self._riding_test()
        for ask, _ in group.values():
            self.round += 1
            self.rounds[ask.round] = OpenRound()
        work = AnswerWork(
            users={ask.round: slot for slot, (ask, _) in group.items()},
            model=model,
            round=self.round,
            contexts=contexts,
            test=test,
            test_name=name,
        )
        replies = self._begin(work)
        newest = first.batch == self.terms.number
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
        test = self.growth.out.pop(reply.test, None)
        if test is None:
            return (self._refuse(reply.test, "no test of this name is open"),)
        if test.batch == self.terms.number:
            passed = reply.positive == (test.flip > 0)
            self.schedule.answer(passed=passed, covered=test.covered)
        return ()

    # -- rewards

    def _report(self, report: Report) -> tuple[bytes, ...]:
        known = self.rounds.get(report.round)
        if known is None or self._is_in_work(report.round):
            return (self._refuse(report.round, "no round of this name was answered"),)
        if known.reported:
            return (self._encode(Receipt(round=report.round, counted=False)),)
        added = self._statistics(report)
        at_once = self._updating() is None and not self.held and self._has_room()
        if at_once:
            self._absorb(added)
        else:
            self.held.append(added)
        known.reported = True
        self.answers.pop(report.round, None)
        receipt = self._encode(Receipt(round=report.round, counted=True))
        return (receipt, *self._take_in(taken=int(at_once)))

    def _statistics(self, report: Report) -> Statistics:
        shapes = self.profile.statistics_shape
        if len(report.parts) != len(shapes):
            raise DamagedData(f"a report has {len(shapes)} ciphertexts")
        vectors = [
            self._engine.vector_from_bytes(part, slots=slots, level=level)
            for part, (slots, level) in zip(report.parts, shapes, strict=True)
        ]
        return self.profile.absorb(self._engine, vectors)

    def _take_in(self, *, taken: int = 0) -> list[bytes]:
        """Add the rewards that are held, as many as one update can take; then see what is due."""
        if self._updating() is not None:
            return []
        while self.held and self._has_room():
            with suppress(HelbaError):  # what cannot be added, no honest user sent
                self._absorb(self.held.pop(0))
                taken += 1
        if self.held or (taken and self.schedule.due(round=self.round)):
            return self._update()
        if taken and self.profile.asks and not self.profile.rides:
            return self._test()
        return []

    def _has_room(self) -> bool:
        """Whether an update can still bridge the trace with one more reward."""
        reach = self.schedule.trace_bound(residual=self.terms.residual, more=1)
        return self.schedule.plays == 0 or self.profile.can_bridge(self.terms, reach=reach)

    def _absorb(self, added: Statistics) -> None:
        design = self._engine.add(self.design, added.design)
        response = self._engine.add(self.response, added.response)
        self.design, self.response = design, response
        self.samples += 1
        self.schedule.plays += 1
        if added.growth is not None:
            self.growth.waiting.append(added.growth)

    def _test(self) -> list[bytes]:
        """Begin an update test of its own, unless one is under way."""
        if any(isinstance(work, TestWork) for work in self.worker.work):
            return []
        growth = self.growth.show(self._engine)
        assert growth is not None
        return self._begin(
            TestWork(
                growth=growth,
                model=self.model,
                plays=self.schedule.plays,
                round=self.round,
            )
        )

    # -- updates

    def _updating(self) -> UpdateWork | None:
        return next((work for work in self.worker.work if isinstance(work, UpdateWork)), None)

    def _update(self) -> list[bytes]:
        if self.samples > self.deployment.settings.horizon:
            return self._reject("the horizon that was planned for is over: certificates end there")
        reach = self.schedule.trace_bound(residual=self.terms.residual)
        start = max(1, self.round)
        try:
            terms = self.profile.next_terms(
                terms=self.terms,
                reach=reach,
                round=start,
                samples=self.samples,
                last_round=last_round(self.deployment.settings, start=start),
            )
        except HelbaError as error:
            return self._reject(str(error))
        return self._begin(
            UpdateWork(
                design=self.design,
                response=self.response,
                model=self.model,
                terms=terms,
                reach=reach,
            )
        )

    def _adopt(self, model: Model) -> None:
        self.models[model.terms.number] = model
        while len(self.models) > KEPT_MODELS:
            self.models.popitem(last=False)
        self.updates += 1
        self.schedule.restart(round=model.terms.start)
        self.growth.restart(batches=self.models)

    def _reject(self, reason: str) -> list[bytes]:
        self.rejected += 1
        self.last_error = reason
        return []

    # -- work that may wait for help

    def _begin(self, work: Work) -> list[bytes]:
        """Start a computation; what it sends, if it ends at once."""
        try:
            ended = self.worker.begin(work)
        except HelbaError as error:
            return self._fail(work, error)
        return self._complete(work) if ended else []

    def _task_reply(self, reply: TaskReply) -> tuple[bytes, ...]:
        work = self.worker.find(reply)
        if work is None:
            return (self._refuse(reply.task, "no task of this name is open"),)
        try:
            ended = self.worker.go_on(work, reply)
        except HelbaError as error:
            if work in self.worker.work:  # the reply was none: the task stays open
                raise
            return tuple(self._fail(work, error))
        return tuple(self._complete(work)) if ended else ()

    def _fail(self, work: Work, error: HelbaError) -> list[bytes]:
        """A computation broke off: its rounds are refused, an update is tried again later."""
        if isinstance(work, AnswerWork):
            self._withdraw(work)
            return [self._refuse(round, str(error)) for round in work.users]
        return self._reject(str(error))

    def _complete(self, work: Work) -> list[bytes]:
        value = work.running.value
        if isinstance(work, AnswerWork):
            return self._send(work, value)
        if isinstance(work, TestWork):
            if work.model is self.model and self._updating() is None:
                self.schedule.answer(passed=value, covered=work.plays)
                if self.schedule.passed:
                    return self._update()
            return []
        assert isinstance(work, UpdateWork)
        if value is None:
            return self._reject("the check of a new model failed: a refresh was answered wrongly")
        self._adopt(value)
        return self._take_in()

    def _send(self, work: AnswerWork, comparison: EncryptedVector) -> list[bytes]:
        self.levels_left = comparison.levels_left
        sent = []
        slots = list(work.users.values())
        leaving = self.profile.leave(self._engine, comparison, slots=slots)
        for (round, slot), vector in zip(work.users.items(), leaving, strict=True):
            answer = self._encode(
                Answer(
                    round=round,
                    test=work.test_name if slot == 0 else None,
                    parts=(self._engine.vector_to_bytes(vector),),
                )
            )
            self.answers[round] = answer
            sent.append(answer)
        while len(self.answers) > max(KEPT_ANSWERS, len(work.users)):
            self.answers.popitem(last=False)
        return sent

    def _withdraw(self, work: AnswerWork) -> None:
        """Forget rounds that could not be answered: they may be asked again."""
        for round in work.users:
            del self.rounds[round]
            self.round -= 1
        if work.test_name is not None:
            self.growth.out.pop(work.test_name, None)

    # -- bytes

    def _refuse(self, subject: bytes, reason: str) -> bytes:
        return self._encode(Refusal(subject=subject, reason=reason))

    def _encode(self, message: Message) -> bytes:
        return encode(message, deployment=self.deployment.fingerprint)

    def _decode(self, data: bytes) -> Message:
        return decode(data, deployment=self.deployment.fingerprint)
