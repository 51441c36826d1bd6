"""The opener: it has a secret key, opens what is masked, and evaluates garbled circuits.

In the setting `authority` that is one party, apart from server and users. In `users` every user is
one: of its own rounds under its own key, and of tests and updates when the server asks it to. It
sees values that are uniform, and returns what the plan says for a task, or nothing. It keeps a task
from its first message to its last, and the seeds of a server's garbling session.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import nacl.public
import numpy as np

from helba.errors import DamagedData, HelbaError, InvalidInput, NoRoom, Refused, SessionSpent
from helba.garbling import Circuit, EvaluatorSession, ReturnedMessage, TransferMessage
from helba.garbling.circuits.circuit import Bits
from helba.opener.reopening import reopen_shares
from helba.opener.state import Noted, OpenerState, VerdictsBegun
from helba.protocol.box import SealedSeed, open_box, seal_answer
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import SERVER, Effects, Transition
from helba.protocol.message import (
    SIGN_SEED_BYTES,
    Abort,
    Acceptance,
    Colours,
    CompareTask,
    Message,
    Offer,
    Pads,
    PadTask,
    Reopened,
    ReopenTask,
    Tables,
    Transfer,
    Verdict,
    Work,
)
from helba.randomness import Draw, draw_bytes
from helba.ring import PRIMES, Ciphertext
from helba.ring.secret import Opener
from helba.ring.sharing.integer import Integers

MOST_TASKS = 256
MOST_OFFERS = 1024  # of sessions, remembered so that a late one does not come back
# On one sealed report, ever, and on one ask beside others: whether numbers are in range shows then,
# and more would let a server that shifts its share bisect them.
MOST_VERDICTS = 3


@dataclass(kw_only=True)
class _Task:
    """A task that waits for its next message; `opening` names its garbled circuit."""

    work: Work
    seeds: tuple[SealedSeed, ...] = field(default=(), repr=False)
    pads: Integers | None = field(default=None, repr=False)
    signs: bytes = field(default=b"", repr=False)
    boxes: tuple[bytes, ...] = field(default=(), repr=False)
    opening: bytes = b""


class OpenerParty:
    """One opener of one deployment; `handle` answers a message of a server, once.

    `colours` has the half answers of its own rounds, by task, where the opener is the user. With a
    `state` it goes on from there, and the state is the opener's from then on.
    """

    def __init__(
        self,
        deployment: SharesDeployment,
        *,
        opener: Opener,
        sealing_key: nacl.public.PrivateKey | None = None,
        state: OpenerState | None = None,
        draw: Draw = draw_bytes,
    ) -> None:
        self.deployment = deployment
        self.state = OpenerState() if state is None else state
        self._transition = Transition(self.state)
        self._draw = draw
        self._opener = opener
        self._sealing_key = sealing_key
        self._session: EvaluatorSession | None = None
        self._accepted: OrderedDict[bytes, Acceptance | None] = OrderedDict()  # the last one, whole
        self._tasks: OrderedDict[bytes, _Task] = OrderedDict()
        self._answered: OrderedDict[bytes, Message | None] = OrderedDict()  # the ends of tasks
        self.colours: dict[bytes, Bits] = {}

    def __repr__(self) -> str:
        return f"OpenerParty({len(self._tasks)} tasks, {self.state.bits_returned} bits returned)"

    def handle(self, message: Message, *, sender: bytes) -> Effects:
        """Answer the server's message. What cannot be done is an `Abort`, and returns nothing."""
        if sender != SERVER:
            return Effects()
        if isinstance(message, Offer):
            reply: Message | None = self._accept(message)
        elif isinstance(message, Tables) and message.task in self._answered:
            reply = self._answered[message.task]  # it was lost: the same again tells nothing new
        elif isinstance(message, PadTask | ReopenTask | CompareTask | Tables):
            ends = isinstance(message, Tables) and message.task in self._tasks
            try:
                reply = self._work(message)
            except HelbaError as error:
                self._drop(message.task)
                self._transition.commit(Noted(aborts=1))
                reply = Abort(
                    task=message.task,
                    reason=f"{type(error).__name__}: {error}",
                    refused=isinstance(error, Refused),
                    unknown=isinstance(error, _UnknownSession),
                )
            if ends:
                self._answered[message.task] = reply
                while len(self._answered) > MOST_TASKS:
                    self._answered.popitem(last=False)
        else:
            raise InvalidInput("message", type(message).__name__, "one for an opener")
        if reply is not None:
            self._transition.send(reply, to=sender)
        return self._transition.take()

    def _accept(self, message: Offer) -> Acceptance | None:
        """Begin a new session in place of the old one; a damaged or late offer changes nothing.

        The last offer again gets the same answer again.
        """
        name = message.offer.session
        if name in self._accepted:
            return self._accepted[name]
        session = self.deployment.make_evaluator(self._draw)
        try:
            answer = session.answer(message.offer)
        except HelbaError:
            self._transition.commit(Noted(aborts=1))
            return None
        self._session = session
        self._tasks.clear()
        self._answered.clear()
        for earlier in self._accepted:
            self._accepted[earlier] = None
        self._accepted[name] = Acceptance(answer=answer)
        while len(self._accepted) > MOST_OFFERS:
            self._accepted.popitem(last=False)
        return self._accepted[name]

    def _work(self, message: PadTask | ReopenTask | CompareTask | Tables) -> Message | None:
        if isinstance(message, PadTask):
            return self._encrypt_pads(message)
        if isinstance(message, ReopenTask):
            return self._reopen(message)
        if isinstance(message, CompareTask):
            return self._compare(message)
        return self._evaluate(message)

    # -- pads

    def _encrypt_pads(self, message: PadTask) -> Pads | None:
        deployment, work = self.deployment, message.work
        if message.task in self._tasks:
            return None  # repeated
        kind = {"ask": "ask", "fold": "report"}.get(work.subject)
        if self._sealing_key is None or kind is None:
            raise Refused("this opener takes no sealed seeds for such a task")
        if len(message.boxes) != work.count:
            raise DamagedData(f"expected {work.count} boxes, got {len(message.boxes)}")
        if _shows_range(work):
            self._require_verdicts(message.boxes)
        try:
            seeds = tuple(
                open_box(box, key=self._sealing_key, kind=kind, deployment=deployment.origin)
                for box in message.boxes
            )
        except DamagedData as error:
            raise Refused(str(error)) from None
        numbers = deployment.numbers if kind == "ask" else deployment.settings.dim + 1
        pads = np.concatenate([seed.expand(numbers) for seed in seeds])
        task = _Task(work=work, seeds=seeds, pads=pads, boxes=message.boxes)
        plan = deployment.plan
        if kind == "ask":
            task.signs = self._draw(SIGN_SEED_BYTES)
            groups = [(pads[at], where) for where, at in deployment.feature_groups(work.count)]
            multiple, primes = plan.grid.feature_multiple, 2
            scale = float(multiple)
        else:
            groups = [(pads, places) for places in plan.report_places(work.count)]
            multiple, scale, primes = plan.report_multiple, 1.0, PRIMES
        found = self._opener.encrypt_pads(groups, multiple=multiple, scale=scale, primes=primes)
        self._keep(message.task, task)
        return Pads(task=message.task, pads=tuple(found), signs=task.signs)

    def _require_verdicts(self, boxes: Sequence[bytes]) -> list[bytes]:
        """Return the names of boxes, or refuse: one was judged often enough, or comes twice."""
        names = [hashlib.blake2b(box, digest_size=16).digest() for box in boxes]
        if len(set(names)) != len(names):
            raise Refused("expected every box once, got one twice")
        if any(self.state.verdicts.get(name, 0) >= MOST_VERDICTS for name in names):
            raise Refused(f"a box was judged {MOST_VERDICTS} times already")
        return names

    # -- reopenings

    def _reopen(self, message: ReopenTask) -> Reopened:
        exchanges = self.deployment.exchanges(message.work, message.step)
        openings, replies = list(message.openings), list[Ciphertext]()
        for exchange in exchanges:
            count = len(exchange.places)
            replies += reopen_shares(self._opener, openings[:count], exchange)
            openings = openings[count:]
        if openings:
            raise DamagedData("expected the openings of this step, got more")
        return Reopened(task=message.task, step=message.step, replies=tuple(replies))

    # -- comparisons

    def _compare(self, message: CompareTask) -> Transfer | None:
        deployment, work = self.deployment, message.work
        comparison = deployment.comparison(work)
        task = self._tasks.get(message.task)
        if task is None:
            task = _Task(work=work)
            self._keep(message.task, task)
        if task.work != work:
            raise DamagedData("expected the work that the task began with, got another")
        if task.opening:
            return None  # repeated
        if len(message.openings) != len(comparison.places):
            raise DamagedData(f"expected {len(comparison.places)} openings for this work")
        received = self._opener.run_all(
            [
                partial(self._opener.receive, opening, places=places)
                for opening, places in zip(message.openings, comparison.places, strict=True)
            ]
        )
        opened: list[Any] = []
        for share, deviation in zip(received, comparison.deviations, strict=True):
            noisy = self._opener.add_noise(share, deviation=deviation) if deviation else share
            opened.append(noisy.modulo(bits=comparison.bits))
        shares = self._shares(task, opened)
        transfer = self._begin(comparison.circuit, shares)
        task.opening = transfer.name
        return Transfer(task=message.task, work=work, transfer=transfer)

    def _begin(self, circuit: Circuit, shares: list[Any]) -> TransferMessage:
        """Begin an opening; where labels leave no room for it, the oldest tasks that wait go.

        The server has given those up, or begins them again.
        """
        try:
            return self._require_session().begin(circuit, shares=shares)
        except SessionSpent as error:
            raise _UnknownSession(str(error)) from None
        except NoRoom:
            oldest = next((name for name, each in self._tasks.items() if each.opening), None)
            if oldest is None:
                raise
            self._drop(oldest)
            return self._begin(circuit, shares)

    def _shares(self, task: _Task, opened: list[Any]) -> list[Any]:
        """This party's shares, for each group of the circuit."""
        deployment, work = self.deployment, task.work
        shares = deployment.group_opened(work, opened)
        if work.subject != "fold" and not deployment.told_bits(work):
            return shares
        if task.pads is None:
            raise DamagedData("expected the pads of these asks or reports first")
        if work.subject == "fold":
            return [task.pads.reshape(1, -1)]
        pads = task.pads.reshape(work.count, -1)
        values = deployment.checked_values(pads, seed=task.signs, sign=1)
        return [*shares, *deployment.ask_range.split_evaluator(values, seed=task.signs)]

    def _evaluate(self, message: Tables) -> Message | None:
        task = self._tasks.get(message.task)
        if task is None or not task.opening or message.tables.name != task.opening:
            raise DamagedData("the tables are for no open circuit of the task")
        deployment, work = self.deployment, task.work
        if (bits := len(message.told)) != deployment.told_bits(work):
            raise DamagedData(f"expected {deployment.told_bits(work)} bits, got {bits}")
        if _shows_range(work):
            self._transition.commit(VerdictsBegun(names=self._require_verdicts(task.boxes)))
        self._drop(message.task, abandon=False)
        try:
            evaluated = self._require_session().evaluate(message.tables)
        except Refused as error:  # the labels do not match: the tables are wrong, not the numbers
            raise DamagedData(str(error)) from None
        if evaluated.returned is not None:
            returned: ReturnedMessage = evaluated.returned
            count = returned.labels.shape[0] * returned.labels.shape[1]
            self._transition.commit(Noted(bits_returned=count))
            return Verdict(task=message.task, work=task.work, returned=returned)
        if not task.seeds:
            self.colours[message.task] = evaluated.colours[0]
            while len(self.colours) > MOST_TASKS:  # of answers that never came
                del self.colours[next(iter(self.colours))]
            return None
        # The numbers of one ask reach the scores of all others in its product through the model's
        # noise. So several are answered only if all of them are in range; one alone gets arm 0.
        in_range = evaluated.colours[:, -1] ^ message.told
        if work.count > 1 and not in_range.all():
            raise Refused("an ask of this product is out of range")
        halves = tuple(
            seal_answer(
                colours,
                seed=seed,
                task=message.task,
                circuit=message.tables.circuit,
                draw=self._draw,
            )
            for colours, seed in zip(evaluated.colours[:, :-1], task.seeds, strict=True)
        )
        return Colours(task=message.task, halves=halves)

    # -- bookkeeping

    def _require_session(self) -> EvaluatorSession:
        if self._session is None:
            raise _UnknownSession("expected an offer first: there is no garbling session")
        return self._session

    def _keep(self, name: bytes, task: _Task) -> None:
        self._tasks[name] = task
        while len(self._tasks) > MOST_TASKS:
            self._drop(next(iter(self._tasks)))

    def _drop(self, name: bytes, *, abandon: bool = True) -> None:
        task = self._tasks.pop(name, None)
        if abandon and task is not None and task.opening and self._session is not None:
            self._session.abandon(task.opening)


class _UnknownSession(DamagedData):
    """There is no garbling session, as after a restart, or it is used up."""


def _shows_range(work: Work) -> bool:
    """True if the server sees whether shared numbers are in range; of an ask alone it does not."""
    return work.subject == "fold" or (work.subject == "ask" and work.count > 1)
