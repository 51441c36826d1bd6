"""The server: a state machine that holds ciphertexts and public keys, and never a secret key.

`handle` takes a message from a party; `work` starts what can be started: waiting asks, reports to
fold, a test, an update. Both return `Effects`: changes to store, and then messages to send. Neither
does I/O, knows the time or draws randomness: these are arguments. Work that needs an opener is a
conversation; when one is given up, its work begins again with everything fresh.
"""

from __future__ import annotations

from helba.errors import InvalidInput
from helba.learning.update import begin_learning
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import AUTHORITY, Effects, Transition
from helba.protocol.message import (
    Acceptance,
    Admission,
    Ask,
    Message,
    Receipt,
    Refusal,
    Reply,
    Report,
)
from helba.randomness import Draw, draw_bytes
from helba.ring import Ring
from helba.server.asks import Asks
from helba.server.conversation import Conversations
from helba.server.learning import Learning
from helba.server.reports import Reports
from helba.server.state import Enrolled, Noted, ServerState

PATIENCE = 300.0  # seconds that an opener may be silent before a conversation is given up


class Server:
    """Serves one deployment with public keys only.

    With a `state` it goes on from there, and the state is the server's from then on.
    """

    def __init__(
        self,
        deployment: SharesDeployment,
        *,
        ring: Ring,
        state: ServerState | None = None,
        draw: Draw = draw_bytes,
        patience: float = PATIENCE,
    ) -> None:
        self.deployment = deployment
        self.ring = ring
        if state is None:
            state = ServerState(learned=begin_learning(ring, deployment.plan))
        self.state = state
        self.last_trouble = ""
        self._helpers: list[bytes] = []
        self._transition = Transition(state)
        self._conversations = Conversations(
            deployment,
            ring=ring,
            recipients=state.members,
            transition=self._transition,
            draw=draw,
            patience=patience,
        )
        self._asks = Asks(state, self._conversations)
        self._reports = Reports(state, self._conversations)
        self._learning = Learning(state, self._conversations)

    # -- openers

    def add_helper(self, opener: bytes) -> None:
        """Let this opener open tests and updates; in `authority` there is one for everything."""
        if opener not in self._helpers:
            self._helpers.append(opener)

    def lose(self, opener: bytes, *, now: float) -> Effects:
        """Forget an opener that went away: what it was opening is abandoned and begun again."""
        if opener in self._helpers:
            self._helpers.remove(opener)
        self._conversations.lose(opener, reason="the opener went away")
        return self._settle(now=now)

    # -- messages

    def handle(self, message: Message, *, sender: bytes, now: float) -> Effects:
        """Take a message in; what is late, repeated or unknown changes nothing."""
        if isinstance(message, Ask | Report):
            if sender not in self.state.members:
                self._transition.send(
                    Refusal(name=message.name, reason="the user is not enrolled", later=True),
                    to=sender,
                )
            elif isinstance(message, Ask):
                self._asks.take(message, sender=sender)
            else:
                self._reports.take(message, sender=sender)
        elif isinstance(message, Admission):
            self._admit(message, sender=sender)
        elif isinstance(message, Acceptance):
            trouble = self._conversations.accept(message, sender=sender)
            if trouble:
                self.last_trouble = f"session: {trouble}"
        elif isinstance(message, Reply):
            self._conversations.handle(message, sender=sender, now=now)
        else:
            raise InvalidInput("message", type(message).__name__, "one for a server")
        return self._settle(now=now)

    def work(self, *, now: float) -> Effects:
        """Start what can be started now, and give up what openers have been silent about."""
        self._conversations.expire(now=now)
        self._end_all(now=now)
        opener = self._choose_helper()
        if self.deployment.plan.opener == "users":
            self._asks.start_with_users(now=now)
        elif opener is not None:
            self._asks.start_with_helper(opener, now=now)
        if opener is not None:
            self._reports.start(opener, now=now)
            waits = bool(len(self._reports))
            self._learning.start(opener, now=now, reports_wait=waits)
        return self._settle(now=now)

    def _admit(self, message: Admission, *, sender: bytes) -> None:
        """Serve a user from now on, if the authority says so; its first keys count."""
        if sender != AUTHORITY:
            return
        if (message.recipient is None) == (self.deployment.plan.opener == "users"):
            raise InvalidInput("recipient", message.recipient, "keys in the setting 'users' alone")
        if message.user not in self.state.members:
            self._transition.commit(Enrolled(user=message.user, recipient=message.recipient))
        self._transition.send(Receipt(name=message.user), to=message.user)

    def _choose_helper(self) -> bytes | None:
        """An opener for what is nobody's own round: one with a session if there is one.

        In the setting `users` it has to be enrolled: the server reaches it by its keys.
        """
        known = self._helpers
        if self.deployment.plan.opener == "users":
            known = [each for each in known if each in self.state.members]
        ready = (each for each in known if self._conversations.has_session(each))
        return next(ready, known[0] if known else None)

    def _settle(self, *, now: float) -> Effects:
        self._end_all(now=now)
        return self._transition.take()

    def _end_all(self, *, now: float) -> None:
        """Hand conversations that came to their end to who began them; that may begin others."""
        while self._conversations.ended:
            ended = self._conversations.ended.popleft()
            subject = ended.work.subject
            if not ended.finished:
                self.last_trouble = f"{subject}: {ended.reason}"
                retried = not ended.refused or subject in ("test", "update")
                self._transition.commit(Noted(abandoned=int(retried)))
            if subject == "ask":
                self._asks.end(ended)
            elif subject == "fold":
                self._reports.end(ended)
            elif subject == "test":
                self._learning.end_test(ended, now=now)
            elif trouble := self._learning.end_update(ended):
                self.last_trouble = f"update: {trouble}"
