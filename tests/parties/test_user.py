"""Users: what they may say, and what they are told when they say something else."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from helba.authority.authority import Authority, make_authority_keys
from helba.errors import DamagedData, InvalidInput, RunFailed
from helba.in_process.bandit import EncryptedBandit
from helba.in_process.parties import MOST_TROUBLES
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import AUTHORITY
from helba.protocol.message import Ask, Enrol, Receipt, Refusal, Shared
from helba.server.learning import Learning
from helba.user.user import User
from tests.parties.world import World, draw_contexts, make_deployment, make_settings, sent

SETTINGS = make_settings(2, 3)


@pytest.fixture
def world(opener):
    return World(make_deployment(SETTINGS, opener=opener))


BAD_CONTEXTS = {
    "too long": [[2.0, 0.0]],
    "not finite": [[np.nan, 0.0]],
    "infinite": [[np.inf, 0.0]],
    "too many arms": np.zeros((4, 2)),
    "no arm": np.zeros((0, 2)),
    "wrong dimension": [[0.1, 0.2, 0.3]],
    "no row": [0.1, 0.2],
}


@pytest.mark.parametrize("bad", BAD_CONTEXTS)
def test_contexts_that_are_not_admissible_are_refused_before_anything_is_sent(world, bad):
    user = world.users[0].user
    with pytest.raises(InvalidInput):
        user.ask(np.array(BAD_CONTEXTS[bad], dtype=float))
    assert user.state.rounds == {}


@pytest.mark.parametrize("reward", [np.nan, np.inf, "much", None])
def test_rewards_that_are_no_numbers_are_refused(world, reward):
    with pytest.raises((InvalidInput, TypeError, ValueError)):
        world.users[0].user.report(np.array([0.1, 0.1]), reward)


def test_rewards_are_clipped(world):
    member = world.users[0]
    for reward in (1e6, -1e6, 2.0):
        message = sent(member.user.report(np.array([0.6, 0.8]), reward))
        clipped = float(np.clip(reward, -2.0, 2.0))
        world.reports[message.name] = world.round_report((0.6, 0.8), clipped)
        world.post(member, message)
    world.settle()
    world.check_sums()


def test_user_needs_the_key_of_its_setting(world, opener):
    wanted = "public_key" if opener == "users" else "sealing_key"
    with pytest.raises(InvalidInput, match=wanted):
        User(world.deployment, id=bytes(16))


def test_answer_is_read_once_and_for_an_open_round_only(world, opener):
    member = world.users[0]
    name = world.ask(member, draw_contexts(np.random.default_rng(0), SETTINGS))
    world.settle()
    (answer,) = member.inbox
    assert name in member.arms
    assert member.user.handle(answer).changes == ()
    asked = sent(member.user.ask(draw_contexts(np.random.default_rng(0), SETTINGS)))
    member.user.forget(asked.name)
    assert member.user.state.rounds == {}
    if opener == "users":
        again = sent(member.user.ask(np.zeros((1, 2))))
        with pytest.raises(InvalidInput, match="the opener's half"):
            member.user.handle(replace(answer, name=again.name))


def test_answer_of_another_task_or_user_is_damaged_data():
    world = World(make_deployment(SETTINGS, opener="authority"), users=2)
    first, second = world.users
    contexts = draw_contexts(np.random.default_rng(1), SETTINGS)
    names = [sent(member.user.ask(contexts)) for member in world.users]
    for member, message in zip(world.users, names, strict=True):
        world.post(member, message)
    first.take = second.take = lambda message: answers.append(message)
    answers: list = []
    world.settle()
    mine, theirs = answers
    for wrong in (
        replace(mine, sealed=theirs.sealed),
        replace(mine, task=bytes(16)),
        replace(mine, sealed=mine.sealed[:-1] + bytes([mine.sealed[-1] ^ 1])),
    ):
        with pytest.raises(DamagedData):
            first.user.handle(wrong)
    told = [*first.user.handle(mine).changes, *second.user.handle(theirs).changes]
    assert [change.arm for change in told] == [world.best(contexts)] * 2


# -- the server's side of the door


def test_ask_or_report_of_the_other_setting_is_refused(opener):
    world = World(make_deployment(SETTINGS, opener=opener))
    other = World(make_deployment(SETTINGS, opener="authority" if opener == "users" else "users"))
    member, stranger = world.users[0], other.users[0]
    for message in (
        sent(stranger.user.ask(np.zeros((1, 2)))),
        sent(stranger.user.report(np.zeros(2), 0.0)),
    ):
        (envelope,) = world.handle(message, sender=member.id)
        assert isinstance(envelope.message, Refusal)
        assert envelope.message.name == message.name
    assert world.idle
    assert world.server.state.samples == 0


def test_shares_of_another_number_are_refused():
    world = World(make_deployment(SETTINGS, opener="authority"))
    member = world.users[0]
    ask = sent(member.user.ask(np.zeros((1, 2))))
    assert isinstance(ask.features, Shared)
    short = replace(ask.features, shares=ask.features.shares[:-1])
    (envelope,) = world.handle(Ask(name=ask.name, features=short), sender=member.id)
    assert "15 shares" in envelope.message.reason


def test_user_who_is_not_enrolled_is_refused():
    world = World(make_deployment(SETTINGS, opener="users"))
    message = sent(world.users[0].user.ask(np.zeros((1, 2))))
    (envelope,) = world.handle(message, sender=bytes(16))
    assert "not enrolled" in envelope.message.reason


def test_enrolment_needs_a_key_of_ones_own_in_the_setting_users_and_in_no_other(opener):
    world = World(make_deployment(SETTINGS, opener=opener))
    other = World(
        make_deployment(SETTINGS, opener="users" if opener == "authority" else "authority")
    )
    name, wrong = bytes(range(16)), other.users[0].key
    effects = world.authority.handle(Enrol(public_key=wrong), sender=name)
    (refused,) = effects.replies
    assert refused.to == name
    assert "key of its own" in refused.message.reason
    assert effects.changes == ()
    assert name not in world.authority.state.members
    with pytest.raises(InvalidInput, match="recipient"):
        other.handle(sent(world.admit(world.users[0])), sender=AUTHORITY)


def test_enrolment_again_is_told_again_and_changes_nothing(opener):
    world = World(make_deployment(SETTINGS, opener=opener))
    (member, before) = world.users[0], world.save()
    effects = world.admit(member)
    assert effects.changes == ()
    (receipt,) = world.handle(sent(effects), sender=AUTHORITY)
    assert (receipt.to, receipt.message) == (member.id, Receipt(name=member.id))
    assert world.save() == before
    if opener == "users":
        stranger = world.join(enrolled=False)
        (refused,) = world.authority.handle(
            Enrol(public_key=stranger.key), sender=member.id
        ).replies
        assert "another key" in refused.message.reason


def test_nobody_but_the_authority_admits(opener):
    world = World(make_deployment(SETTINGS, opener=opener))
    stranger, before = world.join(enrolled=False), world.save()
    assert world.handle(sent(world.admit(stranger)), sender=world.users[0].id) == ()
    assert world.save() == before
    assert not stranger.user.state.admitted
    assert world.users[0].user.state.admitted


def test_authority_takes_nothing_but_enrolments(world):
    with pytest.raises(InvalidInput, match="one for an authority"):
        world.authority.handle(Receipt(name=bytes(16)), sender=bytes(16))


def test_server_takes_no_messages_of_its_own(world):
    with pytest.raises(InvalidInput, match="one for a server"):
        world.handle(Receipt(name=bytes(16)), sender=bytes(16))


def test_reports_past_the_horizon_are_refused(opener):
    world = World(make_deployment(make_settings(2, 3, horizon=4), opener=opener))
    member = world.users[0]
    world.learn(member, np.random.default_rng(2), count=4)
    world.report(member, (0.1, 0.1), 0.5)
    world.settle()
    assert "the horizon of 4 reports is reached" in member.inbox[-1].reason
    assert world.server.state.samples == 4
    contexts = draw_contexts(np.random.default_rng(3), SETTINGS)
    assert world.recommend(member, contexts) == world.best(contexts)  # asks go on


# -- deployments, authorities, and the bandit in one process


def test_engine_and_opener_have_names():
    with pytest.raises(InvalidInput, match="engine must be one of ckks, simulate"):
        SharesDeployment.of(SETTINGS, engine="seal")
    with pytest.raises(InvalidInput, match="opener must be one of users, authority"):
        SharesDeployment.of(SETTINGS, opener="server")


def test_digest_names_settings_opener_ring_and_engine():
    made = [
        make_deployment(SETTINGS),
        make_deployment(make_settings(2, 3, horizon=499)),
        make_deployment(SETTINGS, opener="authority"),
        make_deployment(SETTINGS, log2=10),
        make_deployment(SETTINGS, engine="ckks"),
    ]
    assert len({deployment.digest for deployment in made}) == len(made)
    again = SharesDeployment(plan=made[0].plan, engine="simulate")
    assert again.digest == made[0].digest


def test_collective_key_is_no_users_own():
    world = World(make_deployment(SETTINGS, opener="users"))
    asked = Enrol(public_key=world.authority.public_key)
    (refused,) = world.authority.handle(asked, sender=bytes(16)).replies
    assert "the collective one" in refused.message.reason


def test_authority_that_begins_again_is_the_same(opener):
    deployment = make_deployment(SETTINGS, opener=opener)
    keys = make_authority_keys(deployment)
    first = Authority(deployment, keys=keys)
    world = World(deployment)
    key = world.users[0].key
    first.handle(Enrol(public_key=key), sender=bytes(16))
    again = Authority(deployment, keys=keys, state=first.state)
    effects = again.handle(Enrol(public_key=key), sender=bytes(16))
    assert effects.changes == ()
    assert sent(effects).user == bytes(16)
    assert again.public_key.key_id == first.public_key.key_id
    assert again.sealing_key == first.sealing_key
    with pytest.raises(TypeError, match="neither pickled nor copied"):
        pickle.dumps(keys)
    assert "PrivateKey" not in repr(keys)


def test_authority_prints_no_key(opener):
    deployment = make_deployment(SETTINGS, opener=opener)
    authority = Authority(deployment, keys=make_authority_keys(deployment))
    assert repr(authority) == f"Authority(opener={opener!r})"
    assert bytes(authority.private_sealing_key) != authority.sealing_key


def make_bandit(opener, **others) -> EncryptedBandit:
    settings = make_settings(2, 3, **others)
    return EncryptedBandit(settings, deployment=make_deployment(settings, opener=opener))


def test_bandit_plays_with_late_rewards(opener):
    bandit = make_bandit(opener)
    rng = np.random.default_rng(4)
    contexts = [draw_contexts(rng, SETTINGS) for _ in range(4)]
    arms = [bandit.select(rows) for rows in contexts]
    assert all(0 <= arm < 3 for arm in arms)
    for rows, arm in zip(contexts, arms, strict=True):
        bandit.update(rows[arm], 0.5)
    assert bandit.server.state.samples == 4
    assert bandit.updates >= 1
    assert bandit.ledger.bytes_up > 0
    assert bandit.ledger.total() >= bandit.ledger.total(party="server") > 0.0


def test_bandit_of_other_settings_is_refused():
    deployment = make_deployment(SETTINGS)
    with pytest.raises(InvalidInput, match="that of these settings"):
        EncryptedBandit(make_settings(2, 4), deployment=deployment)


def test_bandit_says_why_a_report_was_refused(opener):
    bandit = make_bandit(opener, horizon=1)
    bandit.update(np.array([0.1, 0.1]), 0.5)
    with pytest.raises(RunFailed, match="the horizon of 1 reports is reached"):
        bandit.update(np.array([0.1, 0.1]), 0.5)


def test_bandit_gives_up_when_models_are_rejected_for_ever(opener, monkeypatch):
    bandit = make_bandit(opener)
    bandit.update(np.array([0.1, 0.1]), 0.5)
    end = Learning.end_update
    monkeypatch.setattr(
        Learning, "end_update", lambda self, outcome: end(self, replace(outcome, result=None))
    )
    with pytest.raises(RunFailed, match="do not get a task done"):
        bandit.update(np.array([0.3, 0.1]), 0.5)
    assert bandit.server.state.rejected == MOST_TROUBLES + 1


def test_bandit_gives_up_when_the_opener_always_aborts(opener):
    bandit = make_bandit(opener)
    for station in bandit.parties.stations.values():
        if station.opener is not None:
            station.opener._compare = _fail
    with pytest.raises(RunFailed, match="do not get a task done"):
        bandit.select(np.zeros((3, 2)))


def _fail(_message):
    raise DamagedData("no")
