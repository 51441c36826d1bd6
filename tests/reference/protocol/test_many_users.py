"""Users who share a ciphertext get what each would get alone, and nothing of the others."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from helba.errors import DamagedData, WrongVector
from helba.reference.planning.clearing import answer_unit
from helba.reference.protocol.messages import Answer, Receipt, Refusal
from helba.reference.protocol.user import User
from tests.engines import BOTH
from tests.reference.protocol.parties import (
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

    def __init__(self, scheme: str, *, keys: str = "own") -> None:
        request = replace(CROWD, keys=keys)
        super().__init__(authority_of(request, scheme=scheme, ring_dim=1 << 11))
        self.users = [self.new_user() for _ in range(USERS)]
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

    def read(self, user: User, answer: bytes) -> Array:
        """All that a user decrypts of an answer, in units of an entry."""
        vector = user._own.vector_from_bytes(self.decode(answer).parts[0])
        values = user._own.decrypt(vector, secret_key=user._secret_key)
        unit = answer_unit(self.deployment.scores, parameters=self.deployment.parameters)
        return values / unit


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
@pytest.mark.parametrize("keys", ["own", "shared"])
def test_answer_shows_nothing_but_noise_in_the_slots_of_others(scheme: str, keys: str) -> None:
    """Uniform under a key of one's own; of half the width where all users share one."""
    hall = Hall(scheme, keys=keys)
    layout, flood = hall.deployment.scores, hall.deployment.flood
    contexts = [draw_contexts(hall.generator, hall.settings) for _ in range(USERS)]
    answers = hall.server.receive_asks(hall.asks(contexts))
    for slot, (user, answer) in enumerate(zip(hall.users, answers, strict=True)):
        message = hall.decode(answer)
        assert message.round in user._open
        values = hall.read(user, answer)
        own = layout.slots_of(slot, among=len(values))
        others = values[~own]
        most, spread = (1.0, 0.2) if keys == "own" else (0.5, 0.05)
        assert np.abs(others).max() <= most * flood * 1.01
        assert np.abs(values[own]).max() > 0.1
        assert others.std() > spread * flood  # that noise has and zeros have not


@both
def test_nobody_reads_the_answer_of_somebody_else(scheme: str) -> None:
    """Neither another user nor whoever has the collective secret key."""
    hall = Hall(scheme)
    contexts = [draw_contexts(hall.generator, hall.settings) for _ in range(USERS)]
    answers = hall.server.receive_asks(hall.asks(contexts))
    for owner, answer in zip(hall.users, answers, strict=True):
        assert len(hall.read(owner, answer))
        vector = owner._own.vector_from_bytes(hall.decode(answer).parts[0])
        for other in hall.users:
            if other is owner:
                continue
            with pytest.raises(DamagedData, match="another key"):
                hall.read(other, answer)
            with pytest.raises(WrongVector):
                owner._own.decrypt(vector, secret_key=other._secret_key)
        with pytest.raises(DamagedData, match="another key"):
            hall.server._engine.vector_from_bytes(hall.decode(answer).parts[0])
        with pytest.raises(WrongVector):
            owner._own.decrypt(vector, secret_key=hall.authority._keys.secret)


@pytest.mark.parametrize("together", [2, 4, 6])
def test_answers_of_one_evaluation_carry_independent_noise(together: int) -> None:
    """No combination of several answers has less of it in the slots of the others."""
    hall = Hall("simulate")
    layout, flood = hall.deployment.scores, hall.deployment.flood
    among, seen = layout.compare_slots, []
    for _ in range(20):
        contexts = [draw_contexts(hall.generator, hall.settings) for _ in range(USERS)]
        answers = hall.server.receive_asks(hall.asks(contexts))
        pairs = zip(hall.users, answers, strict=True)
        seen.append([hall.read(user, answer) for user, answer in pairs])
    for some in combinations(range(USERS), together):
        own = [layout.slots_of(slot, among=among) for slot in some]
        strangers = ~np.any(own, axis=0)
        noise = np.concatenate([np.array(batch)[list(some)][:, strangers] for batch in seen], 1)
        least = np.linalg.svd(noise, compute_uv=False)[-1] / np.sqrt(noise.shape[1])
        assert least > 0.2 * flood  # 0.29 for endless independent ones


def test_shared_key_answers_carry_different_noise() -> None:
    hall = Hall("simulate", keys="shared")
    contexts = [draw_contexts(hall.generator, hall.settings) for _ in range(USERS)]
    answers = hall.server.receive_asks(hall.asks(contexts))
    layout = hall.deployment.scores
    free = [hall.read(user, answer) for user, answer in zip(hall.users, answers, strict=True)]
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
        hall.report(told.round, context=x[told.arm], reward=0.25, user=user)
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


@pytest.mark.parametrize("together", [False, True])
def test_round_of_somebody_else_is_refused(together: bool) -> None:
    """In the same batch or later: the first one has it, and only it may report."""
    hall = Hall("simulate")
    owner, thief = hall.users[:2]
    ask = hall.ask([[0.1, 0.2]], user=owner, slot=0)
    other = hall.decode(hall.ask([[0.2, 0.1]], user=thief, slot=1))
    taken = replace(other, round=hall.decode(ask).round)
    before = hall.server.round
    if together:
        replies = list(hall.server.receive_asks([ask, hall.encode(taken)]))
    else:
        replies = [*hall.server.receive(ask), *hall.server.receive(hall.encode(taken))]
    (answer,) = [data for data in replies if isinstance(hall.decode(data), Answer)]
    (refused,) = [r for data in replies if isinstance(r := hall.decode(data), Refusal)]
    assert refused.subject == taken.round
    assert hall.server.round == before + 1
    again = hall.server.receive_asks([hall.encode(taken), ask, ask])  # the owner still gets it
    assert isinstance(hall.decode(again[0]), Refusal)
    assert again[1:] == (answer,)
    round, state = owner.read(answer).round, hall.state()
    (refused,) = hall.report(round, context=[0.1, 0.2], reward=0.1, user=thief)
    assert isinstance(hall.decode(refused), Refusal)
    assert hall.state() == state
    receipt = hall.report(round, context=[0.1, 0.2], reward=0.1, user=owner)[0]
    assert hall.decode(receipt) == Receipt(round=round, counted=True)
