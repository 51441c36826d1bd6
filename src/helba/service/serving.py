"""How a turn of a tenant is served: which calls each kind of job makes, and what is stored first.

In each turn rewards are folded before rounds are scored, so that who reports and asks again is
answered with what was learned. Nothing that an evaluator returns is given to anybody before the
store has it.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import partial
from pickle import PickleBuffer
from typing import Any

from helba.errors import HelbaError, Refused, RunFailed, Unavailable
from helba.reference.protocol.serving.rewards import NOT_YOURS, UNKNOWN_ROUND
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Report
from helba.service.evaluator import Outcome, Reply
from helba.service.failure import NotFound, TooMany
from helba.service.job import Job, chunks_of, user_of
from helba.service.journal import Journal
from helba.service.lease import HelpLease
from helba.service.meter import Meter
from helba.service.protocol.child import ChildEnded, ChildProcess
from helba.service.reader import Checked
from helba.service.settings import Limits
from helba.service.store import AnsweredRound, RoundRecord, Store
from helba.service.view import View

FOLDED_BYTES = 1 << 27
MOST_HELD = 256
MOST_BEGUN = 1 << 16
HORIZON_OVER = "the horizon that was planned for is over: nothing more is learned"
TOO_MANY_HELD = "too many rewards wait for an update, which needs a helper: try again"
EACH = ("control", "test", "help", "drop")


@dataclass(frozen=True, kw_only=True)
class _Begun:
    """A round that waits for its answer: whose, since when, and whether it had one before."""

    user: bytes
    batch: int
    since: float
    again: bool


class Diverged(RunFailed):
    """What the evaluator has in memory is not what the store says: it must be started again."""


class Serving:
    """Serves jobs with a `evaluator`, which may be replaced."""

    def __init__(self, name: str, *, store: Store, view: View, limits: Limits) -> None:
        self.name = name
        self.view = view
        self.store = store
        self.meter = Meter()
        self.help = HelpLease()
        self.evaluator: ChildProcess | None = None
        self._journal = Journal(store, tenant=name)
        self._limits = limits
        self._most_folded = max(1, FOLDED_BYTES // Codec(view.deployment).longest(Report))
        self._begun: OrderedDict[bytes, _Begun] = OrderedDict()
        self._unseen: Outcome | None = None

    def begin(self, evaluator: ChildProcess, *, stored: int) -> None:
        """Go on with an evaluator that was started from the store's checkpoint of this number."""
        self._journal.restart(stored=stored)
        self._begun.clear()
        self._unseen = None
        self.evaluator = evaluator
        self._keep(self._call("begin"))
        self.view.open_rounds = self.store.counts(self.name).open

    def serve(self, jobs: Sequence[Job]) -> None:
        """Serve what waits; `Unavailable` without the store, `ChildEnded` without an evaluator."""
        of = {
            kind: [job for job in jobs if job.kind == kind]
            for kind in (*EACH, "reward", "ask", "tasks")
        }
        for kind in EACH:
            for job in of[kind]:
                self._guard([job], partial(getattr(self, f"_serve_{kind}"), job))
        for some in chunks_of(of["reward"], self._most_folded):
            self._guard(some, partial(self._serve_rewards, some))
        for job in of["ask"]:
            self._guard([job], partial(self._serve_ask, job))
        for job in of["tasks"]:
            self._guard([job], partial(self._serve_tasks, job))

    def require_evaluator(self) -> ChildProcess:
        """Return the evaluator, or raise `ChildEnded`."""
        if self.evaluator is None or not self.evaluator.process.is_alive():
            raise ChildEnded("the tenant's process has ended")
        return self.evaluator

    def store_left_over(self) -> None:
        """Store what a commit that failed has left, or raise `Unavailable`."""
        self._commit()
        self._show()

    def _guard(self, jobs: Sequence[Job], action: Callable[[], None]) -> None:
        """Serve jobs; an error is theirs. Without the evaluator, or the store, the turn ends."""
        try:
            action()
        except (ChildEnded, Diverged):  # no fault of theirs: the turn tells them to try again
            raise
        except HelbaError as error:
            for job in jobs:
                if not job.future.done():
                    job.fail(error)
            if isinstance(error, Unavailable):
                raise

    def _serve_control(self, job: Job) -> None:
        name, *arguments = job.arguments
        outcome = self._call(name, *arguments)
        self._keep(outcome if isinstance(outcome, Outcome) else self._call("begin"))
        job.finish()

    def _serve_test(self, job: Job) -> None:
        checked: Checked = job.arguments[0]
        outcome = self._compute("receive", checked.data)
        self._keep(outcome)
        self._finish_with(job, outcome.replies)

    def _serve_help(self, job: Job) -> None:
        checked: Checked = job.arguments[0]
        outcome, batch = self._compute("help", PickleBuffer(checked.data)), self.view.batch
        self._keep(outcome, answered=self._answered(outcome.replies))
        if any(reply.kind == "update" for reply in outcome.replies):
            self.help.extend(checked.user, now=time.monotonic())
        elif outcome.batch != batch:  # the update has ended: anybody may help with the next
            self.help.end()
        self._finish_with(job, outcome.replies)

    def _serve_drop(self, job: Job) -> None:
        user, round = job.arguments
        record = self.store.find_round(self.name, round)
        if record is None or record.user != user:
            raise NotFound("no round of this name is yours")
        if record.open:
            self._call("forget", [round])
            self._keep(self._call("begin"), dropped=[round])
            self.view.open_rounds -= 1
        job.finish()

    def _serve_rewards(self, jobs: Sequence[Job]) -> None:
        """Fold those that are new, store that once, and acknowledge."""
        fresh: dict[bytes, list[Job]] = {}
        known: set[bytes] = set()
        for job in jobs:
            checked: Checked = job.arguments[0]
            user = checked.user
            record = self.store.find_round(self.name, checked.subject)
            refused = _reason_against(record, user=user)
            if record is not None:
                known.add(checked.subject)
            if record is not None and record.reported_at is not None and refused is None:
                job.finish([self.view.receipt(checked.subject, counted=False)])
            elif refused is not None:
                job.fail(Refused(refused))
            elif (first := fresh.setdefault(checked.subject, [])) and user_of(first[0]) != user:
                job.fail(Refused(NOT_YOURS))
            else:
                first.append(job)
        fresh = self._let_in(fresh)
        if not fresh:
            return
        reports = {round: PickleBuffer(same[0].arguments[0].data) for round, same in fresh.items()}
        try:
            outcome = self._compute("fold", reports)
        except (ChildEnded, Diverged):
            raise
        except HelbaError as error:  # some may be in the sums, and nobody knows which
            raise Diverged(str(error)) from error
        strange = {each.subject for each in outcome.replies if each.reason == UNKNOWN_ROUND}
        if strange & known:
            raise Diverged("another server has answered rounds of this tenant")
        receipts = [reply.subject for reply in outcome.replies if reply.kind == "receipt"]
        self._keep(outcome, reported=receipts)
        self.meter.rewards += len(receipts)
        self.view.open_rounds -= len(receipts)
        said = {reply.subject: reply for reply in outcome.replies}
        for round, same in fresh.items():
            for job in same:
                self._finish_with(job, [said[round]] if round in said else [])

    def _let_in(self, fresh: dict[bytes, list[Job]]) -> dict[bytes, list[Job]]:
        """Turn rewards away while too many wait for an update, each with its ciphertexts.

        One is let in where nobody helps: the reply to it asks for help, and without help none of
        the others would ever be let in.
        """
        status = self.view.status
        if status is None or status.held < MOST_HELD:
            return fresh
        over = status.samples > self.view.deployment.settings.horizon
        alone = self.help.is_free(now=time.monotonic()) and status.held < 2 * MOST_HELD
        first = {round: fresh[round] for round in list(fresh)[: int(alone and not over)]}
        why = HORIZON_OVER if over else TOO_MANY_HELD
        for same in (same for round, same in fresh.items() if round not in first):
            for job in same:  # the turn goes on: others help, and ask
                job.fail(Refused(why) if over else Unavailable(why))
        return first

    def _serve_ask(self, job: Job) -> None:
        """Score it, store the round, and answer."""
        checked: Checked = job.arguments[0]
        again = self._require_askable(checked)
        begun = self._begin_round(checked.subject, job, again=again)
        said: list[Reply] = []
        try:
            outcome = self._compute(
                "ask", checked.subject, checked.user, PickleBuffer(checked.data)
            )
            said = [reply for reply in outcome.replies if reply.subject == checked.subject]
        finally:  # what was refused does not wait
            if begun and all(reply.kind == "refusal" for reply in said):
                self._begun.pop(checked.subject, None)
        self._keep(outcome, answered=self._answered(outcome.replies))
        self._finish_with(job, said)

    def _require_askable(self, checked: Checked) -> bool:
        """Refuse a round of somebody else, one that is over, and one too many.

        Return whether it was answered before.
        """
        record = self.store.find_round(self.name, checked.subject)
        if record is not None:
            refused = _reason_against(record, user=checked.user)
            if refused is not None:
                raise Refused(refused)
            if record.reported_at is not None:
                raise Refused("this round has its reward: ask for another")
            return True
        most = self._limits.most_open_rounds
        if len(self.store.open_rounds(self.name, checked.user)) >= most:
            text = f"{most} rounds wait for their rewards: report or give up some first"
            raise TooMany(None, text)
        return False

    def _serve_tasks(self, job: Job) -> None:
        (user,) = job.arguments
        outcome = self._compute("round_tasks", user)
        replies = list(outcome.replies)
        self._keep(outcome)
        if outcome.wants_help and self.help.take(user, now=time.monotonic()):
            outcome = self._compute("update_tasks", user)
            self._keep(outcome)
            replies += outcome.replies
        self._finish_with(job, replies)

    # -- parts

    def _begin_round(self, round: bytes, job: Job, *, again: bool) -> bool:
        """Note whose round it is, and since when it waits; return whether that is new.

        Of too many the oldest is forgotten.
        """
        if round in self._begun:
            return False
        checked: Checked = job.arguments[0]
        self._begun[round] = _Begun(
            user=checked.user, batch=checked.batch or 0, since=job.since, again=again
        )
        while len(self._begun) > MOST_BEGUN:
            self._begun.popitem(last=False)
        return True

    def _answered(self, replies: Sequence[Reply]) -> list[AnsweredRound]:
        """The rounds among these replies that are answered."""
        now, at = time.monotonic(), datetime.now(timezone.utc)
        found = []
        for reply in replies:
            if reply.kind != "answer":
                continue
            if reply.subject not in self._begun:  # without its round it must not leave
                raise RunFailed("an answer to a round that nobody waits for")
            begun = self._begun.pop(reply.subject)
            if begun.again:  # it is stored, and counted
                continue
            seconds = now - begun.since
            self.meter.add_rounds(1, seconds=seconds)
            found.append(
                AnsweredRound(
                    round=reply.subject,
                    user=begun.user,
                    batch=begun.batch,
                    seconds=seconds,
                    at=at,
                )
            )
        self.view.open_rounds += len(found)
        return found

    def _finish_with(self, job: Job, replies: Sequence[Reply]) -> None:
        """Give a caller its messages, or the reason of a refusal."""
        refusal = next((reply for reply in replies if reply.kind == "refusal"), None)
        if refusal is not None:
            job.fail(Refused(refusal.reason or "refused"))
        else:
            job.finish([reply.data for reply in replies])

    def _keep(self, outcome: Outcome, **stored: Any) -> None:
        """Store what a call led to, then let others see it."""
        self._journal.add(outcome, **stored)
        self._unseen = outcome
        self._commit()
        self._show()

    def _show(self) -> None:
        """Let others see what is stored."""
        outcome, self._unseen = self._unseen, None
        if outcome is None:
            return
        if outcome.key != self.view.key:
            self.view.public_key = self._call("public_key")
        self.view.show(outcome)
        if not outcome.wants_help:
            self.help.end()

    def _commit(self) -> None:
        try:
            number = self._journal.commit()
        except Unavailable:
            raise
        except HelbaError as error:  # the store is not what this evaluator goes on from
            raise Diverged(str(error)) from error
        if number is not None:
            self._call("settle", number)

    def _call(self, name: str, *arguments: object) -> Any:
        return self.require_evaluator().call(name, *arguments)

    def _compute(self, name: str, *arguments: object) -> Outcome:
        """Call the evaluator; what it cannot finish leaves a state that nobody can vouch for."""
        try:
            outcome: Outcome = self._call(name, *arguments)
        except ChildEnded:
            raise
        except RunFailed as error:
            raise Diverged(str(error)) from error
        return outcome


def _reason_against(record: RoundRecord | None, *, user: bytes) -> str | None:
    """Why a user may not go on with a round; None if it may, or if it is not known."""
    if record is None:
        return None
    if record.user != user:
        return NOT_YOURS
    return "this round was given up" if record.dropped_at is not None else None
