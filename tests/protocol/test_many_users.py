"""Users who share a ciphertext get what each would get alone, and nothing of the others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.errors import DamagedData
from helba.protocol.messages import Answer, Refusal
from tests.engines import BOTH
from tests.protocol.parties import (
    MILD,
    Array,
    History,
    Table,
    authority_of,
    draw_contexts,
    require_arm,
    require_model,
)

USERS = 8
CROWD = replace(MILD, users=USERS)
both = pytest.mark.parametrize("scheme", BOTH)


class Hall(Table):
    """Eight users with a slot each, at a server that has learned something."""

    def __init__(self, scheme: str) -> None:
        super().__init__(authority_of(CROWD, scheme=scheme, ring_dim=1 << 11))
        self.users = [self.authority.make_user() for _ in range(USERS)]
        self.history = History(self.settings)
        self.generator = np.random.default_rng(6)
        for x, reward in (([0.6, 0.5], 0.3), ([-0.2, 0.9], -0.4), ([0.9, 0.1], 0.8)):
            self.history.add(x, reward)
            self.learn(x, reward)
        assert self.server.updates >= 1

    def asks(self, contexts: list[Array]) -> list[bytes]:
        return [
            self.ask(x, user=user, slot=slot)
            for slot, (user, x) in enumerate(zip(self.users, contexts, strict=True))
        ]


@both
def test_each_of_eight_users_gets_the_arm_it_gets_alone(scheme: str) -> None:
    hall = Hall(scheme)
    terms, certain, seen = hall.server.terms, 0, set()
    for _ in range(6 if scheme == "simulate" else 1):
        contexts = [
            draw_contexts(hall.generator, hall.settings, arms=1 + slot % 3) for slot in range(USERS)
        ]
        before = hall.server.round
        answers = hall.server.receive_asks(hall.asks(contexts))
        assert len(answers) == USERS
        assert hall.server.round == before + USERS
        told = {}
        for user in hall.users:
            name = next(iter(user._open))
            (own,) = [data for data in answers if hall.decode(data).round == name]
            told[user] = user.read(own)
        for user, x in zip(hall.users, contexts, strict=True):
            alone = hall.play(x)
            sure = require_arm(
                hall.deployment, x, arm=told[user].arm, terms=terms, history=hall.history
            )
            assert not told[user].overflow
            assert told[user].arm == alone.arm or not sure
            certain += sure
            seen.add(told[user].arm)
    assert certain >= 4
    assert len(seen) > 1


@both
def test_answer_shows_nothing_but_noise_in_the_slots_of_others(scheme: str) -> None:
    """Two rounds that differ in everything but the own contexts look alike to a user."""
    hall = Hall(scheme)
    layout, flood = hall.deployment.scores, hall.deployment.flood
    contexts = [draw_contexts(hall.generator, hall.settings) for _ in range(USERS)]
    answers = hall.server.receive_asks(hall.asks(contexts))
    for slot, (user, answer) in enumerate(zip(hall.users, answers, strict=True)):
        message = hall.decode(answer)
        assert message.round in user._open
        vector = user._engine.vector_from_bytes(message.parts[0])
        values = user._engine.decrypt(vector, secret_key=hall.authority._keys.secret)
        own = layout.slots_of(slot, among=len(values))
        others = values[~own]
        assert np.abs(others).max() <= 0.5 * flood * 1.01
        assert np.abs(values[own]).max() > 0.1
        # uniform in two parts: a spread that noise has and zeros have not
        assert others.std() > 0.05 * flood


def test_answers_of_one_evaluation_carry_different_noise() -> None:
    hall = Hall("simulate")
    contexts = [draw_contexts(hall.generator, hall.settings) for _ in range(USERS)]
    answers = hall.server.receive_asks(hall.asks(contexts))
    layout = hall.deployment.scores
    free = []
    for data in answers:
        vector = hall.server._engine.vector_from_bytes(hall.decode(data).parts[0])
        free.append(hall.open(vector))
    for left in range(USERS):
        for right in range(left):
            shared = ~(
                layout.slots_of(left, among=len(free[0]))
                | layout.slots_of(right, among=len(free[0]))
            )
            assert np.abs(free[left] - free[right])[shared].max() > 1e-3 * hall.deployment.flood


def test_update_test_rides_with_the_first_user_only() -> None:
    hall = Hall("simulate")
    while not hall.server.growth.waiting:  # growth that no update has taken in
        hall.learn([0.1, 0.1], 0.1)
    contexts = [draw_contexts(hall.generator, hall.settings) for _ in range(USERS)]
    tests = [hall.decode(data).test for data in hall.server.receive_asks(hall.asks(contexts))]
    assert tests[0] is not None
    assert tests[1:] == [None] * (USERS - 1)


def test_reports_of_a_batch_all_count() -> None:
    hall = Hall("simulate")
    contexts = [draw_contexts(hall.generator, hall.settings) for _ in range(USERS)]
    answers = hall.server.receive_asks(hall.asks(contexts))
    for user, answer, x in zip(hall.users, answers, contexts, strict=True):
        told = user.read(answer)
        hall.send_bit(told)
        hall.history.add(x[told.arm], 0.25)
        hall.report(told.round, context=x[told.arm], reward=0.25)
    hall.help()
    np.testing.assert_allclose(hall.design(), hall.history.design(), atol=1e-9)
    played = hall.play([[0.5, 0.5]])
    hall.send_bit(played)
    hall.history.add([0.5, 0.5], 0.1)
    hall.report(played.round, context=[0.5, 0.5], reward=0.1)
    hall.help()
    assert hall.server.rejected == 0
    require_model(hall, hall.history)


def test_users_in_the_same_slot_are_answered_apart() -> None:
    hall = Hall("simulate")
    x, y = (draw_contexts(hall.generator, hall.settings) for _ in range(2))
    asks = [hall.ask(x, user=hall.users[0], slot=3), hall.ask(y, user=hall.users[1], slot=3)]
    answers = hall.server.receive_asks(asks)
    assert len(answers) == 2
    for user, contexts in zip(hall.users, (x, y), strict=False):
        (own,) = [data for data in answers if hall.decode(data).round in user._open]
        told = user.read(own)
        require_arm(
            hall.deployment,
            contexts,
            arm=told.arm,
            terms=hall.server.terms,
            history=hall.history,
        )


def test_ask_of_an_ended_batch_among_others_is_refused_alone() -> None:
    hall = Hall("simulate")
    late = hall.ask([[0.1, 0.2]], user=hall.users[0], slot=0)
    while hall.server.terms.number < hall.decode(late).batch + 2:
        hall.learn(draw_contexts(hall.generator, hall.settings, arms=1)[0], 0.1)
    right = hall.ask([[0.1, 0.2]], user=hall.users[1], slot=1)
    replies = [hall.decode(data) for data in hall.server.receive_asks([late, right])]
    assert sum(isinstance(reply, Refusal) for reply in replies) == 1
    assert len(replies) == 2


@pytest.mark.parametrize("bad_first", [False, True])
def test_ask_that_does_not_fit_spoils_nobody_elses(bad_first: bool) -> None:
    """Not even that of the same round: the sound one is answered, in whatever order they come."""
    hall = Hall("simulate")
    sound = hall.ask([[0.1, 0.2]], user=hall.users[0], slot=0)
    other = hall.ask([[0.2, 0.1]], user=hall.users[1], slot=1)
    fit, before = hall.decode(sound), hall.server.round
    bad = hall.encode(replace(fit, parts=(*fit.parts, *fit.parts)))
    asks = [bad, sound, other] if bad_first else [sound, bad, other]
    replies = [hall.decode(data) for data in hall.server.receive_asks(asks)]
    answered = {reply.round for reply in replies if isinstance(reply, Answer)}
    assert answered == {fit.round, hall.decode(other).round}
    refused = [reply for reply in replies if isinstance(reply, Refusal)]
    assert [reply.subject for reply in refused] == ([fit.round] if bad_first else [])
    assert hall.server.round == before + 2
    with pytest.raises(DamagedData):
        hall.server.receive(hall.encode(replace(fit, round=bytes(16), parts=())))
    assert hall.server.round == before + 2
