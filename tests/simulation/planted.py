"""Bugs on purpose: each is what a careless change would do, and the simulation has to find it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from unittest.mock import patch

from helba.opener import opener as opener_module
from helba.opener.state import VerdictsBegun
from helba.protocol.effects import Transition
from helba.server import asks as asks_module
from helba.server.asks import Asks
from helba.server.conversation import Conversations
from helba.server.learning import Learning
from helba.server.state import Folded, GivenUp, Stored


def lose_commits() -> Any:
    """Every seventh report changes the server's memory, and is not stored."""
    commit, turn = Transition.commit, count(1)

    def careless(self: Transition, change: Any) -> None:
        commit(self, change)
        if isinstance(change, Stored | Folded) and next(turn) % 7 == 0:
            self._changes.pop()

    return patch.object(Transition, "commit", careless)


def reuse_nonces() -> Any:
    """The opener seals every seventh answer under the nonce of the one before."""
    seal, turn, last = opener_module.seal_answer, count(1), [b""]

    def careless(colours: Any, *, draw: Callable[[int], bytes], **others: Any) -> bytes:
        def draw_again(size: int) -> bytes:
            if next(turn) % 7 or not last[0]:
                last[0] = draw(size)
            return last[0]

        return seal(colours, draw=draw_again, **others)

    return patch.object(opener_module, "seal_answer", careless)


def count_twice() -> Any:
    """An update that is given up puts its sum back twice."""

    def careless(self: Learning, *, rejected: bool = False) -> None:
        state = self._state
        growth = state.taken.plus(state.growth, ring=self._ring)
        growth = state.taken.plus(growth, ring=self._ring)
        self._transition.commit(GivenUp(growth=growth, rejected=rejected))

    return patch.object(Learning, "_put_back", careless)


def serve_stale_models() -> Any:
    """Asks are scored with the first model for ever, and named after the new one."""
    begin, first = Asks._begin, {}

    def careless(self: Asks, asks: Any, **others: Any) -> None:
        model = first.setdefault(id(self._ring), self._state.learned.model)

        def stale(name: str) -> Any:
            run = getattr(asks_module, name)
            return patch.object(
                asks_module, name, lambda *args, **told: run(*args, **(told | {"model": model}))
            )

        with stale("run_score"), stale("run_shared_scores"):
            begin(self, asks, **others)

    return patch.object(Asks, "_begin", careless)


def forget_rounds() -> Any:
    """An ask whose conversation was given up is not put back."""
    end = Asks.end

    def careless(self: Asks, outcome: Any) -> None:
        if outcome.finished or outcome.refused:
            end(self, outcome)

    return patch.object(Asks, "end", careless)


def fold_twice() -> Any:
    """The rows of a fold stay stored."""

    def careless(self: Folded, state: Any) -> None:
        state.names.update(dict.fromkeys(self.names))
        state.growth = self.growth

    return patch.object(Folded, "apply", careless)


def forget_sessions_apart() -> Any:
    """The server does not see that an opener is in another garbling session."""
    handle = Conversations.handle

    def careless(self: Conversations, message: Any, *, sender: bytes, now: float) -> None:
        class Anyone:
            name = getattr(getattr(message, "transfer", None), "session", b"")

            def __getattr__(self, name: str) -> Any:
                return getattr(session, name)

        session = self._sessions.get(sender)
        if session is None:
            handle(self, message, sender=sender, now=now)
            return
        self._sessions[sender] = Anyone()  # type: ignore[assignment]
        try:
            handle(self, message, sender=sender, now=now)
        finally:
            if isinstance(self._sessions.get(sender), Anyone):
                self._sessions[sender] = session

    return patch.object(Conversations, "handle", careless)


def count_verdicts_in_memory() -> Any:
    """An opener counts verdicts, and does not store the counts."""
    commit = Transition.commit

    def careless(self: Transition, change: Any) -> None:
        commit(self, change)
        if isinstance(change, VerdictsBegun):
            self._changes.pop()

    return patch.object(Transition, "commit", careless)


def answer_the_first() -> Any:
    """All answers of a product go to the user of the first one."""
    end = Asks.end

    def careless(self: Asks, outcome: Any) -> None:
        asks, batch = outcome.subject
        if outcome.finished:
            outcome.subject = ([(asks[0][0], ask) for _, ask in asks], batch)
        end(self, outcome)

    return patch.object(Asks, "end", careless)


def clear_too_much() -> Any:
    """A test clears reports that came after it had begun."""
    end = Learning.end_test

    def careless(self: Learning, ended: Any, *, now: float) -> None:
        ended.subject = self._state.samples
        end(self, ended, now=now)

    return patch.object(Learning, "end_test", careless)


BUGS: dict[str, Callable[[], Any]] = {
    "lost commit": lose_commits,
    "reused nonce": reuse_nonces,
    "double count": count_twice,
    "stale model": serve_stale_models,
    "forgotten round": forget_rounds,
    "rows that stay": fold_twice,
    "sessions apart": forget_sessions_apart,
    "verdicts in memory": count_verdicts_in_memory,
    "another's answer": answer_the_first,
    "too much cleared": clear_too_much,
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a bug."""
    with BUGS[name]():
        yield
