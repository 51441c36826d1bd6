"""Every profile, bonus and way to get levels back plays as its twin, through the same messages."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helba.bandits.helba import HelbaTwin
from helba.problems.toy import Toy
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.authority import Authority
from helba.reference.protocol.bandit import ReferenceBandit
from helba.reference.protocol.serving.server import Server
from helba.reference.protocol.user import User
from helba.reference.protocol.wire.messages import Task
from helba.reference.twin.ciphertext import CiphertextTwin
from helba.reference.twin.paper import PaperTwin
from helba.service.protocol.snapshot import restore_server, save_server
from tests.reference.protocol.parties import TOY, authority_of
from tests.reference.protocol.talking import CUT_TOY
from tests.sweep import sweep

SQRT = replace(TOY, bonus="sqrt", horizon=20)
PAPER = replace(TOY, profile="paper", horizon=20)
PAPER_SQRT = replace(PAPER, bonus="sqrt")
PUBLIC = replace(TOY, schedule="public", horizon=20)
BOOTSTRAP = replace(TOY, refresh="bootstrap", horizon=12)
UNAIDED = replace(TOY, refresh="none", horizon=6)

REQUESTS = {
    "cut": CUT_TOY,
    "sqrt": SQRT,
    "paper": PAPER,
    "paper-sqrt": PAPER_SQRT,
    "public": PUBLIC,
    "bootstrap": BOOTSTRAP,
    "none": UNAIDED,
}


def twin_of(authority: Authority) -> HelbaTwin:
    deployment = authority.deployment
    if deployment.settings.profile == "paper":
        return PaperTwin(deployment.settings)
    return CiphertextTwin(deployment.settings, accuracy=deployment.accuracy)


def require_agreement(bandit: ReferenceBandit, twin: HelbaTwin, *, rounds: int) -> None:
    """Same arms wherever exact scores are further apart than all errors; updates succeed."""
    certain = 0
    for each in Toy(seed=3).rounds(rounds):
        arm, expected = bandit.select(each.contexts), twin.select(each.contexts)
        decision = twin.decision
        assert decision is not None
        if decision.gap > decision.tolerance + 0.05:  # flooding and noise, in units of the score
            certain += 1
            assert arm == expected
        x, reward = each.contexts[arm], float(each.rewards[arm])
        before = bandit.updates
        bandit.update(x, reward)
        updated = bandit.updates > before
        twin.follow(x, reward, terms=bandit.terms if updated else None)
    status = bandit.server.status()
    assert status.rejected == 0, status.last_error
    assert bandit.updates >= rounds // 2 - 1
    assert certain >= rounds // 2


@pytest.mark.parametrize("name", REQUESTS)
def test_profile_plays_as_its_twin(name: str) -> None:
    request = REQUESTS[name]
    authority = authority_of(request, scheme="simulate")
    bandit = ReferenceBandit(request.settings(), authority=authority)
    rounds = sweep(12, long=40) if name == "cut" else min(12, request.horizon)
    require_agreement(bandit, twin_of(authority), rounds=rounds)


@pytest.mark.ckks
@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(REQUESTS.keys() - {"bootstrap"}))
def test_profile_plays_as_its_twin_on_ckks(name: str) -> None:
    request = REQUESTS[name]
    authority = authority_of(request, scheme="ckks")
    bandit = ReferenceBandit(request.settings(), authority=authority)
    rounds = sweep(4, long=5) if name == "cut" else 4
    require_agreement(bandit, twin_of(authority), rounds=rounds)


@pytest.mark.ckks
@pytest.mark.slow
def test_bootstrapped_models_stay_right_over_many_updates() -> None:
    """Copies of a matrix must stay equal: differences would grow tenfold with every update."""
    authority = authority_of(BOOTSTRAP, scheme="ckks", ring_dim=1 << 11)
    bandit = ReferenceBandit(BOOTSTRAP.settings(), authority=authority)
    require_agreement(bandit, twin_of(authority), rounds=sweep(6, long=12))


def test_rounds_need_no_help_where_the_server_bootstraps() -> None:
    authority = authority_of(BOOTSTRAP, scheme="simulate")
    user = authority.make_user()
    server = authority.make_server()
    for each in Toy(seed=1).rounds(4):
        (answer,) = server.receive(user.ask(each.contexts, terms=user.read_notice(server.notice())))
        played = user.read(answer)
        if played.reply is not None:
            server.receive(played.reply)
        x, reward = each.contexts[played.arm], float(each.rewards[played.arm])
        server.receive(user.report(played.round, context=x, reward=reward))
        assert server.tasks(user.id) == ()
    assert server.updates >= 2


@pytest.mark.parametrize("request_", [SQRT, PAPER_SQRT], ids=["sqrt", "paper-sqrt"])
def test_round_that_waits_for_refreshes_can_be_saved(request_: PlanRequest) -> None:
    """Rounds of these profiles stop in the middle: a restored server goes on from there."""
    authority = authority_of(request_, scheme="simulate")
    user = authority.make_user()
    server = authority.make_server()
    engine, deployment = server._engine, authority.deployment
    contexts = [[0.9, -0.3], [-0.5, 0.6]]
    asked = user.ask(contexts, terms=user.read_notice(server.notice()))
    assert server.receive(asked) == ()  # it needs help first
    replies: tuple[bytes, ...] = ()
    restored = 0
    while not replies:
        (task,) = server.tasks(user.id)
        share = user.help(task)
        server = restore_server(
            save_server(server), deployment=deployment, engine=engine, directory=server.directory
        )
        restored += 1
        replies = server.receive(share)
    assert restored >= 3
    twin = twin_of(authority)
    assert user.read(replies[0]).arm == twin.select(contexts)  # type: ignore[arg-type]


def test_update_test_of_the_paper_opens_one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a mask: what the user sees and returns is not the number that the server reads."""
    authority = authority_of(replace(PAPER, growth=5.0), scheme="simulate")
    user = authority.make_user()
    server = authority.make_server()
    opened: list[float] = []
    engine = server._engine
    finish = engine.finish_opening

    def watch(reply, pending):  # type: ignore[no-untyped-def]
        values = finish(reply, pending)
        opened.extend(values)
        return values

    monkeypatch.setattr(engine, "finish_opening", watch)
    kinds = _play(server, user, rounds=3)
    assert "opening" in kinds
    assert all(-0.1 <= value <= 1.1 for value in opened)
    assert len(opened) == kinds.count("opening")


def _play(server: Server, user: User, *, rounds: int) -> list[str]:
    """Play with all help that is asked for; the kinds of the tasks."""
    kinds = []

    def help_all() -> tuple[bytes, ...]:
        replies: tuple[bytes, ...] = ()
        while not replies and (tasks := server.tasks(user.id)):
            kinds.append(user._decode(tasks[0], Task).work)
            replies = server.receive(user.help(tasks[0]))
        return replies

    for each in Toy(seed=2).rounds(rounds):
        asked = user.ask(each.contexts, terms=user.read_notice(server.notice()))
        replies = server.receive(asked) or help_all()
        played = user.read(replies[0])
        x, reward = each.contexts[played.arm], float(each.rewards[played.arm])
        server.receive(user.report(played.round, context=x, reward=reward))
        help_all()
    return kinds
