"""The client: a user that speaks to the other parties through a transport.

A transport takes one message and returns what came back for the user; encoding, addresses and
waiting are its own. So the same client works inside one process and over a network.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from helba.bandits.policy import Array
from helba.errors import RunFailed
from helba.garbling.circuits.circuit import Bits
from helba.protocol.effects import SERVER, Effects, Envelope
from helba.protocol.message import Answer, Message
from helba.ring import PublicKey
from helba.user.user import Acknowledged, Admitted, Asked, Declined, Recommended, Reported, User

_End = Admitted | Recommended | Acknowledged | Declined


class Transport(Protocol):
    """Carries a user's messages to the server, and to the authority."""

    def exchange(self, envelope: Envelope) -> Sequence[Message]:
        """Send a message and return what came back."""


class Client:
    """Takes part, asks for recommendations and reports rewards, one exchange each.

    `colours` returns the opener's half of the answer to a task, where the user is the opener. A
    report that was not acknowledged stays in the user's outbox, and `flush` sends it again: it
    counts once, however often it is sent.
    """

    def __init__(
        self,
        user: User,
        *,
        transport: Transport,
        colours: Callable[[bytes], Bits | None] | None = None,
    ) -> None:
        self.user = user
        self._transport = transport
        self._colours = colours

    def enrol(self, public_key: PublicKey | None = None) -> None:
        """Take part from now on; in the setting `users` with a key of one's own."""
        found = self._exchange(self.user.enrol(public_key), name=self.user.id)
        if not isinstance(found, Admitted):
            raise RunFailed(f"the user was not enrolled: {_reason(found)}")

    def recommend(self, contexts: Array) -> int:
        """Return the arm to play among these contexts, one a row."""
        effects = self.user.ask(contexts)
        (asked,) = effects.changes
        assert isinstance(asked, Asked)
        name = asked.round.ask.name
        try:
            found = self._exchange(effects, name=name)
        finally:
            self.user.forget(name)
        if isinstance(found, Recommended):
            return found.arm
        raise RunFailed(f"the server refused the round: {_reason(found)}")

    def report(self, context: Array, reward: float) -> None:
        """Report what playing a context earned; it is stored when this returns.

        If it raises and the report is in the outbox, `flush` sends it again: reporting the same
        once more would count it twice.
        """
        effects = self.user.report(context, reward)
        (reported,) = effects.changes
        assert isinstance(reported, Reported)
        name = reported.report.name
        found = self._exchange(effects, name=name)
        if name in self.user.state.outbox:
            raise RunFailed(f"the server has not stored a report yet: {_reason(found)}")
        if not isinstance(found, Acknowledged):
            raise RunFailed(f"the server refused a report: {_reason(found)}")

    def flush(self) -> int:
        """Send reports again that were not acknowledged; return how many still are not."""
        for report in tuple(self.user.state.outbox.values()):
            again = Effects(replies=(Envelope(to=SERVER, message=report),))
            self._exchange(again, name=report.name)
        return len(self.user.state.outbox)

    def _exchange(self, effects: Effects, *, name: bytes) -> _End | None:
        """Send a message; return what came of the user, round or report of that name."""
        found = None
        (envelope,) = effects.replies
        for reply in self._transport.exchange(envelope):
            colours, open_rounds = None, self.user.state.rounds
            if self._colours and isinstance(reply, Answer) and reply.name in open_rounds:
                colours = self._colours(reply.task)
                if colours is None:
                    raise RunFailed("the user's own half of the answer is missing")
            for change in self.user.handle(reply, colours=colours).changes:
                if isinstance(change, _End) and change.name == name:
                    found = change
        return found


def _reason(found: _End | None) -> str:
    return found.reason if isinstance(found, Declined) else "it gave no answer"
