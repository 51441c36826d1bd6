"""A tenant serves rounds and rewards as a server in one process does, and stores what it says."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from helba.errors import DamagedData, Refused, Unavailable
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.bandit import ReferenceBandit
from helba.reference.protocol.wire.messages import Answer, Ask, Report, TaskReply
from helba.service.failure import Forbidden, TooMany
from helba.service.settings import Limits
from helba.service.store import Store
from helba.service.tenant import Tenant
from tests.reference.protocol.parties import authority_of
from tests.service.tenants import (
    CUT_TOY,
    MILD,
    TOY,
    open_house,
    require_statistics,
    toy_rounds,
    wait_until,
)
from tests.sweep import in_soak, sweep

ARMS = [[0.9, 0.1], [-0.3, 0.6]]
ENGINES = ["simulate", pytest.param("ckks", marks=pytest.mark.ckks)]


@pytest.mark.parametrize(
    ("request_", "scheme"),
    [
        pytest.param(TOY, "simulate", id="whole-simulate"),
        pytest.param(CUT_TOY, "simulate", id="cut-simulate"),
        pytest.param(CUT_TOY, "ckks", marks=pytest.mark.ckks, id="cut-ckks"),
        in_soak(TOY, "ckks", marks=pytest.mark.ckks, id="whole-ckks"),
    ],
)
def test_tenant_decides_as_the_parties_in_one_process_do(
    tmp_path: Path, store_url: str, request_: PlanRequest, scheme: str
) -> None:
    authority = authority_of(request_, scheme=scheme)
    bandit = ReferenceBandit(authority.deployment.settings, authority=authority)
    rounds = toy_rounds(sweep(6, long=12))
    wanted = []
    for each in rounds:
        wanted.append(bandit.select(each.contexts))
        bandit.update(each.contexts[wanted[-1]], each.rewards[wanted[-1]])
    with open_house(tmp_path / "s", request=request_, scheme=scheme, url=store_url) as house:
        guest = house.enrol("a")
        assert guest.play(rounds) == wanted
        assert house.tenant.report()["updates"] == bandit.updates > 0
        assert house.tenant.round_seconds().within[-1] == len(rounds)
        require_statistics(house, [guest])


@pytest.mark.parametrize("scheme", ["simulate", in_soak("ckks", marks=pytest.mark.ckks)])
def test_tenant_goes_on_where_it_stopped(tmp_path: Path, store_url: str, scheme: str) -> None:
    with open_house(tmp_path / "s", request=CUT_TOY, scheme=scheme, url=store_url) as house:
        guest = house.enrol("a")
        guest.play(toy_rounds(4))
        before = house.tenant.report()
        found = guest.choose(ARMS)
        house.close()
        house.open()
        assert guest.earn(found.round, ARMS[found.arm], 0.25).counted
        after = house.tenant.report()
        assert (after["updates"], after["batch"]) == (before["updates"], before["batch"])
        assert after["round"] == before["round"] + 1
        require_statistics(house, [guest])


def test_evaluator_that_is_killed_costs_no_acknowledged_reward(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        for turn in range(sweep(2, long=3)):
            guest.play(toy_rounds(3, seed=turn))
            os.kill(house.tenant.processes()["evaluator"], signal.SIGKILL)
            wait_until(lambda: house.tenant.state != "serving")
            wait_until(lambda: house.tenant.state == "serving")
        guest.play(toy_rounds(2, seed=9))
        require_statistics(house, [guest])


def test_reader_that_is_killed_is_replaced_within_the_request(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        wait_until(lambda: "reader" in house.tenant.processes())
        before = house.tenant.processes()["reader"]
        os.kill(before, signal.SIGKILL)
        guest.play(toy_rounds(2))
        assert house.tenant.processes()["reader"] != before


def test_answer_that_was_lost_with_its_process_is_given_again(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        ask = guest.make_ask(ARMS)
        guest.say(ask, Ask, "ask")
        house.close()
        house.open()
        (again,) = guest.say(ask, Ask, "ask")
        found = guest.user.read(again)
        assert guest.earn(found.round, ARMS[found.arm], 0.5).counted
        assert house.tenant.report()["round"] == 1


def test_report_that_comes_again_is_acknowledged_and_not_counted(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        found = guest.choose(ARMS)
        report = guest.report(found.round, ARMS[0], 0.5)
        for counted in (True, False):
            (data,) = guest.say(report, Report, "reward")
            assert guest.codec.decode(data).counted is counted
        house.close()
        house.open()
        (data,) = guest.say(report, Report, "reward")
        assert guest.codec.decode(data).counted is False
        require_statistics(house, [guest])


def test_users_who_ask_at_once_are_all_answered(tmp_path: Path, store_url: str) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guests = [house.enrol(str(number)) for number in range(4)]
        asks = [guest.make_ask(ARMS) for guest in guests]
        with ThreadPoolExecutor(4) as pool:
            sent = list(pool.map(lambda g, a: g.say(a, Ask, "ask"), guests, asks))
            found = [guest.user.read(data) for guest, (data,) in zip(guests, sent, strict=True)]
            assert len({each.arm for each in found}) == 1
            receipts = pool.map(lambda g, f: g.earn(f.round, ARMS[f.arm], 0.5), guests, found)
            assert all(receipt.counted for receipt in receipts)
        require_statistics(house, guests)


def test_update_is_helped_by_one_user_at_a_time(tmp_path: Path, file_url: str) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
        first, second = house.enrol("a"), house.enrol("b")
        found = first.choose(ARMS)
        first.earn(found.round, ARMS[found.arm], 0.5)
        found = first.choose(ARMS)
        first.earn(found.round, ARMS[found.arm], 0.5)
        assert house.tenant.help_wanted
        (task,) = house.run(house.tenant.tasks(first.user.id))
        assert not house.tenant.help_wanted
        assert house.run(house.tenant.tasks(second.user.id)) == []
        tasks = first.say(first.user.help(task), TaskReply, "task_reply")
        while tasks:
            tasks = first.say(first.user.help(tasks[0]), TaskReply, "task_reply")
        assert house.tenant.batch == 1


def test_message_in_another_users_name_is_forbidden(tmp_path: Path, file_url: str) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
        alice, eve = house.enrol("a"), house.enrol("e")
        ask = alice.make_ask(ARMS)
        with pytest.raises(Forbidden, match="another user"):
            eve.say(ask, Ask, "ask")
        assert house.tenant.report()["round"] == 0


def test_round_of_somebody_else_gets_no_reward(tmp_path: Path, store_url: str) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        alice, eve = house.enrol("a"), house.enrol("e")
        found = alice.choose(ARMS)
        report = eve.user.report(found.round, context=ARMS[0], reward=1.0)
        with pytest.raises(Refused, match="somebody else"):
            eve.say(report, Report, "reward")
        assert alice.earn(found.round, ARMS[0], 0.1).counted
        require_statistics(house, [alice])


def test_damaged_ciphertext_changes_nothing(tmp_path: Path, file_url: str) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
        guest = house.enrol("a")
        ask = bytearray(guest.make_ask(ARMS))
        ask[len(ask) // 2] ^= 1
        saved = house.store.load("main")
        with pytest.raises(DamagedData):
            guest.say(bytes(ask), Ask, "ask")
        assert house.store.load("main") == saved


def test_user_with_too_many_open_rounds_reports_or_gives_up_first(
    tmp_path: Path, store_url: str
) -> None:
    limits = Limits(most_open_rounds=2)
    with open_house(tmp_path / "s", url=store_url, limits=limits) as house:
        guest = house.enrol("a")
        found = [guest.choose(ARMS) for _ in range(2)]
        with pytest.raises(TooMany, match="2 rounds wait"):
            guest.choose(ARMS)
        house.run(house.tenant.drop_round(guest.user.id, found[0].round))
        guest.choose(ARMS)
        report = guest.user.report(found[0].round, context=ARMS[0], reward=0.5)
        with pytest.raises(Refused, match="given up"):
            guest.say(report, Report, "reward")
        (one, two) = house.run(house.tenant.open_rounds(guest.user.id))
        assert found[1].round in (one.round, two.round)


def test_revoked_user_is_unknown_and_its_token_gone(tmp_path: Path, store_url: str) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        (token,) = house.tenant.members()["enrolled"].values()
        assert house.tenant.user_of(token) == guest.user.id
        house.run(house.tenant.revoke(guest.user.id))
        assert house.tenant.user_of(token) is None
        assert house.tenant.members()["revoked"] == [guest.user.id.hex()]
        house.close()
        house.open()
        assert house.tenant.user_of(token) is None


@pytest.mark.parametrize("scheme", ENGINES)
def test_rotation_keeps_the_model_and_all_rewards(
    tmp_path: Path, store_url: str, scheme: str
) -> None:
    with open_house(tmp_path / "s", request=CUT_TOY, scheme=scheme, url=store_url) as house:
        guest = house.enrol("a")
        guest.play(toy_rounds(4))
        updates = house.tenant.report()["updates"]
        house.run(house.tenant.rotate(house.authority.rotate()))
        guest.user.adopt(house.authority.public_key_bytes())
        assert house.tenant.report()["updates"] == updates
        guest.play(toy_rounds(3, seed=2))
        house.close()
        house.open()
        guest.play(toy_rounds(2, seed=3))
        require_statistics(house, [guest])
        assert not (house.folder / "rotation.key").exists()


def test_store_of_another_deployment_is_refused(tmp_path: Path, store_url: str) -> None:
    with open_house(tmp_path / "s", url=store_url):
        pass
    other = authority_of(MILD, scheme="simulate")
    from helba.service.protocol.serverfiles import write_server_files

    write_server_files(other, tmp_path / "other")
    with Store(store_url) as store:
        tenant = Tenant("main", tmp_path / "other", store=store, allow_insecure=True)
        tenant.start()
        wait_until(lambda: tenant.state == "failed")
        assert "log" in tenant.report()["last_error"]
        with pytest.raises(Unavailable):
            tenant._loop.submit("tasks", bytes(16))
        tenant.stop()


def test_users_of_a_shared_key_are_not_served(tmp_path: Path, file_url: str) -> None:
    from dataclasses import replace

    from helba.service.protocol.serverfiles import write_server_files

    write_server_files(authority_of(replace(TOY, keys="shared"), scheme="simulate"), tmp_path / "s")
    with Store(file_url) as store, pytest.raises(Refused, match="share the secret key"):
        Tenant("main", tmp_path / "s", store=store, allow_insecure=True)


def test_answer_is_not_lost_with_its_connection(tmp_path: Path, store_url: str) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        ask = guest.make_ask(ARMS)
        first = guest.say(ask, Ask, "ask")
        assert guest.say(ask, Ask, "ask") == first
        assert isinstance(guest.codec.decode(first[0]), Answer)
        assert house.tenant.report()["round"] == 1
