"""The server: a state machine that holds ciphertexts and public keys, and never a secret key.

`handle` takes a message from a party and returns what to send; `work` starts what can be started:
waiting asks, reports to fold, a test, an update. Work that needs the opener is a conversation under
a name of its own. If the opener goes away, or a message is wrong, the conversation is abandoned
with its masks and labels, and begun again with everything fresh; nothing else waits for it. What
the opener refuses for several asks or reports together is tried again in smaller groups, and what
it refuses alone is given up.

One update at a time: IDLE(v) -> UPDATING(v) -> ADOPT(v + 1). Reports that come meanwhile count for
the next one. A test that comes back when the model has changed, or an update has begun, is dropped.
"""

from __future__ import annotations

import math
import secrets
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from helba.errors import DamagedData, EngineError, HelbaError, InvalidInput
from helba.garbling import Garbled, GarblerSession
from helba.learning.exchange import Compare, EncryptPads, Reopen, open_stack, take_replies
from helba.learning.update import (
    Learned,
    Steps,
    TestTerms,
    begin_learning,
    fold_report,
    run_fold,
    run_score,
    run_shared_scores,
    run_test,
    run_update,
)
from helba.learning.update_plan import UpdateTerms
from helba.protocol.deployment import SharesDeployment
from helba.protocol.message import (
    ID_BYTES,
    Abort,
    Acceptance,
    Answer,
    Ask,
    Colours,
    CompareTask,
    Message,
    Offer,
    Pads,
    PadTask,
    Receipt,
    Refusal,
    Reopened,
    ReopenTask,
    Report,
    Shared,
    Tables,
    Transfer,
    Verdict,
    Work,
)
from helba.ring import Ciphertext, Mask, Recipient, Ring
from helba.ring.sharing.integer import Integers
from helba.server.snapshot import Growth, Row, ServerState, dump_state, load_state

__all__ = ["AUTHORITY", "Envelope", "Server", "Status"]

AUTHORITY = b"authority".ljust(ID_BYTES, b"\0")
MOST_WAITING = 1 << 16
MOST_ASKING = 64  # conversations about asks with one opener at a time; it keeps 256 tasks
MOST_ATTEMPTS = 2  # of an update that the check rejects, before a cold start

_Item = TypeVar("_Item")


@dataclass(frozen=True, kw_only=True)
class Envelope:
    """A message on its way to a party."""

    to: bytes
    message: Message


@dataclass(frozen=True, kw_only=True)
class Status:
    """How far the server is; all of it is public."""

    updates: int
    samples: int
    waiting_asks: int
    waiting_reports: int
    updating: bool
    tests: int
    rejected: int
    abandoned: int
    dropped_reports: int
    failure: float
    last_trouble: str


@dataclass(kw_only=True, eq=False)
class _Conversation:
    """Work in progress with one opener; `expects` is the type of the message that comes next."""

    name: bytes
    work: Work
    opener: bytes
    steps: Steps
    subject: Any
    expects: type | None = None
    step: str = ""
    exchanges: tuple[Any, ...] = field(default=(), repr=False)
    masks: list[Mask] = field(default_factory=list, repr=False)
    shares: tuple[Any, ...] = field(default=(), repr=False)
    garbled: Garbled | None = field(default=None, repr=False)


