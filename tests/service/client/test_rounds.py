"""Rounds over HTTP: the same arms as in one process, whatever gets lost on the way."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from helba.errors import HelbaError, InvalidInput, Refused, RunFailed, Unavailable
from helba.problems.toy import Toy
from helba.reference.protocol.bandit import ReferenceBandit
from helba.service.client import Client, Rejected, sweep
from tests.reference.protocol.parties import TOY, deployment_of
from tests.reference.protocol.talking import CUT_TOY
from tests.service.client.fake import Fake, serving

ARMS = [[1.0, 0.2], [-0.5, 0.6]]
ROUNDS = 12


@pytest.fixture
def fake() -> Iterator[Fake]:
    with serving(Fake()) as found:
        yield found


@pytest.fixture
def client(fake: Fake) -> Iterator[Client]:
    with fake.new_client() as found:
        yield found


def play(client: Client, *, rounds: int = ROUNDS) -> list[int]:
    arms = []
    for each in Toy(seed=0).rounds(rounds):
        advice = client.recommend(each.contexts)
        assert client.reward(advice.round, float(each.rewards[advice.arm]))
        arms.append(advice.arm)
    return arms


def samples(fake: Fake) -> int:
    return fake.server.samples + fake.server.status().held


@pytest.mark.parametrize("request_of", [TOY, CUT_TOY], ids=["whole", "cut"])
def test_client_plays_the_arms_of_all_parties_in_one_process(request_of: Any) -> None:
    deployment = deployment_of(request_of, scheme="simulate")
    bandit, expected = ReferenceBandit(deployment.settings, deployment=deployment), []
    for each in Toy(seed=0).rounds(ROUNDS):
        arm = bandit.select(each.contexts)
        bandit.update(each.contexts[arm], float(each.rewards[arm]))
        expected.append(arm)
    assert bandit.updates > 0
    with serving(Fake(request_of)) as fake, fake.new_client() as client:
        assert play(client) == expected
        assert fake.server.updates == bandit.updates
        assert fake.server.samples == ROUNDS
        assert not client.open_rounds()


@pytest.mark.parametrize("keys", ["own", "switched"])
def test_client_goes_on_under_a_rotated_key_that_the_authority_confirms(keys: str) -> None:
    with serving(Fake(replace(TOY, keys=keys))) as fake, fake.new_client() as client:
        waiting = client.recommend(ARMS)
        new = fake.rotate()
        played = client.recommend(ARMS)
        assert client.key == new
        assert client.reward(played.round, 0.5)
        assert client.reward(waiting.round, 0.5)
        assert samples(fake) == 2


def test_client_makes_a_report_anew_that_was_under_the_old_key(fake: Fake, client: Client) -> None:
    waiting = client.recommend(ARMS)
    fake.order("POST", "rewards", *["broken"])
    with pytest.raises(Unavailable):
        client.reward(waiting.round, 0.5)
    fake.rotate()
    assert client.flush().sent == 1
    assert samples(fake) == 1


def test_client_refuses_a_key_that_the_authority_does_not_name(
    fake: Fake, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = fake.key
    client.recommend(ARMS)
    fake.rotate()
    monkeypatch.setattr(type(fake), "key", before)
    with pytest.raises(Refused, match="the authority names"):
        client.recommend(ARMS)


def test_client_sends_the_bit_of_an_update_test_back(fake: Fake, client: Client) -> None:
    play(client, rounds=4)
    assert fake.seen["POST", "tests"] > 0


# -- what gets lost


@pytest.mark.parametrize("fault", ["busy", "slow", "cut", "lost"])
@pytest.mark.parametrize("route", ["terms", "rounds", "rewards", "tests"])
def test_client_sends_again_what_the_server_or_the_way_lost(
    fake: Fake, client: Client, route: str, fault: str
) -> None:
    fake.order("POST", route, fault, fault)
    advice = client.recommend(ARMS)
    client.reward(advice.round, 0.25)
    assert samples(fake) == 1
    assert not client.open_rounds()
    assert client.transport.retries >= 2 or route == "tests"


def test_reward_whose_receipt_is_lost_is_the_same_bytes_and_counts_once(
    fake: Fake, client: Client
) -> None:
    advice = client.recommend(ARMS)
    fake.order("POST", "rewards", "lost")
    assert not client.reward(advice.round, 0.25)
    first, second = fake.bodies["rewards"]
    assert first == second
    assert samples(fake) == 1


@pytest.mark.parametrize("fault", ["cut", "lost"])
def test_cut_round_survives_lost_shares(fault: str) -> None:
    with serving(Fake(CUT_TOY)) as fake, fake.new_client() as client:
        fake.order("POST", "tasks", fault)
        fake.order("POST", "rounds", fault)
        advice = client.recommend(ARMS)
        assert client.reward(advice.round, 0.25)
        assert len(fake.server.rounds) == 1


def test_client_asks_again_when_its_batch_is_over(
    fake: Fake, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake.server.notice()
    play(client, rounds=6)
    assert fake.server.terms.number > 1
    notices = iter([old])
    monkeypatch.setattr(
        fake.server, "notice", lambda real=fake.server.notice: next(notices, None) or real()
    )
    client.recommend(ARMS)
    assert fake.seen["POST", "rounds"] == 8


def test_client_gives_up_on_a_server_that_keeps_refusing(
    fake: Fake, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake.server.notice()
    play(client, rounds=6)
    monkeypatch.setattr(fake.server, "notice", lambda: old)
    with pytest.raises(RunFailed, match="is over"):
        client.recommend(ARMS)
    assert not client.open_rounds()


# -- what is refused


def test_refused_report_is_kept_aside_with_its_reason(fake: Fake, client: Client) -> None:
    advice = client.recommend(ARMS)
    fake.server.rounds.clear()
    with pytest.raises(Rejected, match="no round"):
        client.reward(advice.round, 0.25)
    assert list(client.refused()) == [advice.round]
    assert "no round" in client.refused()[advice.round]
    assert not client.open_rounds()


@pytest.mark.parametrize(
    "fault",
    ["proxy 400", "proxy 404", "proxy 409", "proxy 413", "proxy 415", "proxy 422", "portal"],
)
def test_report_that_a_proxy_refuses_stays_unsent(fake: Fake, client: Client, fault: str) -> None:
    advice = client.recommend(ARMS)
    fake.order("POST", "rewards", fault, fault)
    for send in (lambda: client.reward(advice.round, 0.25), client.flush):
        with pytest.raises(HelbaError):
            send()
        assert not client.refused()
    assert client.flush().sent == 1
    assert samples(fake) == 1


@pytest.mark.parametrize("status", [401, 403, 404, 415])
def test_report_that_is_not_at_fault_stays_unsent(fake: Fake, client: Client, status: int) -> None:
    advice = client.recommend(ARMS)
    fake.order("POST", "rewards", f"helba {status}")
    with pytest.raises(Rejected, match="ordered"):
        client.reward(advice.round, 0.25)
    assert not client.refused()
    assert client.flush().sent == 1


@pytest.mark.parametrize("status", [400, 409, 413, 422])
def test_report_that_helba_refuses_for_good_is_kept_aside_and_can_be_sent_again(
    fake: Fake, client: Client, status: int
) -> None:
    advice = client.recommend(ARMS)
    fake.order("POST", "rewards", *[f"helba {status}"] * 2)
    with pytest.raises(HelbaError, match="ordered"):
        client.reward(advice.round, 0.25)
    assert list(client.refused()) == [advice.round]
    assert client.flush().sent == 0
    assert client.flush(refused=True).refused == 1
    assert list(client.refused()) == [advice.round]
    assert client.flush(refused=True).sent == 1
    assert not client.refused()
    assert samples(fake) == 1


def test_round_whose_ask_a_proxy_refused_is_given_up_at_the_server_later(
    fake: Fake, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.order("POST", "rounds", "proxy 404")
    with pytest.raises(Rejected):
        client.recommend(ARMS)
    monkeypatch.setattr(sweep, "ANSWER_SECONDS", 0.0)
    rounds = [each.round for each in client._outbox.rounds()]
    fake.order("DELETE", rounds[0], "proxy 404")
    with pytest.raises(Rejected):
        client.flush()
    assert client.flush().given_up == 1


def test_reward_of_an_unknown_round_needs_its_context(client: Client) -> None:
    with pytest.raises(InvalidInput, match="open"):
        client.reward("00" * 16, 0.25)
    with pytest.raises(InvalidInput, match="hexadecimal"):
        client.reward("../../etc", 0.25)


def test_second_reward_of_a_round_is_refused(fake: Fake, client: Client) -> None:
    advice = client.recommend(ARMS)
    fake.order("POST", "rewards", "broken")
    with pytest.raises(Unavailable):
        client.reward(advice.round, 0.25)
    with pytest.raises(InvalidInput, match="first"):
        client.reward(advice.round, 0.75)
    assert client.reward(advice.round, 0.25)


def test_forgotten_round_is_gone_on_both_sides(fake: Fake, client: Client) -> None:
    advice = client.recommend(ARMS)
    assert client.forget(advice.round)
    assert not fake.server.rounds
    assert not client.open_rounds()
    assert not client.forget(advice.round)


def test_unknown_token_is_refused_and_loses_no_reward(fake: Fake, client: Client) -> None:
    advice = client.recommend(ARMS)
    kept = dict(fake.tokens)
    fake.tokens.clear()
    with pytest.raises(Rejected, match="token") as caught:
        client.reward(advice.round, 0.25)
    assert caught.value.status == 401
    fake.tokens.update(kept)
    assert client.flush().sent == 1
    assert samples(fake) == 1


def test_contexts_and_arm_do_not_show(client: Client) -> None:
    advice = client.recommend([[1.0, 0.2], [-0.5, 0.6182034157]])  # no clock or id shows this
    (kept,) = client.open_rounds()
    shown = f"{advice!r} {kept!r} {client!r} {client.transport!r}"
    assert "helba_u_" not in shown
    assert "0.618203" not in shown
    assert "arm=" not in shown


def test_clients_help_is_limited_to_what_is_asked(fake: Fake) -> None:
    with fake.new_client(helps=False) as client:
        for each in Toy(seed=0).rounds(6):
            advice = client.recommend(each.contexts)
            client.reward(advice.round, float(each.rewards[advice.arm]))
            if client.help_wanted:
                break
        assert client.help_wanted
        assert client.help(most=0) == 0
        assert client.help(most=1) == 1
        assert client.help() > 0
        assert fake.server.updates == 1
        assert np.isfinite(fake.server.terms.residual)


@pytest.mark.ckks
@pytest.mark.slow
@pytest.mark.parametrize("request_of", [TOY, CUT_TOY], ids=["whole", "cut"])
def test_client_plays_on_ciphertexts(request_of: Any) -> None:
    with serving(Fake(request_of, scheme="ckks")) as fake, fake.new_client() as client:
        play(client, rounds=3)
        assert fake.server.samples == 3
        assert fake.server.updates > 0


class Forgetful(OrderedDict[bytes, bytes]):
    """Answers that are gone as soon as they were sent."""

    def __setitem__(self, round: bytes, answer: bytes) -> None:
        pass


def test_round_that_the_server_refuses_does_not_stay_open_there(fake: Fake, client: Client) -> None:
    fake.server.answers = Forgetful()
    fake.order("POST", "rounds", "lost")  # answered, and nobody got it
    advice = client.recommend(ARMS)
    assert [round.hex() for round in fake.server.rounds] == [advice.round]
    assert client.reward(advice.round, 0.5)


def test_round_that_meets_a_rotation_is_asked_again_under_the_new_key(
    fake: Fake, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_to = client._dialogue.answer_to

    def rotate_first(ask: bytes) -> bytes:
        monkeypatch.setattr(client._dialogue, "answer_to", answer_to)
        fake.rotate()
        return answer_to(ask)

    monkeypatch.setattr(client._dialogue, "answer_to", rotate_first)
    advice = client.recommend(ARMS)
    assert client.key == fake.key
    assert client.reward(advice.round, 0.5)
