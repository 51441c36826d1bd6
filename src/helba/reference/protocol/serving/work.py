"""What the server has under way (answers, update tests, updates), and what it keeps of rounds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from dataclasses import dataclass, field

from helba.reference.engine import EncryptedVector, Engine, PendingOpening, PendingRefresh
from helba.reference.protocol.profiles.profile import Model, Profile, RidingTest
from helba.reference.protocol.serving.jobs import Job, JobSteps
from helba.reference.twin.terms import BatchTerms


@dataclass(kw_only=True)
class OpenRound:
    """A round of `user` that was answered; its reward may come once."""

    user: bytes = field(repr=False)
    reported: bool = False


@dataclass(frozen=True, kw_only=True)
class OpenTask:
    """What a helper was asked for: the task's name and bytes, and the server's half of it."""

    name: bytes = field(repr=False)
    data: bytes = field(repr=False)
    pending: PendingRefresh | PendingOpening | None = field(default=None, repr=False)


@dataclass(kw_only=True)
class Work(ABC):
    """A computation under `model`; while it waits, `tasks` are what it asks for, by helper.

    Every helper has a task of its own, under its own key and with a mask of its own. One reply is
    enough.
    """

    model: Model
    job: Job | None = field(default=None, repr=False)
    tasks: OrderedDict[bytes, OpenTask] = field(default_factory=OrderedDict, repr=False)

    @property
    def running(self) -> Job:
        """The job, once it has begun."""
        assert self.job is not None
        return self.job

    def open_to(self, user: bytes) -> bool:  # noqa: ARG002
        """Whether this user may help with it."""
        return True

    @abstractmethod
    def steps(self, profile: Profile, *, engine: Engine) -> JobSteps:
        """Return the computation from its beginning."""


@dataclass(kw_only=True)
class AnswerWork(Work):
    """The answer to the round `asked` of `user`, the `round`-th, with a test or none.

    Only its user helps with it: a wrong share would falsify somebody else's answer.
    """

    user: bytes = field(repr=False)
    asked: bytes
    round: int
    contexts: list[EncryptedVector]
    test: RidingTest | None
    test_name: bytes | None

    def open_to(self, user: bytes) -> bool:
        """Whether this user has asked."""
        return user == self.user

    def steps(self, profile: Profile, *, engine: Engine) -> JobSteps:
        """Return the comparison vector in the end."""
        return profile.answer_steps(
            engine, self.contexts, model=self.model, round=self.round, test=self.test
        )


@dataclass(kw_only=True)
class TestWork(Work):
    """An update test of its own."""

    __test__ = False  # not pytest's
    growth: EncryptedVector
    plays: int
    round: int

    def steps(self, profile: Profile, *, engine: Engine) -> JobSteps:
        """Return the bit in the end."""
        return profile.test_steps(
            engine, growth=self.growth, model=self.model, plays=self.plays, round=self.round
        )


@dataclass(kw_only=True)
class UpdateWork(Work):
    """An update from the statistics of its start."""

    design: EncryptedVector
    response: EncryptedVector
    terms: BatchTerms
    reach: float

    def steps(self, profile: Profile, *, engine: Engine) -> JobSteps:
        """Return the new model in the end, or None if it is refused."""
        return profile.update_steps(
            engine,
            design=self.design,
            response=self.response,
            model=self.model,
            terms=self.terms,
            reach=self.reach,
        )