class Server:
    """Serves one deployment with public keys only.

    `recipients` are the users' own keys, in the setting `users`. `saved` is what `save` returned:
    then it goes on from there.
    """

    def __init__(
        self,
        deployment: SharesDeployment,
        *,
        ring: Ring,
        recipients: Mapping[bytes, Recipient] | None = None,
        saved: bytes | None = None,
    ) -> None:
        self.deployment = deployment
        self.ring = ring
        self._recipients = dict(recipients or {})
        if saved is None:
            self._state = ServerState(learned=begin_learning(ring, deployment.plan))
        else:
            self._state = load_state(saved, deployment=deployment, public_key=ring.public_key)
        self._asks: deque[tuple[bytes, Ask]] = deque()
        self._apart: deque[list[tuple[bytes, Ask]]] = deque()  # asks of groups that were refused
        self._rows: deque[Row] = deque(row for row in self._state.rows if not row.judged)
        self._judge: deque[list[Row]] = deque()  # groups that were judged, and must be again
        for judged in (1, 2):
            rows = [row for row in self._state.rows if min(row.judged, 2) == judged]
            self._judge += self._regroup(rows)
        self._sessions: dict[bytes, GarblerSession] = {}
        self._offers: dict[bytes, tuple[bytes, GarblerSession]] = {}
        self._helpers: list[bytes] = []
        self._conversations: dict[bytes, _Conversation] = {}
        self._attempts = 0
        self.last_trouble = ""

    def save(self) -> bytes:
        """Return what must last between messages; work under way is as if it had not begun."""
        state = replace(self._state, rows=[*(row for group in self._judge for row in group)])
        state.rows += self._rows
        for conversation in self._conversations.values():
            if conversation.work.subject == "fold":
                state.rows += conversation.subject
            elif conversation.work.subject == "update":
                state.growth = self._sum(conversation.subject, state.growth)
        return dump_state(state, deployment=self.deployment, public_key=self.ring.public_key)

    # -- public state

    @property
    def learned(self) -> Learned:
        """The model that is served."""
        return self._state.learned

    @property
    def adopted(self) -> UpdateTerms | None:
        """The counts of the update that made the model."""
        return self._state.adopted

    @property
    def abandoned(self) -> int:
        """Conversations that were given up so far."""
        return self._state.abandoned

    @property
    def samples(self) -> int:
        """Reports that the sums hold, those of the model included."""
        updating = self._find("update")
        taken = 0 if updating is None else updating.subject.count
        growth = self._state.growth
        grown = 0 if growth is None else growth.count
        return self.learned.batch.samples + taken + grown

    def status(self) -> Status:
        """Return how far it is."""
        return Status(
            updates=self.learned.batch.number,
            samples=self.samples,
            waiting_asks=len(self._asks) + sum(map(len, self._apart)),
            waiting_reports=len(self._rows) + sum(map(len, self._judge)),
            updating=self._find("update") is not None,
            tests=self._state.tests,
            rejected=self._state.rejected,
            abandoned=self._state.abandoned,
            dropped_reports=self._state.dropped_reports,
            failure=self._state.failure,
            last_trouble=self.last_trouble,
        )

    @property
    def idle(self) -> bool:
        """True if nothing is under way or waiting."""
        waiting = (self._asks, self._apart, self._rows, self._judge)
        return not (self._conversations or any(waiting))

    # -- who takes part

    def enrol(self, user: bytes, recipient: Recipient | None = None) -> None:
        """Serve a user from now on, in the setting `users` with the keys that lead to its own."""
        if self.deployment.plan.opener == "users":
            if recipient is None:
                raise InvalidInput("recipient", None, "the user's keys in the setting 'users'")
            self._recipients[user] = recipient
        self._state.members[user] = None

    def add_helper(self, opener: bytes) -> None:
        """Let this opener open tests and updates; in `authority` there is one for everything."""
        if opener not in self._helpers:
            self._helpers.append(opener)

    def lose(self, opener: bytes) -> None:
        """Forget an opener that went away: what it was opening is abandoned and begun again."""
        self._sessions.pop(opener, None)
        self._offers.pop(opener, None)
        if opener in self._helpers:
            self._helpers.remove(opener)
        for name in [n for n, c in self._conversations.items() if c.opener == opener]:
            self.abandon(name, reason="the opener went away")

    def _restart_session(self, opener: bytes, *, reason: str) -> None:
        """Begin everything with this opener again: it does not know the garbling session."""
        self._sessions.pop(opener, None)
        for name in [n for n, c in self._conversations.items() if c.opener == opener]:
            self.abandon(name, reason=reason)

    def abandon(self, name: bytes, *, reason: str) -> None:
        """Give a conversation up; its work begins again, with a new name and everything fresh."""
        found = self._conversations.pop(name, None)
        if found is None:
            return
        self._state.abandoned += 1
        self.last_trouble = f"{found.work.subject}: {reason}"
        self._end(found)
        self._return(found)

    # -- messages

    def handle(self, message: Message, *, sender: bytes) -> list[Envelope]:
        """Take a message in; what is late, repeated or unknown changes nothing."""
        if isinstance(message, Ask):
            return self._take_ask(message, sender=sender)
        if isinstance(message, Report):
            return self._take_report(message, sender=sender)
        if isinstance(message, Acceptance):
            return self._take_acceptance(message, sender=sender)
        if isinstance(message, Pads | Reopened | Transfer | Verdict | Colours | Abort):
            return self._take_reply(message, sender=sender)
        raise InvalidInput("message", type(message).__name__, "one for a server")

    def work(self) -> list[Envelope]:
        """Start what can be started now."""
        sent = self._start_asks()
        if self._find("fold") is None:
            sent += self._start_fold()
        sent += self._start_learning()
        return sent

    # -- asks

    def _take_ask(self, ask: Ask, *, sender: bytes) -> list[Envelope]:
        def refuse(reason: str) -> list[Envelope]:
            return [Envelope(to=sender, message=Refusal(name=ask.name, reason=reason))]

        deployment = self.deployment
        if sender not in self._state.members:
            return refuse("the user is not enrolled")
        if len(self._asks) >= MOST_WAITING:
            return refuse("too many asks wait")
        if deployment.plan.opener == "authority":
            if not isinstance(ask.features, Shared):
                return refuse("expected shares and a sealed seed, got ciphertexts")
            if len(ask.features.shares) != deployment.numbers:
                return refuse(f"expected {deployment.numbers} shares")
        else:
            if sender not in self._recipients:
                return refuse("the server has no keys of this user")
            wanted = deployment.describe_features(self.ring.public_key)
            if isinstance(ask.features, Shared) or list(ask.features) != wanted:
                return refuse("the ciphertexts are not those of an ask of this plan")
        self._asks.append((sender, ask))
        return []

    def _start_asks(self) -> list[Envelope]:
        """In `users` one conversation an ask; in `authority` as many asks as fit one product."""
        sent: list[Envelope] = []
        if self.deployment.plan.opener == "users":
            waiting, self._asks = self._asks, deque()
            while waiting:
                user, ask = waiting.popleft()
                if user not in self._sessions or not self._free(user):
                    self._asks.append((user, ask))
                    sent += [] if user in self._sessions else self._offer(user)
                    continue
                sent += self._converse([(user, ask)], opener=user)
            return sent
        opener = self._helper()
        if not (self._asks or self._apart) or opener is None:
            return sent
        if opener not in self._sessions:
            return self._offer(opener)
        while self._apart and self._free(opener):
            sent += self._converse(self._apart.popleft(), opener=opener)
        while self._asks and self._free(opener):
            lanes = min(len(self._asks), self.deployment.plan.lanes)
            sent += self._converse([self._asks.popleft() for _ in range(lanes)], opener=opener)
        return sent

    def _free(self, opener: bytes) -> bool:
        """True if the opener can take another conversation about asks."""
        busy = (c for c in self._conversations.values() if c.opener == opener)
        return sum(c.work.subject == "ask" for c in busy) < MOST_ASKING

    def _converse(self, asks: list[tuple[bytes, Ask]], *, opener: bytes) -> list[Envelope]:
        deployment, plan, model = self.deployment, self.deployment.plan, self.learned.model
        features = [ask.features for _, ask in asks]
        if isinstance(features[0], Shared):
            shared = [each for each in features if isinstance(each, Shared)]
            shares = np.stack([each.shares for each in shared])
            steps = run_shared_scores(
                self.ring,
                plan,
                asks=shares,
                boxes=tuple(each.box for each in shared),
                groups=deployment.feature_groups(len(asks)),
                checked=lambda signs: self._checked(shares, signs),
                model=model,
            )
        else:
            steps = run_score(self.ring, plan, features=features[0], model=model)
        work = Work(subject="ask", count=len(asks))
        return self._begin(work, steps=steps, opener=opener, subject=(asks, self.learned.batch))

    def _checked(self, shares: Integers, seed: bytes) -> tuple[Any, ...]:
        """The server's shares of what an ask's circuit checks: the opener's pads are the others."""
        values = self.deployment.checked_values(shares, seed=seed, sign=-1)
        return self.deployment.ask_range.split_garbler(values, seed=seed)

    def _answer(self, conversation: _Conversation, sealed: Sequence[bytes]) -> list[Envelope]:
        asks, batch = conversation.subject
        assert conversation.garbled is not None
        decodings = conversation.garbled.decoding
        if self.deployment.tells_range(conversation.work):
            decodings = decodings[:, :-1]  # the last one was the opener's
        return [
            Envelope(
                to=user,
                message=Answer(
                    name=ask.name,
                    task=conversation.name,
                    batch=batch.number,
                    decoding=decoding,
                    sealed=half,
                ),
            )
            for (user, ask), decoding, half in zip(asks, decodings, sealed, strict=True)
        ]

    # -- reports

    def _take_report(self, report: Report, *, sender: bytes) -> list[Envelope]:
        def reply(message: Message) -> list[Envelope]:
            return [Envelope(to=sender, message=message)]

        def refuse(reason: str) -> list[Envelope]:
            return reply(Refusal(name=report.name, reason=reason))

        deployment, receipt = self.deployment, Receipt(name=report.name)
        if sender not in self._state.members:
            return refuse("the user is not enrolled")
        if report.name in self._state.names:  # the first one counts
            return reply(receipt)
        if self.samples + self._unfolded >= deployment.settings.horizon:
            return refuse(f"the horizon of {deployment.settings.horizon} reports is reached")
        body = report.report
        if deployment.plan.opener == "authority":
            if not isinstance(body, Shared) or len(body.shares) != deployment.settings.dim + 1:
                return refuse(f"expected {deployment.settings.dim + 1} shares and a sealed seed")
            self._rows.append(Row(name=report.name, shares=body.shares, box=body.box))
        else:
            if isinstance(body, Shared) or body != deployment.describe_report(self.ring.public_key):
                return refuse("the ciphertext is not that of a report of this plan")
            if self._unseen + 1 > deployment.plan.most_unseen:
                return refuse("too many reports wait for an update: try again later")
            self._grow(fold_report(self.ring, deployment.plan, body), count=1)
        self._state.names[report.name] = None
        return reply(receipt)

    @property
    def _unseen(self) -> int:
        return self.samples - self.learned.batch.samples

    @property
    def _unfolded(self) -> int:
        """Reports that are stored and not summed, those of a fold under way included."""
        folding = self._find("fold")
        taken = 0 if folding is None else len(folding.subject)
        return len(self._rows) + sum(map(len, self._judge)) + taken

    def _grow(self, total: Ciphertext, *, count: int) -> None:
        self._state.growth = self._sum(Growth(total=total, count=count), self._state.growth)

    def _sum(self, one: Growth, other: Growth | None) -> Growth:
        if other is None:
            return one
        total = self.ring.add(other.total, one.total)
        return Growth(total=total, count=one.count + other.count)

    def _start_fold(self) -> list[Envelope]:
        plan, opener = self.deployment.plan, self._helper()
        room = plan.most_unseen - self._unseen
        if opener is None or not (self._rows or self._judge) or room <= 0:
            return []
        if opener not in self._sessions:
            return self._offer(opener)
        if self._judge:
            rows = self._judge.popleft()
        else:
            count = min(len(self._rows), plan.group, room)
            rows = [self._rows.popleft() for _ in range(count)]
        steps = run_fold(
            self.ring,
            plan,
            reports=np.stack([row.shares for row in rows]),
            boxes=tuple(row.box for row in rows),
        )
        work = Work(subject="fold", count=len(rows))
        return self._begin(work, steps=steps, opener=opener, subject=rows)

    def _finish_fold(self, rows: list[Row], total: Ciphertext | None) -> None:
        if total is not None:
            self._grow(total, count=len(rows))
        elif len(rows) == 1:
            self._state.dropped_reports += 1
        else:
            self._judge += _split(rows, most=self.deployment.plan.group)

    def _regroup(self, rows: list[Row]) -> list[list[Row]]:
        """Groups in which the last check that the opener allows is one of a single report."""
        judged = max((row.judged for row in rows), default=0)
        few = _root(self.deployment.plan.group)
        size = max(1, len(rows)) if not judged else few if judged == 1 else 1
        return [rows[i : i + size] for i in range(0, len(rows), size)]

    # -- tests and updates

    def _start_learning(self) -> list[Envelope]:
        opener = self._helper()
        if self._state.growth is None or self._find("update") or opener is None:
            return []
        plan, batch = self.deployment.plan, self.learned.batch
        untested = self.samples - max(self._state.cleared, batch.samples)
        due = plan.growth_due(batch, samples=self.samples) or untested >= plan.most_untested
        if due:  # reports that wait count for the next one
            if opener not in self._sessions:
                return self._offer(opener)
            return self._start_update(opener)
        if self._rows or self._judge or self._find("fold"):
            return []  # a test sees all that is there
        if self._find("test") or not untested or self._unseen > plan.most_tested:
            return []
        if opener not in self._sessions:
            return self._offer(opener)
        terms = TestTerms(batch=batch.number, unseen=self._unseen, untested=untested)
        steps = run_test(
            self.ring,
            self.deployment.test_plan(terms),
            learned=self.learned,
            growth=self._state.growth.total,
        )
        work = Work(subject="test", terms=terms)
        return self._begin(work, steps=steps, opener=opener, subject=self.samples)

    def _start_update(self, opener: bytes) -> list[Envelope]:
        growth, batch = self._state.growth, self.learned.batch
        assert growth is not None
        samples = self.samples
        terms = UpdateTerms(
            before=batch,
            samples=samples,
            untested=samples - max(self._state.cleared, batch.samples),
            cold=self._attempts > MOST_ATTEMPTS,
        )
        steps = run_update(
            self.ring,
            self.deployment.update_plan(terms),
            learned=self.learned,
            growth=growth.total,
        )
        self._state.growth = None
        return self._begin(
            Work(subject="update", terms=terms), steps=steps, opener=opener, subject=growth
        )

    def _finish_test(self, conversation: _Conversation, *, reached: bool) -> list[Envelope]:
        """A test of another model, or beside an update, says nothing any more."""
        self._state.tests += 1
        terms = conversation.work.terms
        assert isinstance(terms, TestTerms)
        if terms.batch != self.learned.batch.number or self._find("update"):
            return []
        if not reached:
            self._state.cleared = max(self._state.cleared, conversation.subject)
            return []
        return self._start_update(conversation.opener)

    def _finish_update(self, conversation: _Conversation, learned: Learned | None) -> None:
        if learned is None:
            self._state.rejected += 1
            self._attempts += 1
            self.last_trouble = (
                "update: the check rejected the model; if that goes on, S, sigma or r_max are too "
                "small for the data"
            )
            self._return(conversation)
            return
        self._attempts = 0
        terms = conversation.work.terms
        assert isinstance(terms, UpdateTerms)
        self._state.adopted = terms
        self._state.learned = learned
        self._state.cleared = learned.batch.samples

    def _return(self, conversation: _Conversation) -> None:
        """Put back what an abandoned conversation had taken."""
        subject, kind = conversation.subject, conversation.work.subject
        if kind == "ask":
            self._asks.extendleft(reversed(subject[0]))
        elif kind == "fold":
            self._judge.extendleft(reversed(self._regroup(subject)))
        elif kind == "update":
            self._grow(subject.total, count=subject.count)

    def _refuse(self, conversation: _Conversation, *, reason: str) -> list[Envelope]:
        """Try apart what the opener refused together; give up what it refused alone."""
        subject, kind = conversation.subject, conversation.work.subject
        if kind not in ("ask", "fold"):
            self.abandon(conversation.name, reason=reason)
            return []
        self.last_trouble = f"{kind}: {reason}"
        self._end(conversation)
        self._close(conversation)
        if kind == "fold":
            self._finish_fold(subject, None)
            return []
        asks = subject[0]
        if len(asks) > 1:
            self._apart += _split(asks, most=self.deployment.plan.lanes)
            return []
        ((user, ask),) = asks
        refusal = Refusal(name=ask.name, reason="the opener cannot read the ask")
        return [Envelope(to=user, message=refusal)]

    # -- conversations

    def _begin(self, work: Work, *, steps: Steps, opener: bytes, subject: Any) -> list[Envelope]:
        conversation = _Conversation(
            name=secrets.token_bytes(ID_BYTES),
            work=work,
            opener=opener,
            steps=steps,
            subject=subject,
        )
        self._conversations[conversation.name] = conversation
        try:
            return self._advance(conversation, None)
        except (HelbaError, ValueError) as error:
            self.abandon(conversation.name, reason=f"{type(error).__name__}: {error}")
            return []

    def _take_reply(
        self, message: Pads | Reopened | Transfer | Verdict | Colours | Abort, *, sender: bytes
    ) -> list[Envelope]:
        found = self._conversations.get(message.task)
        if found is None or found.opener != sender:
            return []  # late, repeated, or not theirs
        if isinstance(message, Abort):
            if message.unknown:
                self._restart_session(sender, reason=message.reason)
                return []
            if message.refused:
                return self._refuse(found, reason=message.reason)
            self.abandon(found.name, reason=message.reason)
            return []
        if not isinstance(message, found.expects or Abort):
            return []
        if isinstance(message, Reopened) and message.step != found.step:
            return []
        try:
            return self._continue(found, message)
        except (HelbaError, ValueError) as error:
            self.abandon(found.name, reason=f"{type(error).__name__}: {error}")
            return []

    def _continue(self, found: _Conversation, message: Message) -> list[Envelope]:
        if isinstance(message, Pads):
            return self._advance(found, (message.pads, message.signs))
        if isinstance(message, Reopened):
            return self._advance(found, self._take_stacks(found, message.replies))
        if isinstance(message, Transfer):
            return self._garble(found, message)
        if isinstance(message, Verdict):
            bits = self._sessions[found.opener].finish(message.returned)
            return self._advance(found, bool(bits[0, 0]))
        assert isinstance(message, Colours)
        if len(message.sealed) != found.work.count:
            raise DamagedData("expected one sealed half for each ask")
        self._close(found)
        return self._answer(found, message.sealed)

    def _take_stacks(self, found: _Conversation, replies: Sequence[Ciphertext]) -> list[Any]:
        stacks, left = [], list(replies)
        masks, found.masks = found.masks, []
        for mask, exchange in zip(masks, found.exchanges, strict=True):
            count = sum(len(target.rearrangements) for target in exchange.targets)
            stacks += take_replies(self.ring, mask, left[:count], exchange)
            left = left[count:]
        self._state.failure += math.fsum(stack.failure for stack in stacks)
        if left:
            raise DamagedData("expected the replies of this step, got more")
        return stacks

    def _garble(self, found: _Conversation, message: Transfer) -> list[Envelope]:
        comparison = self.deployment.comparison(found.work)
        masks, found.masks = found.masks, []
        shares: list[Any] = [mask.take_modulo(bits=comparison.bits) for mask in masks]
        if found.work.subject == "ask":
            shares = [self.deployment.gather_scores(shares, lanes=found.work.count)]
        else:
            shares = [each.reshape(1, 1) for each in shares]
        shares += found.shares
        session = self._sessions[found.opener]
        found.garbled = session.garble(comparison.circuit, shares=shares, transfer=message.transfer)
        message_out = Tables(task=found.name, work=found.work, tables=found.garbled.tables)
        if self.deployment.tells_range(found.work):
            message_out = replace(message_out, told=found.garbled.decoding[:, -1])
        if found.work.subject == "fold":
            found.subject = [replace(row, judged=row.judged + 1) for row in found.subject]
        tables = Envelope(to=found.opener, message=message_out)
        if comparison.circuit.returned_outputs.size:
            found.expects = Verdict
            return [tables]
        if self.deployment.plan.opener == "authority":
            found.expects = Colours
            return [tables]
        self._close(found)
        return [tables, *self._answer(found, [b""])]

    def _advance(self, found: _Conversation, value: Any) -> list[Envelope]:
        """Let the work go on until it needs the opener again, or ends."""
        try:
            needed = found.steps.send(value)
        except StopIteration as end:
            self._close(found)
            return self._finish(found, end.value)
        recipient = self._recipients.get(found.opener)
        if isinstance(needed, EncryptPads):
            found.expects = Pads
            message: Message = PadTask(task=found.name, work=found.work, boxes=needed.boxes)
        elif isinstance(needed, Reopen):
            found.expects, found.step = Reopened, needed.step
            found.exchanges = self.deployment.exchanges(found.work, needed.step)
            stacks = zip(needed.stacks, found.exchanges, strict=True)
            opened = self.ring.run_all(
                [partial(open_stack, self.ring, *each, to=recipient) for each in stacks]
            )
            found.masks += [mask for _, mask in opened]
            message = ReopenTask(
                task=found.name,
                work=found.work,
                step=needed.step,
                openings=tuple(opening for openings, _ in opened for opening in openings),
            )
        else:
            assert isinstance(needed, Compare)
            found.expects = Transfer
            found.shares = needed.shares
            places = self.deployment.comparison(found.work).places
            pairs = self.ring.run_all(
                [
                    partial(self.ring.open, each, places=where, to=recipient)
                    for each, where in zip(needed.values, places, strict=True)
                ]
            )
            for _, mask in pairs:
                if found.work.subject == "ask":
                    self._require_grid(mask)
                found.masks.append(mask)
            message = CompareTask(
                task=found.name, work=found.work, openings=tuple(opening for opening, _ in pairs)
            )
        return [Envelope(to=found.opener, message=message)]

    def _require_grid(self, mask: Mask) -> None:
        """Raise unless CKKS's error of these scores stays in the bits that are rounded away."""
        grid = self.deployment.plan.grid
        if not mask.error(bits=grid.bits) < 2.0 ** (grid.low_bits - 1):
            raise EngineError(
                "the error of a score exceeds the grid's: this is an error of the plan"
            )

    def _finish(self, found: _Conversation, result: Any) -> list[Envelope]:
        if found.work.subject == "fold":
            self._finish_fold(found.subject, result)
        elif found.work.subject == "test":
            return self._finish_test(found, reached=result)
        elif found.work.subject == "update":
            self._finish_update(found, result)
        return []

    def _close(self, found: _Conversation) -> None:
        self._conversations.pop(found.name, None)

    def _end(self, found: _Conversation) -> None:
        """Forget the masks and labels of a conversation that does not come to its end."""
        found.steps.close()
        found.masks, found.shares = [], ()
        session = self._sessions.get(found.opener)
        if found.garbled is not None and session is not None:
            session.abandon(found.garbled.tables.name)
        found.garbled = None

    def _find(self, subject: str) -> _Conversation | None:
        found = (c for c in self._conversations.values() if c.work.subject == subject)
        return next(found, None)

    # -- sessions

    def _helper(self) -> bytes | None:
        """An opener for what is nobody's own round: one with a session if there is one."""
        if not self._helpers:
            return None
        ready = (each for each in self._helpers if each in self._sessions)
        return next(ready, self._helpers[0])

    def _offer(self, opener: bytes) -> list[Envelope]:
        """Begin a garbling session, once."""
        if opener in self._offers:
            return []
        session = self.deployment.make_garbler()
        offer = session.offer()
        self._offers[opener] = (offer.session, session)
        return [Envelope(to=opener, message=Offer(offer=offer))]

    def _take_acceptance(self, message: Acceptance, *, sender: bytes) -> list[Envelope]:
        name, session = self._offers.get(sender, (b"", None))
        if session is None or message.answer.session != name:
            return []  # late, repeated, or not theirs
        del self._offers[sender]
        try:
            session.complete(message.answer)
        except HelbaError as error:  # a new offer follows
            self.last_trouble = f"session: {error}"
            return []
        self._sessions[sender] = session
        return []


def _root(count: int) -> int:
    """The square root, rounded up."""
    return math.isqrt(max(0, count - 1)) + 1


def _split(items: list[_Item], *, most: int) -> list[list[_Item]]:
    """Smaller groups: of sqrt(most) items, or of one if there are not more than that.

    So whatever is wrong with one of `most` items is found in three groups that it is in.
    """
    size = _root(most) if len(items) > _root(most) else 1
    return [items[i : i + size] for i in range(0, len(items), size)]
