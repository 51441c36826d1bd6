"""The part of the server that learns: statistics, update tests, updates, and the work on them.

An update is due after a report, by the growth rule or because a test said so. It works on the
statistics of that moment; reports that come in meanwhile count for the next batch. Its model is
adopted only when a check has passed, and the last one stays for rounds that were asked under it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np

from helba.errors import HelbaError, OutOfRange, RunFailed
from helba.reference.engine import EncryptedVector, Engine, ReencryptionKey
from helba.reference.planning.bounds.flooding import bit_budget
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.profiles.choice import profile_of
from helba.reference.protocol.profiles.profile import Held, Model, Statistics
from helba.reference.protocol.serving.directory import Directory
from helba.reference.protocol.serving.growth import Growth, GrowthTests
from helba.reference.protocol.serving.ledger import Ledger
from helba.reference.protocol.serving.schedule import ServerSchedule, last_round
from helba.reference.protocol.serving.work import AnswerWork, TestWork, UpdateWork, Work
from helba.reference.protocol.serving.worker import Worker
from helba.reference.twin.terms import BatchTerms

# Models that rounds in flight may still have been asked under.
KEPT_MODELS = 2
# Rounds that may wait for their users' help at once, of all users and of one; the oldest is given
# up for another.
MOST_WAITING_ANSWERS = 128
MOST_WAITING_OF_ONE = 8


class Learning(ABC):
    """State and rules of learning on ciphertexts; `engine` has no secret key.

    `round` counts answered rounds, `samples` the rewards in the statistics, `updates` the models
    adopted, `rejected` those that were not. Rewards that come in during an update, or more of them
    than one update can take, are `held` for the next, in sums that an update can take whole.
    """

    def __init__(self, deployment: Deployment, *, engine: Engine, directory: Directory) -> None:
        self.deployment = deployment
        self.profile = profile_of(deployment)
        self.directory = directory
        self._engine = engine
        settings, matrices = deployment.settings, deployment.matrices
        self.schedule = ServerSchedule(settings, band=deployment.test_band)
        self.round = 0
        self.samples = 0
        self.updates = 0
        self.rejected = 0
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
        self.held: list[Held] = []  # rewards that wait for the next batch
        self.ledger = Ledger(budget=bit_budget(deployment.comparison_noise))
        self.worker = self._make_worker()

    def _make_worker(self) -> Worker:
        return Worker(
            self.deployment,
            engine=self._engine,
            profile=self.profile,
            directory=self.directory,
            ledger=self.ledger,
        )

    @property
    def terms(self) -> BatchTerms:
        """The terms of the batch that is served."""
        return self.model.terms

    @property
    def model(self) -> Model:
        """The model that is served."""
        return next(reversed(self.models.values()))

    # -- rewards

    def _take(self, added: Statistics) -> int:
        """Count a reward now if there is room, else hold it; how many were counted."""
        if self._updating() is None and not self.held and self._has_room(1):
            self._absorb(added, count=1)
            return 1
        last = self.held[-1] if self.held else None
        if last is not None and last.count < self._most_held:
            self.held[-1] = last.plus(added, count=1, engine=self._engine)
        else:
            self.held.append(Held(statistics=added, count=1))
        return 0

    @cached_property
    def _most_held(self) -> int:
        """How many rewards may wait as one sum: a batch that has none yet takes them in any case.

        And tests may see as many at once.
        """
        return self.profile.most_bridged(self.deployment.unseen)

    def _take_in(self, *, taken: int = 0, helper: bytes) -> list[bytes]:
        """Add the rewards that are held, as many as one update can take; then see what is due."""
        if self._updating() is not None:
            return []
        while self.held and self._has_room(self.held[0].count):
            first = self.held[0]
            with suppress(OutOfRange):  # in the simulator: what no honest user sent
                self._absorb(first.statistics, count=first.count)
                taken += first.count
            del self.held[0]  # not before it is in the sums: they are acknowledged
        if self.held or (taken and self.schedule.due(round=self.round)):
            return self._update(helper=helper)
        if taken and self.profile.asks and not self.profile.rides:
            return self._test(helper=helper)
        return []

    def _has_room(self, count: int) -> bool:
        """Whether an update can still bridge the trace with so many more rewards."""
        if self.schedule.plays == 0 and count == 1:
            return True
        reach = self.schedule.trace_bound(residual=self.terms.residual, more=count)
        return self.profile.can_bridge(self.terms, reach=reach)

    def _absorb(self, added: Statistics, *, count: int) -> None:
        design = self._engine.add(self.design, added.design)
        response = self._engine.add(self.response, added.response)
        self.design, self.response = design, response
        self.samples += count
        self.schedule.plays += count
        if added.growth is not None:
            self.growth.waiting.append(Growth(vector=added.growth, count=count))

    def _test(self, *, helper: bytes) -> list[bytes]:
        """Begin an update test of its own, unless one is under way."""
        if any(isinstance(work, TestWork) for work in self.worker.work):
            return []
        growth = self.growth.show(self._engine)
        assert growth is not None
        work = TestWork(
            growth=growth, model=self.model, plays=self.schedule.plays, round=self.round
        )
        return self._begin(work, helper=helper)

    # -- updates

    def _updating(self) -> UpdateWork | None:
        return next((work for work in self.worker.work if isinstance(work, UpdateWork)), None)

    def _update(self, *, helper: bytes) -> list[bytes]:
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
        work = UpdateWork(
            design=self.design,
            response=self.response,
            model=self.model,
            terms=terms,
            reach=reach,
        )
        return self._begin(work, helper=helper)

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

    # -- a new collective key

    def move(self, *, engine: Engine, directory: Directory, key: ReencryptionKey) -> None:
        """Go on under another collective key with the same model; work under way is given up.

        Everything is re-encrypted before anything changes. It errs by less than the encryption of
        one more report.
        """
        old = self._engine

        def move(vector: EncryptedVector) -> EncryptedVector:
            return old.reencrypt(vector, key=key)

        models = OrderedDict(
            (number, replace(m, inverse=move(m.inverse), scoring=move(m.scoring)))
            for number, m in self.models.items()
        )
        design, response = move(self.design), move(self.response)
        held = [replace(each, statistics=each.statistics.map(move)) for each in self.held]
        growth = replace(
            self.growth,
            seen=None if self.growth.seen is None else move(self.growth.seen),
            waiting=[replace(each, vector=move(each.vector)) for each in self.growth.waiting],
        )
        self.models, self.design, self.response = models, design, response
        self.held, self.growth = held, growth
        self._engine, self.directory = engine, directory
        self.ledger.total = 0
        self.worker = self._make_worker()

    # -- work that may wait for help

    def _begin(self, work: Work, *, helper: bytes) -> list[bytes]:
        """Start a computation; what it sends, if it ends at once."""
        try:
            if self.worker.begin(work, helper=helper):
                return self._complete(work, helper=helper)
        except HelbaError as error:
            return self._fail(work, error)
        except BaseException:
            self._fail(work, RunFailed("the computation broke off"))
            raise
        if isinstance(work, AnswerWork):
            self._limit_waiting(work)
        return []

    def _limit_waiting(self, newest: AnswerWork) -> None:
        """Give up the oldest rounds of the same user, and of all, that wait beside the newest."""
        waiting = [each for each in self.worker.work if isinstance(each, AnswerWork)]
        same = [each for each in waiting if each.user == newest.user]
        late = same[: max(0, len(same) - MOST_WAITING_OF_ONE)]
        rest = [each for each in waiting if each not in late]
        for oldest in (*late, *rest[: max(0, len(rest) - MOST_WAITING_ANSWERS)]):
            self._give_up(oldest, "its user has not helped in time: ask again")

    def _forget_helper(self, user: bytes) -> None:
        """Give up what is being answered for a user who is served no more, and its tasks."""
        for work in list(self.worker.work):
            work.tasks.pop(user, None)
            if isinstance(work, AnswerWork) and work.user == user:
                self._give_up(work, "its user is served no more")

    def _give_up(self, work: AnswerWork, reason: str) -> None:
        self.worker.drop(work)
        self._withdraw(work, reason)

    def _fail(self, work: Work, error: HelbaError) -> list[bytes]:
        """A computation broke off: its rounds are refused, an update is tried again later."""
        if isinstance(work, AnswerWork):
            return self._withdraw(work, str(error))
        return self._reject(str(error))

    def _complete(self, work: Work, *, helper: bytes) -> list[bytes]:
        value = work.running.value
        if isinstance(work, AnswerWork):
            return self._send(work, value)
        if isinstance(work, TestWork):
            if work.model is self.model and self._updating() is None:
                self.schedule.answer(passed=value, covered=work.plays)
                if self.schedule.passed:
                    return self._update(helper=helper)
            return []
        assert isinstance(work, UpdateWork)
        if value is None:
            return self._reject("the check of a new model failed: a refresh was answered wrongly")
        self._adopt(value)
        return self._take_in(helper=helper)

    # -- what answers need

    @abstractmethod
    def _send(self, work: AnswerWork, comparison: EncryptedVector) -> list[bytes]:
        """Return the answers of a computation that has ended."""

    @abstractmethod
    def _withdraw(self, work: AnswerWork, reason: str) -> list[bytes]:
        """Forget rounds that could not be answered, and say so."""
