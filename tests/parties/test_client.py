"""The client, what a user keeps, time as an argument, and going on past the horizon."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

from helba.bandits import HorizonWarning
from helba.errors import InvalidInput, RunFailed
from helba.in_process.bandit import EncryptedBandit
from helba.in_process.parties import Parties
from helba.lab.algorithm import make_policy
from helba.lab.play.twin import GridTwin
from helba.protocol.effects import AUTHORITY
from helba.protocol.message import Receipt, Refusal
from helba.server.server import PATIENCE, Server
from helba.server.state import Stored
from helba.user.client import Client
from tests.parties.world import (
    World,
    draw_contexts,
    draw_report,
    hold,
    lose,
    make_deployment,
    make_settings,
    sent,
    unanswered,
)
from tests.sweep import sweep

SETTINGS = make_settings(2, 3)


def make_parties(opener, **others) -> Parties:
    return Parties(make_deployment(SETTINGS, opener=opener), **others)


class Spoilt:
    """A transport that loses what comes back as often as it is told."""

    def __init__(self, transport, *, times):
        self.transport, self.times = transport, times

    def exchange(self, message):
        found = self.transport.exchange(message)
        if self.times:
            self.times -= 1
            return ()
        return found


def test_client_asks_and_reports(opener):
    parties = make_parties(opener)
    client, rng = parties.join(), np.random.default_rng(0)
    contexts = draw_contexts(rng, SETTINGS)
    assert 0 <= client.recommend(contexts) < 3
    client.report(contexts[0], 0.5)
    assert parties.server.state.samples == 1
    assert unanswered(client.user) == []


def test_report_without_a_receipt_is_sent_again_and_counts_once(opener):
    parties = make_parties(opener)
    inner = parties.join()
    client = Client(inner.user, transport=Spoilt(inner._transport, times=2))
    for _ in range(2):
        with pytest.raises(RunFailed, match="it gave no answer"):
            client.report(np.array([0.1, 0.2]), 0.5)
    assert len(client.user.state.outbox) == 2
    assert client.flush() == 0
    assert parties.server.state.samples == 2
    assert client.flush() == 0  # there is nothing to send
    assert parties.server.state.samples == 2


def test_round_that_failed_leaves_nothing_open(opener):
    parties = make_parties(opener)
    inner = parties.join()
    client = Client(inner.user, transport=Spoilt(inner._transport, times=1), colours=inner._colours)
    contexts = draw_contexts(np.random.default_rng(1), SETTINGS)
    with pytest.raises(RunFailed, match="it gave no answer"):
        client.recommend(contexts)
    assert unanswered(client.user) == []
    assert 0 <= client.recommend(contexts) < 3


def test_refused_report_leaves_the_outbox_and_says_why():
    client = Parties(make_deployment(make_settings(2, 3, horizon=1))).join()
    client.report(np.array([0.1, 0.2]), 0.5)
    with pytest.raises(RunFailed, match="the horizon of 1 reports is reached"):
        client.report(np.array([0.1, 0.2]), 0.5)
    assert unanswered(client.user) == []


def test_messages_for_what_is_not_open_change_nothing(opener):
    user = make_parties(opener).join().user
    for message in (Receipt(name=bytes(16)), Refusal(name=bytes(16), reason="no")):
        assert user.handle(message).changes == ()


# -- effects


def test_receipt_comes_with_the_change_that_stores_the_report():
    world = World(make_deployment(SETTINGS, opener="authority"))
    member = world.users[0]
    report = sent(member.user.report(np.array([0.1, 0.2]), 0.5))
    effects = world.server.handle(report, sender=member.id, now=0.0)
    assert [type(change) for change in effects.changes] == [Stored]
    assert [type(each.message) for each in effects.replies] == [Receipt]
    again = world.server.handle(report, sender=member.id, now=0.0)
    assert again.changes == ()
    assert [type(each.message) for each in again.replies] == [Receipt]


# -- time


def test_opener_that_is_silent_is_asked_anew_after_a_while(opener):
    world = World(make_deployment(SETTINGS, opener=opener))
    world.rules.append(lose("CompareTask", subject="ask"))
    contexts = draw_contexts(np.random.default_rng(2), SETTINGS)
    name = world.ask(world.users[0], contexts)
    world.settle()
    assert not world.idle
    world.now += PATIENCE - 1.0
    world.settle()
    assert name not in world.users[0].arms
    world.now += 1.0
    world.settle()
    assert world.users[0].arms[name] == world.best(contexts)
    assert world.status().abandoned == 1
    assert "silent" in world.server.last_trouble


def test_offer_that_was_lost_is_made_again_after_a_while(opener):
    world = World(make_deployment(SETTINGS, opener=opener))
    world.rules.append(lose("Offer"))
    contexts = draw_contexts(np.random.default_rng(3), SETTINGS)
    name = world.ask(world.users[0], contexts)
    world.settle()
    assert name not in world.users[0].arms
    world.now += PATIENCE
    world.settle()
    assert world.users[0].arms[name] == world.best(contexts)


def test_opener_in_another_session_is_offered_a_new_one(opener):
    """An old offer that comes late puts the opener into a session that the server has left."""
    world = World(make_deployment(SETTINGS, opener=opener))
    late: list = []
    world.rules.append(hold("Offer", late))
    contexts = draw_contexts(np.random.default_rng(4), SETTINGS)
    name = world.ask(world.users[0], contexts)
    world.settle()
    world.now += PATIENCE
    world.settle()
    assert world.users[0].arms[name] == world.best(contexts)
    world.flight += late
    world.settle()
    assert world.recommend(world.users[0], contexts) == world.best(contexts)
    assert "another garbling session" in world.server.last_trouble


# -- the seed of the simulator


def play(seed) -> list:
    settings = make_settings(2, 3, growth=0.2)
    bandit = EncryptedBandit(settings, deployment=make_deployment(settings), seed=seed)
    rng = np.random.default_rng(5)
    for _ in range(12):
        contexts = draw_contexts(rng, settings)
        bandit.update(contexts[bandit.select(contexts)], 0.3)
    learned, reader = bandit.server.state.learned, bandit.parties.authority.make_opener()
    places = bandit.deployment.plan.inner(1).model_places.places
    return [int(each) for each in reader.decrypt(learned.model, places=places)]


def test_seed_fixes_the_noise_of_the_simulator():
    assert play(1) == play(1)
    assert play(1) != play(2)
    assert play(None) != play(None)


def test_encryption_is_never_seeded():
    deployment = make_deployment(SETTINGS, engine="ckks")
    with pytest.raises(InvalidInput, match="never seeded"):
        EncryptedBandit(SETTINGS, deployment=deployment, seed=1)


@pytest.mark.parametrize(("seed", "told"), [(-1, "at least 0, got -1"), (1.5, "a whole number")])
def test_seed_is_a_whole_number_from_0_on(seed, told):
    with pytest.raises(InvalidInput, match=f"seed must be {told}"):
        EncryptedBandit(SETTINGS, deployment=make_deployment(SETTINGS), seed=seed)


# -- past the horizon


@pytest.mark.parametrize("name", ["helba", "helba-sqrt", "helba-paper", "oful", "ldp", "uniform"])
def test_policy_warns_once_past_its_horizon_and_goes_on(name):
    settings = make_settings(2, 3, horizon=4, growth=0.1)
    policy, rng = make_policy(name, settings=settings), np.random.default_rng(6)

    def play(rounds):
        for _ in range(rounds):
            contexts = draw_contexts(rng, settings)
            policy.update(contexts[policy.select(contexts)], 0.3)

    play(4)
    with pytest.warns(HorizonWarning, match=r"bound; policy.extend\(horizon=8\)") as caught:
        play(3)
    assert len(caught) == 1
    policy.extend(20)
    assert policy.settings.horizon == 20
    play(13)
    with pytest.raises(InvalidInput, match="horizon"):
        policy.extend(20)


def test_encrypted_bandit_goes_on_with_what_it_learned(opener):
    settings = make_settings(2, 3, horizon=10, growth=0.2)
    bandit = EncryptedBandit(settings, deployment=make_deployment(settings, opener=opener))
    twin, rng = GridTwin(bandit.deployment.plan), np.random.default_rng(7)

    def play(rounds):
        for _ in range(rounds):
            contexts = draw_contexts(rng, settings)
            arm = bandit.select(contexts)
            assert not twin.decide(contexts, arm=arm).missed
            report = draw_report(rng, settings)
            before = bandit.updates
            bandit.update(*report)
            twin.learn(*report)
            if bandit.updates > before:
                twin.follow(bandit.server.state.adopted)

    play(10)
    spent, updates = bandit.ledger.total(), bandit.updates
    assert bandit.regret_bound() is None  # of the public schedule
    bandit.extend(40)
    assert bandit.settings.horizon == bandit.deployment.settings.horizon == 40
    twin.plan = bandit.deployment.plan
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        play(30)
    assert bandit.server.state.samples == 40
    assert bandit.updates > updates
    assert bandit.ledger.total() > spent
    assert bandit.regret_bound() is None


def test_encrypted_bandit_that_reached_its_horizon_warns_and_names_the_way_on(opener):
    settings = make_settings(2, 3, horizon=2)
    bandit = EncryptedBandit(settings, deployment=make_deployment(settings, opener=opener))
    rng = np.random.default_rng(8)
    contexts = draw_contexts(rng, settings)
    for _ in range(2):
        bandit.update(contexts[bandit.select(contexts)], 0.1)
    with pytest.warns(HorizonWarning, match=r"refused; policy.extend\(horizon=4\)"):
        arm = bandit.select(contexts)
    with pytest.raises(RunFailed, match="extend it to go on"):
        bandit.update(contexts[arm], 0.1)
    bandit.extend(4)
    bandit.update(contexts[arm], 0.1)
    assert bandit.server.state.samples == 3


def test_refused_extension_changes_nothing(opener):
    settings = make_settings(2, 3, horizon=4)
    bandit = EncryptedBandit(settings, deployment=make_deployment(settings, opener=opener))
    deployment = bandit.deployment
    with pytest.raises(InvalidInput, match="at most 1024"):
        bandit.extend(10**9)
    assert bandit.settings.horizon == 4
    assert bandit.deployment is deployment
    bandit.extend(8)
    assert bandit.settings.horizon == bandit.deployment.settings.horizon == 8


def test_horizon_may_become_256_times_that_of_the_scales():
    deployment = make_deployment(SETTINGS)
    horizon = SETTINGS.horizon
    for longer in (2 * horizon, 256 * horizon):
        deployment = deployment.extended(longer)
        assert deployment.settings.horizon == longer
        first = make_deployment(SETTINGS).plan
        assert deployment.plan.design_scale == first.design_scale
        assert deployment.plan.response_scale == first.response_scale
    with pytest.raises(InvalidInput, match=f"at most {256 * horizon}"):
        deployment.extended(256 * horizon + 1)


@pytest.mark.slow
def test_bandit_that_was_extended_far_plays_on_as_its_twin(opener):
    settings = make_settings(2, 3, horizon=8, growth=0.2)
    bandit = EncryptedBandit(settings, deployment=make_deployment(settings, opener=opener))
    bandit.extend(256 * 8)
    twin, rng = GridTwin(bandit.deployment.plan), np.random.default_rng(9)
    for _ in range(sweep(300, long=256 * 8)):
        contexts = draw_contexts(rng, settings)
        arm = bandit.select(contexts)
        assert not twin.decide(contexts, arm=arm).missed
        report, before = draw_report(rng, settings), bandit.updates
        bandit.update(*report)
        twin.learn(*report)
        if bandit.updates > before:
            twin.follow(bandit.server.state.adopted)
    assert bandit.updates > 10
    assert bandit.server.state.failure < 2.0**-20
    assert bandit.server.state.rejected == 0


@pytest.mark.parametrize("far", [2, 256])
def test_bandit_with_many_unseen_reports_can_be_extended(opener, far):
    """With the longer horizon an update is due at fewer reports than wait for one."""
    settings = make_settings(2, 2, horizon=100, ridge=1e-3, growth=5.0)
    bandit = EncryptedBandit(settings, deployment=make_deployment(settings, opener=opener))
    rng = np.random.default_rng(10)
    for _ in range(22):
        bandit.update(*draw_report(rng, settings))
    due = bandit.deployment.extended(100 * far).plan.most_unseen
    assert bandit.server.state.unseen > due or far == 2
    bandit.extend(100 * far)
    bandit.update(*draw_report(rng, settings))
    assert bandit.server.state.samples == 23
    assert bandit.server.state.unseen <= due


def test_extension_that_fails_on_the_way_changes_nothing(opener, monkeypatch):
    settings = make_settings(2, 3, horizon=4)
    bandit = EncryptedBandit(settings, deployment=make_deployment(settings, opener=opener))
    contexts = draw_contexts(np.random.default_rng(11), settings)

    def fail(*_):
        raise RunFailed("no")

    with monkeypatch.context() as patch:
        patch.setattr(Server, "add_helper", fail)
        with pytest.raises(RunFailed, match="no"):
            bandit.extend(8)
    assert bandit.settings.horizon == bandit.deployment.settings.horizon == 4
    bandit.update(contexts[bandit.select(contexts)], 0.1)
    assert bandit.server.state.samples == 1


def test_opener_counts_on_when_the_horizon_is_extended():
    settings = make_settings(2, 3, horizon=4)
    deployment = make_deployment(settings, opener="authority")
    bandit, rng = EncryptedBandit(settings, deployment=deployment), np.random.default_rng(12)
    for _ in range(3):
        bandit.update(*draw_report(rng, settings))
    before = copy.deepcopy(opener_state(bandit))
    assert before.bits_returned > 0
    assert before.verdicts
    bandit.extend(8)
    assert opener_state(bandit) == before
    bandit.update(*draw_report(rng, settings))
    assert opener_state(bandit).bits_returned > before.bits_returned


def opener_state(bandit):
    return bandit.parties.stations[AUTHORITY].opener.state


def test_rows_that_wait_outlive_an_extension():
    """Their boxes are bound to the deployment as it was first."""
    settings = make_settings(2, 3, horizon=4)
    world = World(make_deployment(settings, opener="authority"))
    member = world.users[0]
    world.report(member, [0.3, 0.3], 0.5)
    while world.flight:  # the report, and its receipt
        world.deliver(world.flight.pop(0))
    assert len(world.server.state.rows) == 1
    longer = world.deployment.extended(8)
    assert longer.digest != world.deployment.digest
    assert longer.extended(16).origin == longer.origin == world.deployment.digest
    world.extend(longer)
    world.settle()
    assert world.status().dropped_reports == 0
    world.check_sums()


# -- refusals that are not for good


def test_report_that_overtakes_its_admission_is_kept_and_counts_once(opener):
    world = World(make_deployment(SETTINGS, opener=opener))
    member = world.join(enrolled=False)
    name = world.report(member, [0.3, 0.3], 0.5)
    asked = world.ask(member, [[0.1, 0.2]])
    world.settle()
    refusal = member.inbox[0]
    assert (refusal.name, refusal.later) == (name, True)
    assert set(member.user.state.outbox) == {name}
    assert set(member.user.state.rounds) == {asked}
    world.enrol(member)
    for message in unanswered(member.user):
        world.post(member, message)
    world.settle()
    assert unanswered(member.user) == []
    assert member.arms[asked] == 0
    world.check_sums()


def test_client_says_that_a_report_waits_in_the_outbox(opener):
    parties = make_parties(opener)
    client = parties.join()
    members, parties.server.state.members = parties.server.state.members, {}
    with pytest.raises(RunFailed, match="has not stored a report yet: the user is not enrolled"):
        client.report(np.array([0.1, 0.2]), 0.5)
    assert client.flush() == 1
    parties.server.state.members = members
    parties.server._conversations._recipients = members
    assert client.flush() == 0
    assert parties.server.state.samples == 1


def test_client_is_not_confused_by_an_answer_that_comes_twice(opener):
    parties = make_parties(opener)
    inner = parties.join()
    contexts = draw_contexts(np.random.default_rng(13), SETTINGS)
    seen: list = []

    class Repeating:
        def exchange(self, envelope):
            found = inner._transport.exchange(envelope)
            seen.extend(found)
            return [*seen, *seen]

    client = Client(inner.user, transport=Repeating(), colours=inner._colours)
    for _ in range(2):
        assert 0 <= client.recommend(contexts) < 3
    assert len(seen) == 2
