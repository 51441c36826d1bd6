"""Conversations with openers: work that the server cannot do alone, from beginning to end.

A conversation has a name of its own, masks and labels of its own. If the opener goes away or is
silent for too long, or a message is wrong, it is given up with its masks and labels; whoever began
it begins it again, with everything fresh. There is one garbling session with each opener.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import fsum, isqrt
from typing import Any, TypeVar

from helba.errors import DamagedData, EngineError, HelbaError
from helba.garbling import Garbled, GarblerSession
from helba.learning.exchange import Compare, EncryptPads, Reopen, Steps, open_stack, take_replies
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import Transition
from helba.protocol.message import (
    ID_BYTES,
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
    Reply,
    Tables,
    Transfer,
    Verdict,
    Work,
)
from helba.randomness import Draw
from helba.ring import Ciphertext, Mask, Recipient, Ring
from helba.server.state import Judged, Noted

_Item = TypeVar("_Item")


@dataclass(kw_only=True, eq=False)
class Conversation:
    """Work in progress with one opener; `expects` is the type of the message that comes next.

    `subject` is its beginner's: asks with the batch of their model, names of rows, the number of
    reports that are tested, or nothing. In the end it is `finished` with a `result` (of asks, for
    each, the server's half of the answer and the opener's), or given up for a `reason`; `refused`
    says that the opener will not do the same again either.
    """

    name: bytes
    work: Work
    opener: bytes
    steps: Steps
    subject: Any
    deadline: float
    expects: type | None = None
    step: str = ""
    masks: list[Mask] = field(default_factory=list, repr=False)
    shares: tuple[Any, ...] = field(default=(), repr=False)
    garbled: Garbled | None = field(default=None, repr=False)
    tables: Tables | None = field(default=None, repr=False)
    finished: bool = False
    result: Any = field(default=None, repr=False)
    reason: str = ""
    refused: bool = False


class Conversations:
    """All of a server's conversations and sessions; `ended` waits for the server to take it.

    `recipients` have the users' own keys, in the setting `users`. What an opener leaves waiting for
    `patience` seconds is given up.
    """

    def __init__(
        self,
        deployment: SharesDeployment,
        *,
        ring: Ring,
        recipients: Mapping[bytes, Recipient | None],
        transition: Transition,
        draw: Draw,
        patience: float,
    ) -> None:
        self.deployment = deployment
        self.ring = ring
        self.ended: deque[Conversation] = deque()
        self._recipients = recipients
        self.transition = transition
        self._draw = draw
        self._patience = patience
        self._open: dict[bytes, Conversation] = {}
        self._sessions: dict[bytes, GarblerSession] = {}
        # sessions that their opener has not accepted yet, with their name and deadline
        self._offers: dict[bytes, tuple[GarblerSession, bytes, float]] = {}

    def find(self, subject: str) -> Conversation | None:
        """Return the first conversation about a subject, if there is one."""
        return next((c for c in self._open.values() if c.work.subject == subject), None)

    def count(self, opener: bytes, *, subject: str) -> int:
        """Return how many conversations about a subject there are with an opener."""
        return sum(c.opener == opener and c.work.subject == subject for c in self._open.values())

    # -- sessions

    def has_session(self, opener: bytes) -> bool:
        """Return True if conversations with this opener can begin."""
        return opener in self._sessions

    def prepare(self, opener: bytes, *, now: float) -> bool:
        """Return True if conversations can begin; else a garbling session is on offer."""
        if opener not in self._sessions and opener not in self._offers:
            session = self.deployment.make_garbler(self._draw)
            offer = session.offer()
            self._offers[opener] = (session, offer.session, now + self._patience)
            self.transition.send(Offer(offer=offer), to=opener)
        return opener in self._sessions

    def accept(self, message: Acceptance, *, sender: bytes) -> str:
        """Take an acceptance in; return what is wrong with it, then a new offer follows."""
        session, name, _ = self._offers.get(sender, (None, b"", 0.0))
        if session is None or message.answer.session != name:
            return ""  # late, repeated, or not theirs
        del self._offers[sender]
        try:
            session.complete(message.answer)
        except HelbaError as error:
            return str(error)
        self._sessions[sender] = session
        return ""

    def lose(self, opener: bytes, *, reason: str) -> None:
        """Forget the session with an opener; everything with it is abandoned."""
        self._sessions.pop(opener, None)
        self._offers.pop(opener, None)
        for found in [each for each in self._open.values() if each.opener == opener]:
            self._give_up(found, reason=reason)

    # -- conversations

    def begin(self, work: Work, *, steps: Steps, opener: bytes, subject: Any, now: float) -> None:
        """Begin a conversation with an opener that has a session."""
        conversation = Conversation(
            name=self._draw(ID_BYTES),
            work=work,
            opener=opener,
            steps=steps,
            subject=subject,
            deadline=now + self._patience,
        )
        self._open[conversation.name] = conversation
        self._continue(conversation, None)

    def handle(self, message: Reply, *, sender: bytes, now: float) -> None:
        """Take an opener's reply in; what is late, repeated or not theirs changes nothing."""
        found = self._open.get(message.task)
        if found is None or found.opener != sender:
            return
        if isinstance(message, Abort):
            if message.unknown:
                self.lose(sender, reason=message.reason)
            else:
                self._give_up(found, reason=message.reason, refused=message.refused)
            return
        if not isinstance(message, found.expects or Abort):
            return
        if isinstance(message, Reopened) and message.step != found.step:
            return
        if isinstance(message, Transfer) and (
            message.transfer.session != self._sessions[sender].name
        ):  # as after an offer that came late: everything with this opener begins anew
            self.lose(sender, reason="the opener is in another garbling session")
            return
        found.deadline = now + self._patience
        self._continue(found, message)

    def expire(self, *, now: float) -> None:
        """Give up what has waited too long for an opener; tables are sent once more before that.

        A verdict is worth it: there are few on a report.
        """
        self._offers = {k: v for k, v in self._offers.items() if v[-1] > now}
        for found in [each for each in self._open.values() if each.deadline <= now]:
            if found.tables is None:
                self._give_up(found, reason="the opener was silent for too long")
            else:
                self.transition.send(found.tables, to=found.opener)
                found.tables, found.deadline = None, now + self._patience

    def _give_up(self, found: Conversation, *, reason: str, refused: bool = False) -> None:
        del self._open[found.name]
        found.steps.close()
        found.masks, found.shares = [], ()
        session = self._sessions.get(found.opener)
        if found.garbled is not None and session is not None:
            session.abandon(found.garbled.tables.name)
        found.garbled, found.reason, found.refused = None, reason, refused
        self.ended.append(found)

    def _finish(self, found: Conversation, result: Any) -> None:
        del self._open[found.name]
        found.garbled, found.finished, found.result = None, True, result
        self.ended.append(found)

    # -- steps

    def _continue(self, found: Conversation, message: Message | None) -> None:
        """Take the message that was expected; what goes wrong ends the conversation."""
        try:
            if isinstance(message, Pads):
                self._advance(found, (message.pads, message.signs))
            elif isinstance(message, Reopened):
                self._advance(found, self._take_stacks(found, message.replies))
            elif isinstance(message, Transfer):
                self._garble(found, message)
            elif isinstance(message, Verdict):
                if found.garbled is None or message.returned.name != found.garbled.tables.name:
                    raise DamagedData("expected the bits of this circuit, got those of another")
                bits = self._sessions[found.opener].finish(message.returned)
                self._advance(found, bool(bits[0, 0]))
            elif isinstance(message, Colours):
                self._answer(found, message.halves)
            else:
                self._advance(found, None)
        except (HelbaError, ValueError) as error:
            self._give_up(found, reason=f"{type(error).__name__}: {error}")

    def _advance(self, found: Conversation, value: Any) -> None:
        """Let the work go on until it needs the opener again, or ends."""
        try:
            needed = found.steps.send(value)
        except StopIteration as end:
            self._finish(found, end.value)
            return
        if isinstance(needed, EncryptPads):
            found.expects = Pads
            message: Message = PadTask(task=found.name, work=found.work, boxes=needed.boxes)
        elif isinstance(needed, Reopen):
            message = self._reopen(found, needed)
        else:
            assert isinstance(needed, Compare)
            message = self._compare(found, needed)
        self.transition.send(message, to=found.opener)

    def _reopen(self, found: Conversation, needed: Reopen) -> ReopenTask:
        recipient = self._recipients.get(found.opener)
        found.expects, found.step = Reopened, needed.step
        exchanges = self.deployment.exchanges(found.work, needed.step)
        stacks = zip(needed.stacks, exchanges, strict=True)
        opened = self.ring.run_all(
            [partial(open_stack, self.ring, *each, to=recipient) for each in stacks]
        )
        found.masks += [mask for _, mask in opened]
        return ReopenTask(
            task=found.name,
            work=found.work,
            step=needed.step,
            openings=tuple(opening for openings, _ in opened for opening in openings),
        )

    def _take_stacks(self, found: Conversation, replies: Sequence[Ciphertext]) -> list[Any]:
        stacks, left = [], list(replies)
        masks, found.masks = found.masks, []
        exchanges = self.deployment.exchanges(found.work, found.step)
        for mask, exchange in zip(masks, exchanges, strict=True):
            count = sum(len(parts) for parts in exchange.rearrangements)
            stacks += take_replies(self.ring, mask, left[:count], exchange)
            left = left[count:]
        self.transition.commit(Noted(failure=fsum(stack.failure for stack in stacks)))
        if left:
            raise DamagedData("expected the replies of this step, got more")
        return stacks

    def _compare(self, found: Conversation, needed: Compare) -> CompareTask:
        recipient = self._recipients.get(found.opener)
        found.expects, found.shares = Transfer, needed.shares
        places = self.deployment.comparison(found.work).places
        pairs = self.ring.run_all(
            [
                partial(self.ring.open, each, places=where, to=recipient)
                for each, where in zip(needed.values, places, strict=True)
            ]
        )
        grid, found.masks = self.deployment.plan.grid, [mask for _, mask in pairs]
        if found.work.subject == "ask" and not all(
            mask.error(bits=grid.bits) < 2.0 ** (grid.low_bits - 1) for mask in found.masks
        ):  # CKKS's error has to stay in the bits that are rounded away
            raise EngineError(
                "the error of a score exceeds the grid's: this is an error of the plan"
            )
        openings = tuple(opening for opening, _ in pairs)
        return CompareTask(task=found.name, work=found.work, openings=openings)

    def _garble(self, found: Conversation, message: Transfer) -> None:
        deployment = self.deployment
        comparison = deployment.comparison(found.work)
        masks, found.masks = found.masks, []
        opened = [mask.take_modulo(bits=comparison.bits) for mask in masks]
        shares = [*deployment.group_opened(found.work, opened), *found.shares]
        session = self._sessions[found.opener]
        garbled = session.garble(comparison.circuit, shares=shares, transfer=message.transfer)
        found.garbled = garbled
        told = garbled.decoding[: deployment.told_bits(found.work), -1:].reshape(-1)
        tables = Tables(task=found.name, work=found.work, told=told, tables=garbled.tables)
        if found.work.subject == "fold":
            self.transition.commit(Judged(names=found.subject))
        found.tables = tables
        self.transition.send(tables, to=found.opener)
        if comparison.circuit.returned_outputs.size:
            found.expects = Verdict
        elif deployment.plan.opener == "authority":
            found.expects = Colours
        else:  # the opener is the user, and has its half
            self._answer(found, [b""])

    def _answer(self, found: Conversation, sealed: Sequence[bytes]) -> None:
        assert found.garbled is not None
        if len(sealed) != found.work.count:
            raise DamagedData("expected one sealed half for each ask")
        decodings = found.garbled.decoding
        if self.deployment.told_bits(found.work):
            decodings = decodings[:, :-1]  # the last one was the opener's
        self._finish(found, (decodings, sealed))


def root_up(count: int) -> int:
    """Return the square root, rounded up."""
    return isqrt(max(0, count - 1)) + 1


def split_group(items: Sequence[_Item], *, most: int) -> list[list[_Item]]:
    """Return smaller groups, to be tried again after an opener refused these items together.

    They are of sqrt(most) items, or of one if there are not more than that: so whatever is wrong
    with one of `most` items is found in three groups that it is in.
    """
    size = root_up(most) if len(items) > root_up(most) else 1
    return [list(items[i : i + size]) for i in range(0, len(items), size)]
