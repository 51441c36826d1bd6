"""Asks that wait for their scores, and those that openers are at.

In the setting `users` one conversation an ask, with the user who asks. In `authority` as many asks
as fit one product; what the opener refuses for several asks together is tried again in smaller
groups, and what it refuses alone is given up.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from helba.learning.round import run_score, run_shared_scores
from helba.protocol.message import Answer, Ask, Refusal, Shared, Work
from helba.ring.sharing.integer import Integers
from helba.server.conversation import Conversation, Conversations, split_group
from helba.server.state import ServerState

MOST_WAITING = 1 << 16
MOST_ASKING = 64  # conversations about asks with one opener at a time; it keeps 256 tasks

Waiting = tuple[bytes, Ask]


class Asks:
    """Takes asks in, and starts conversations about them; nothing of it is stored."""

    def __init__(self, state: ServerState, conversations: Conversations) -> None:
        self._state = state
        self._conversations = conversations
        self._transition = conversations.transition
        self._deployment = conversations.deployment
        self._ring = conversations.ring
        self._waiting: deque[Waiting] = deque()
        self._apart: deque[list[Waiting]] = deque()  # groups that were refused as a whole

    def __len__(self) -> int:
        return len(self._waiting) + sum(map(len, self._apart))

    def take(self, ask: Ask, *, sender: bytes) -> None:
        """Put an ask in the queue, or refuse it."""
        if reason := self._find_fault(ask):
            self._transition.send(Refusal(name=ask.name, reason=reason), to=sender)
        elif len(self._waiting) >= MOST_WAITING:
            reason = "too many asks wait: try again later"
            self._transition.send(Refusal(name=ask.name, reason=reason, later=True), to=sender)
        else:
            self._waiting.append((sender, ask))

    def _find_fault(self, ask: Ask) -> str:
        deployment = self._deployment
        if deployment.plan.opener == "authority":
            numbers = deployment.numbers
            if not isinstance(ask.features, Shared) or len(ask.features.shares) != numbers:
                return f"expected {numbers} shares and a sealed seed"
        else:
            wanted = deployment.describe_features(self._ring.public_key)
            if isinstance(ask.features, Shared) or list(ask.features) != wanted:
                return "the ciphertexts are not those of an ask of this plan"
        return ""

    def start_with_users(self, *, now: float) -> None:
        """Start what waits, each with its own user."""
        waiting, self._waiting = self._waiting, deque()
        while waiting:
            user, ask = waiting.popleft()
            if self._conversations.prepare(user, now=now) and self._has_room(user):
                self._begin([(user, ask)], opener=user, now=now)
            else:
                self._waiting.append((user, ask))

    def start_with_helper(self, opener: bytes, *, now: float) -> None:
        """Start what waits, many together, with the opener who opens for everybody."""
        if not len(self) or not self._conversations.prepare(opener, now=now):
            return
        while self._apart and self._has_room(opener):
            self._begin(self._apart.popleft(), opener=opener, now=now)
        while self._waiting and self._has_room(opener):
            self._begin(self._take_group(), opener=opener, now=now)

    def _take_group(self) -> list[Waiting]:
        """As many asks as fit one product; an ask that came twice waits for the next one."""
        group: list[Waiting] = []
        boxes: set[bytes] = set()
        again: list[Waiting] = []
        while self._waiting and len(group) < self._deployment.plan.lanes:
            waiting = self._waiting.popleft()
            features = waiting[1].features
            assert isinstance(features, Shared)
            (again if features.box in boxes else group).append(waiting)
            boxes.add(features.box)
        self._waiting.extendleft(reversed(again))
        return group

    def end(self, ended: Conversation) -> None:
        """Answer the asks of a conversation, or put them back."""
        asks, batch = ended.subject
        if ended.finished:
            decodings, sealed = ended.result
            for (user, ask), decoding, half in zip(asks, decodings, sealed, strict=True):
                answer = Answer(
                    name=ask.name, task=ended.name, batch=batch, decoding=decoding, sealed=half
                )
                self._transition.send(answer, to=user)
        elif not ended.refused:
            self._waiting.extendleft(reversed(asks))
        elif len(asks) > 1:
            self._apart += split_group(asks, most=self._deployment.plan.lanes)
        else:
            ((user, ask),) = asks
            refusal = Refusal(name=ask.name, reason="the opener cannot read the ask")
            self._transition.send(refusal, to=user)

    def _has_room(self, opener: bytes) -> bool:
        return self._conversations.count(opener, subject="ask") < MOST_ASKING

    def _begin(self, asks: list[Waiting], *, opener: bytes, now: float) -> None:
        deployment, learned = self._deployment, self._state.learned
        features = [ask.features for _, ask in asks]
        if isinstance(features[0], Shared):
            shared = [each for each in features if isinstance(each, Shared)]
            shares = np.stack([each.shares for each in shared])
            steps = run_shared_scores(
                self._ring,
                deployment.plan,
                asks=shares,
                boxes=tuple(each.box for each in shared),
                groups=deployment.feature_groups(len(asks)),
                checked=lambda signs: self._checked(shares, signs),
                model=learned.model,
            )
        else:
            steps = run_score(
                self._ring, deployment.plan, features=features[0], model=learned.model
            )
        self._conversations.begin(
            Work(subject="ask", count=len(asks)),
            steps=steps,
            opener=opener,
            subject=(asks, learned.batch.number),
            now=now,
        )

    def _checked(self, shares: Integers, seed: bytes) -> tuple[Any, ...]:
        """The server's shares of what an ask's circuit checks: the opener's pads are the others."""
        values = self._deployment.checked_values(shares, seed=seed, sign=-1)
        return self._deployment.ask_range.split_garbler(values, seed=seed)
