"""What breaks, or is meant to, costs a tenant no reward and nobody else their turn."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from helba.errors import Refused, RunFailed, Unavailable
from helba.protocol.messages import Ask, Report, TaskReply
from helba.protocol.vault import write_private
from helba.service import serving
from helba.service.failure import TooMany
from helba.service.settings import Limits
from helba.service.store import Store
from helba.service.tenant import Tenant
from tests.service.tenants import (
    open_house,
    require_statistics,
    toy_rounds,
    wait_for_another_chamber,
    wait_until,
)

ARMS = [[0.9, 0.1], [-0.3, 0.6]]


def test_user_who_looks_at_a_task_and_does_nothing_does_not_stop_updates(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        idle, second = house.enrol("a"), house.enrol("b")
        monkeypatch.setattr(house.tenant._loop._serving.help, "_seconds", 0.3)
        while not house.tenant.help_wanted:
            found = second.choose(ARMS)
            second.earn(found.round, ARMS[found.arm], 0.5)
        assert house.run(house.tenant.tasks(idle.user.id))

        def helps() -> bool:
            house.run(house.tenant.tasks(idle.user.id))  # which extends nothing
            return bool(second.help())

        wait_until(helps)
        assert house.tenant.batch >= 1


def test_fold_that_breaks_off_is_not_stored_in_part(tmp_path: Path, store_url: str) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        found = guest.choose(ARMS)
        report = guest.report(found.round, ARMS[found.arm], 0.5)
        serving, before = house.tenant._loop._serving, house.tenant.processes()["chamber"]
        call = serving._call

        def break_off(name: str, *arguments: object) -> object:
            outcome = call(name, *arguments)
            if name == "fold":
                serving._call = call
                raise RunFailed("out of memory after the sums")
            return outcome

        serving._call = break_off
        with pytest.raises(Unavailable):
            guest.say(report, Report, "reward")
        wait_for_another_chamber(house, before)
        (data,) = guest.say(report, Report, "reward")
        assert guest.codec.decode(data).counted
        require_statistics(house, [guest])


def test_second_server_at_one_store_cannot_overwrite_the_first(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        guest.play(toy_rounds(1))
        with Store(store_url) as store:
            other = Tenant("main", house.folder, store=store, allow_insecure=True)
            other.start()
            wait_until(lambda: other.state == "serving")
            first = house.tenant
            try:
                for tenant in (first, other, first):  # the one that did not write last starts anew
                    house.tenant, before = tenant, tenant.processes()["chamber"]
                    with pytest.raises(Unavailable):
                        guest.choose(ARMS)
                    wait_for_another_chamber(house, before)
                    guest.play(toy_rounds(1, seed=1))
            finally:
                house.tenant = first
                other.stop()
        require_statistics(house, [guest])


def test_rotation_that_cannot_be_written_is_ended_by_the_next_start(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        guest.play(toy_rounds(2))
        rotation = house.authority.rotate()
        evaluation = house.folder / "evaluation.key"
        evaluation.unlink()
        evaluation.mkdir()  # nothing can be written there
        with pytest.raises(Unavailable):
            house.run(house.tenant.rotate(rotation))
        wait_until(lambda: house.tenant.state != "serving")
        evaluation.rmdir()
        wait_until(lambda: house.tenant.state == "serving")
        guest.user.adopt(house.authority.public_key_bytes())
        guest.play(toy_rounds(2, seed=1))
        require_statistics(house, [guest])


def test_gate_follows_a_key_that_the_chamber_took_without_being_told(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        guest.play(toy_rounds(1))
        write_private(house.folder / "rotation.key", house.authority.rotate())
        os.kill(house.tenant.processes()["chamber"], signal.SIGKILL)
        wait_until(lambda: house.tenant.state != "serving")
        wait_until(lambda: house.tenant.state == "serving")
        guest.user.adopt(house.authority.public_key_bytes())
        guest.play(toy_rounds(2, seed=1))
        require_statistics(house, [guest])


def test_lost_answer_is_made_again_once(tmp_path: Path, store_url: str) -> None:
    with open_house(tmp_path / "s", url=store_url, limits=Limits(most_open_rounds=99)) as house:
        guest = house.enrol("a")
        ask = guest.make_ask(ARMS)
        guest.say(ask, Ask, "ask")
        house.close()
        house.open()
        guest.say(ask, Ask, "ask")
        for _ in range(65):  # until the server keeps others' answers instead
            guest.choose(ARMS)
        with pytest.raises(Refused, match="answered before"):
            guest.say(ask, Ask, "ask")


def test_one_user_cannot_fill_the_queue(tmp_path: Path, store_url: str) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest, other = house.enrol("a"), house.enrol("b")
        asks = [guest.make_ask(ARMS) for _ in range(40)]

        def send(ask: bytes) -> type[Exception] | None:
            try:
                guest.say(ask, Ask, "ask")
            except (TooMany, Unavailable) as error:
                return type(error)
            return None

        serving = house.tenant._loop._serving
        call = serving._call
        serving._call = lambda *arguments: (time.sleep(0.05), call(*arguments))[1]
        with ThreadPoolExecutor(40) as pool:
            sent = list(pool.map(send, asks))
        assert TooMany in sent
        assert Unavailable not in sent
        assert other.choose(ARMS).arm in (0, 1)


def test_rewards_past_the_limit_come_later_and_count_then(
    tmp_path: Path, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "MOST_HELD", 2)
    with open_house(tmp_path / "s", url=store_url) as house:
        guest, helper = house.enrol("a"), house.enrol("b")
        while not house.tenant.help_wanted:
            found = guest.choose(ARMS)
            guest.earn(found.round, ARMS[found.arm], 0.5)
        (task,) = house.run(house.tenant.tasks(helper.user.id))  # and nothing for a while
        while house.tenant.report()["held"] < 2:
            found = guest.choose(ARMS)
            guest.earn(found.round, ARMS[found.arm], 0.5)
        found = guest.choose(ARMS)  # rounds are answered on
        report = guest.report(found.round, ARMS[found.arm], 0.25)
        with pytest.raises(Unavailable, match="wait for an update"):
            guest.say(report, Report, "reward")
        tasks = helper.say(helper.user.help(task), TaskReply, "task_reply")
        while tasks:
            tasks = helper.say(helper.user.help(tasks[0]), TaskReply, "task_reply")
        (data,) = guest.say(report, Report, "reward")
        assert guest.codec.decode(data).counted
        require_statistics(house, [guest])
