"""What breaks, or is meant to, costs a tenant no reward and nobody else their turn."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from helba.errors import Refused, RunFailed, Unavailable
from helba.reference.protocol.wire.messages import Ask, Report, TaskReply
from helba.service import serving, tenant
from helba.service.failure import TooMany
from helba.service.protocol.tokens import hash_token, make_token, read_token_hashes
from helba.service.protocol.vault import write_private
from helba.service.settings import Limits
from tests.service.tenants import (
    open_house,
    require_statistics,
    second_tenant,
    toy_rounds,
    wait_for_another_evaluator,
    wait_until,
)

ARMS = [[0.9, 0.1], [-0.3, 0.6]]
TOKEN = make_token("user")


def test_user_who_looks_at_a_task_and_does_nothing_does_not_stop_updates(
    tmp_path: Path, file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
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
        serving, before = house.tenant._loop._serving, house.tenant.processes()["evaluator"]
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
        wait_for_another_evaluator(house, before)
        (data,) = guest.say(report, Report, "reward")
        assert guest.codec.decode(data).counted
        require_statistics(house, [guest])


def test_second_server_at_one_store_cannot_overwrite_the_first(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        guest.play(toy_rounds(1))
        with second_tenant(house) as other:
            first = house.tenant
            for tenant in (first, other, first):  # the one that did not write last starts anew
                house.tenant, before = tenant, tenant.processes()["evaluator"]
                with pytest.raises(Unavailable):
                    guest.choose(ARMS)
                wait_for_another_evaluator(house, before)
                guest.play(toy_rounds(1, seed=1))
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


def test_reader_follows_a_key_that_the_evaluator_took_without_being_told(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        guest.play(toy_rounds(1))
        write_private(house.folder / "rotation.key", house.authority.rotate())
        os.kill(house.tenant.processes()["evaluator"], signal.SIGKILL)
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


def test_one_user_cannot_fill_the_queue(tmp_path: Path, file_url: str) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
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


def test_user_who_is_revoked_while_it_is_enrolled_is_not_known_afterwards(
    tmp_path: Path, file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, held = threading.Event(), threading.Event()
    write = tenant.write_token_hash

    def write_late(*arguments: Any) -> None:
        writing.set()
        held.wait(20)
        write(*arguments)

    with open_house(tmp_path / "s", url=file_url) as house:
        monkeypatch.setattr(tenant, "write_token_hash", write_late)
        user = house.authority.make_user("a")
        enrolment, token_hash = house.authority.enrolment_of(user.id), hash_token(TOKEN)

        async def race() -> None:
            enrolling = house.tenant.enrol(user.id, enrolment, token_hash=token_hash)
            first = asyncio.ensure_future(enrolling)
            await asyncio.to_thread(writing.wait, 20)
            second = asyncio.ensure_future(house.tenant.revoke(user.id))
            await asyncio.wait([second], timeout=0.5)
            held.set()
            await asyncio.gather(first, second)

        house.run(race())
        assert house.tenant.user_of(token_hash) is None
        assert read_token_hashes(house.folder) == {}
        assert house.tenant.members()["enrolled"] == {}


def test_user_who_is_revoked_is_unknown_at_once(tmp_path: Path, file_url: str) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
        guest = house.enrol("a")
        (token_hash,) = house.tenant._users

        async def revoke() -> bytes | None:
            async with house.tenant._change:  # a rotation, say
                revoking = asyncio.ensure_future(house.tenant.revoke(guest.user.id))
                await asyncio.sleep(0)
                known = house.tenant.user_of(token_hash)
            await revoking
            return known

        assert house.run(revoke()) is None


def test_history_is_looked_up_once_in_some_seconds_and_one_at_a_time(
    tmp_path: Path, file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
        held, asked = threading.Event(), []
        read = house.tenant._histories._read

        def read_late(minutes: int) -> Any:
            asked.append(minutes)
            held.wait(20)
            return read(minutes)

        monkeypatch.setattr(house.tenant._histories, "_read", read_late)

        async def look(*many: int) -> list[Any]:
            calls = [asyncio.ensure_future(house.tenant.history(minutes=each)) for each in many]
            await asyncio.wait(calls, timeout=0.2)
            assert len(asked) == 1
            await asyncio.wait_for(asyncio.to_thread(lambda: None), 5)  # others have their threads
            held.set()
            return await asyncio.gather(*calls, return_exceptions=True)

        kinds = tenant.MOST_HISTORIES
        found = house.run(look(*[60] * 20, *range(1, kinds + 1)))
        assert [each["minutes"] for each in found[:-1]] == [60] * 20 + list(range(1, kinds))
        assert isinstance(found[-1], Unavailable)
        assert house.run(house.tenant.history(minutes=60))["minutes"] == 60
        assert asked == [60, *range(1, kinds)]
        monkeypatch.setattr(tenant, "HISTORY_SECONDS", 0.0)
        house.run(house.tenant.history(minutes=60))
        assert asked[-1] == 60


def test_history_that_could_not_be_read_is_looked_up_again(
    tmp_path: Path, file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
        read = house.store.history

        def fail(*_: object, **__: object) -> None:
            raise Unavailable("the store is away")

        monkeypatch.setattr(house.store, "history", fail)
        with pytest.raises(Unavailable, match="store is away"):
            house.run(house.tenant.history(minutes=60))
        monkeypatch.setattr(house.store, "history", read)
        assert house.run(house.tenant.history(minutes=60))["minutes"] == 60
