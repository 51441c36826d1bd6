"""What a user may ask for, and what happens when the scores leave their promised range."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helba.errors import InvalidInput
from helba.reference.protocol.bandit import ReferenceBandit
from helba.reference.protocol.wire.messages import Answer, Receipt
from tests.engines import BOTH
from tests.reference.protocol.parties import MILD, TOY, History, Table, authority_of, require_arm

both = pytest.mark.parametrize("scheme", BOTH)
# The parameter is a hundred times longer than promised, and rewards have no noise at all.
WRONG = replace(TOY, parameter_bound=0.01, noise=0.0, length=2.0)


@both
def test_number_of_arms_may_differ_from_round_to_round(scheme: str) -> None:
    authority = authority_of(MILD, scheme=scheme)
    deployment, settings = authority.deployment, authority.deployment.settings
    bandit = ReferenceBandit(settings, authority=authority)
    generator, history, certain = np.random.default_rng(0), History(settings), 0
    theta = np.array([0.8, -0.6])
    for arms in [1, 3, 2, 1, 2, 3] * (4 if scheme == "simulate" else 1):
        x = generator.uniform(-0.7, 0.7, (arms, 2))
        terms = bandit.terms
        arm = bandit.select(x)
        assert 0 <= arm < arms
        certain += require_arm(deployment, x, arm=arm, terms=terms, history=history)
        reward = float(x[arm] @ theta)
        history.add(x[arm], reward)
        bandit.update(x[arm], reward)
    assert bandit.overflows == 0
    assert certain > 3


def test_ask_does_not_show_the_number_of_arms() -> None:
    """The head of an ask says the same for one arm and for three, and its ciphertext is as long."""
    table = Table(authority_of(MILD, scheme="simulate"))
    asks = [table.decode(table.ask(np.full((arms, 2), 0.3))) for arms in (1, 2, 3)]
    assert {(ask.batch, len(ask.parts)) for ask in asks} == {(0, 1)}
    loaded = [table.server._engine.vector_from_bytes(ask.parts[0]) for ask in asks]
    assert len({(vector.slots, vector.level) for vector in loaded}) == 1


BAD = {
    "too many arms": np.full((4, 2), 0.1),
    "no arm": np.zeros((0, 2)),
    "another dimension": np.full((2, 3), 0.1),
    "a vector": np.array([0.1, 0.2]),
    "not a number": np.array([[0.1, np.nan]]),
    "infinite": np.array([[0.1, np.inf]]),
    "too long": np.array([[1.0, 0.1]]),
    "text": [["a", "b"]],
    "uneven": [[0.1, 0.2], [0.1]],
    "nothing": None,
}


@pytest.mark.parametrize("contexts", BAD.values(), ids=list(BAD))
def test_contexts_that_are_not_admissible_change_nothing(contexts: Any) -> None:
    authority = authority_of(MILD, scheme="simulate")
    bandit = ReferenceBandit(authority.deployment.settings, authority=authority)
    arm = bandit.select(np.full((2, 2), 0.3))
    bandit.update(np.full(2, 0.3), float(arm))
    before = (bandit.round, bandit.server.status(), bandit.bytes_up, dict(bandit.user._open))
    with pytest.raises(InvalidInput):
        bandit.select(contexts)
    with pytest.raises(InvalidInput):
        bandit.user.ask(contexts, terms=bandit.terms)
    after = (bandit.round, bandit.server.status(), bandit.bytes_up, dict(bandit.user._open))
    assert after == before
    assert after[3] == {}


@pytest.mark.parametrize(
    ("context", "reward"),
    [
        ([0.1, np.nan], 0.0),
        ([0.1], 0.0),
        ([2.0, 0.0], 0.0),
        ([0.1, 0.1], np.nan),
        ([0.1, 0.1], np.inf),
        ([0.1, 0.1], "much"),
        ([0.1, 0.1], [1.0, 2.0]),
    ],
)
def test_report_that_is_not_admissible_leaves_the_round_open(context: Any, reward: Any) -> None:
    authority = authority_of(MILD, scheme="simulate")
    bandit = ReferenceBandit(authority.deployment.settings, authority=authority)
    bandit.select(np.full((2, 2), 0.3))
    with pytest.raises(InvalidInput):
        bandit.update(context, reward)
    assert bandit.server.status().samples == 0
    bandit.update(np.full(2, 0.3), 0.5)
    assert bandit.server.status().samples == 1


def test_update_without_a_round_is_refused() -> None:
    authority = authority_of(MILD, scheme="simulate")
    bandit = ReferenceBandit(authority.deployment.settings, authority=authority)
    with pytest.raises(InvalidInput):
        bandit.update(np.full(2, 0.3), 0.5)
    assert bandit.bytes_up == 0


def test_reward_past_its_bound_is_clipped_and_counted_once() -> None:
    authority = authority_of(MILD, scheme="simulate")
    settings = authority.deployment.settings
    table = Table(authority)
    bandit = ReferenceBandit(settings, authority=authority, server=table.server)
    bandit.select(np.full((1, 2), 0.5))
    bandit.update(np.full(2, 0.5), 100.0)
    assert (bandit.clipped, bandit.user.clipped) == (1, 0)
    np.testing.assert_allclose(table.response(), settings.reward_max * np.full(2, 0.5), atol=1e-9)


def talk(table: Table, contexts: Any) -> tuple[Any, list[tuple[str, int]]]:
    """A round, and kind and size of what the server says in it."""
    ask = table.ask(contexts)
    answers = table.server.receive(ask)
    said = [(type(table.decode(data)).__name__, len(table.decode(data).parts)) for data in answers]
    sizes = [len(data) for data in answers]
    told = table.user.read(answers[0])
    bits = () if told.reply is None else table.server.receive(told.reply)
    assert bits == ()
    replies = table.report(told.round, context=contexts[told.arm], reward=contexts[told.arm][0])
    said += [(type(table.decode(data)).__name__, 0) for data in replies]
    table.help()
    return (told, sizes), said


@pytest.mark.ckks
def test_score_past_its_range_is_found_and_the_server_sees_nothing_of_it() -> None:
    """The radius does not hold, so the polynomial explodes: the user notices, and plays on."""
    table = Table(authority_of(WRONG, scheme="ckks"))
    contexts = np.array([[1.4, 0.0], [-1.4, 0.0]])  # the parameter is (1, 0)
    (first, sizes), normal = talk(table, contexts)
    assert not first.overflow
    heard, arms, overflows = [], set(), 0
    for _ in range(8):
        (told, size), said = talk(table, contexts)
        overflows += told.overflow
        arms.add(told.arm)
        heard.append(said)
        assert abs(size[0] - sizes[0]) < 0.1 * sizes[0]
    assert overflows >= 5
    assert table.user.overflows == overflows
    assert all(said == normal for said in heard)
    assert normal == [(Answer.__name__, 1), (Receipt.__name__, 0)]
    assert table.server.round == table.server.samples == 9


@both
@pytest.mark.parametrize("riding", [False, True])
def test_entry_past_what_the_sign_can_reach_is_an_overflow(scheme: str, riding: bool) -> None:
    """An answer with one entry just past its range; one just within is read as it is."""
    table = Table(authority_of(TOY, scheme=scheme))
    layout, engine = table.deployment.scores, table.user._own
    low, high = table.server.profile.entry_range()
    test = bytes(16) if riding else None
    for first, overflow in ((high + 0.01, True), (low - 0.01, True), (high - 1e-4, False)):
        ask = table.decode(table.ask([[0.1, 0.2], [0.2, 0.1]]))
        values = np.zeros(layout.compare_slots)
        values[layout.columns] = first  # of two arms
        part = engine.vector_to_bytes(engine.encrypt(values, level=table.deployment.round_levels))
        told = table.user.read(table.encode(Answer(round=ask.round, test=test, parts=(part,))))
        assert told.overflow is overflow
        assert told.arm in (0, 1)
        assert overflow or told.arm == 0
        assert (told.reply is None) is not riding  # the server gets its bit in any case
    assert table.user.overflows == 2
    assert table.user._open == {}


def test_honest_range_has_no_overflow() -> None:
    """The same run with a radius that holds: nothing is reported, and the better arm is found."""
    table = Table(authority_of(replace(WRONG, parameter_bound=1.0), scheme="simulate"))
    contexts = np.array([[1.4, 0.0], [-1.4, 0.0]])
    for _ in range(8):
        (told, _), _ = talk(table, contexts)
        assert not told.overflow
    assert told.arm == 0
