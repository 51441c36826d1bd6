"""What goes wrong inside, or at a store that others use, loses no acknowledged reward."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from helba.errors import RunFailed, Unavailable
from helba.reference.protocol.serving import learning
from helba.reference.protocol.wire.messages import Ask, Report
from helba.service import evaluator
from helba.service import tenant as tenants
from helba.service.protocol import folderserver
from tests.service.tenants import (
    Guest,
    open_house,
    require_statistics,
    second_tenant,
    toy_rounds,
    wait_for_another_evaluator,
    wait_until,
)

ARMS = [[0.9, 0.1], [-0.3, 0.6]]


def run_broken_evaluator(pipe: Any, folder: Path, allow_insecure: bool, start: Any) -> None:
    """An evaluator in which memory, or the disk, is short when the folder has such a file."""
    absorb, drop = learning.Learning._absorb, folderserver.drop_user

    def short(name: str) -> bool:
        flag = folder / name
        if flag.exists():
            flag.unlink()
            return True
        return False

    def absorb_if_there_is_room(server: Any, added: Any, *, count: int) -> None:
        if short("no-memory"):
            raise MemoryError
        absorb(server, added, count=count)

    def drop_if_there_is_room(where: Path, user: bytes) -> None:
        if short("no-disk"):
            raise RunFailed("no space left on device")
        drop(where, user)

    learning.Learning._absorb = absorb_if_there_is_room  # type: ignore[method-assign]
    folderserver.drop_user = drop_if_there_is_room
    evaluator.run_evaluator(pipe, folder, allow_insecure, start)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tenants, "run_evaluator", run_broken_evaluator)


def earn(guest: Guest) -> None:
    found = guest.choose(ARMS)
    guest.earn(found.round, ARMS[found.arm], 0.5)


@pytest.mark.usefixtures("broken")
def test_memory_that_ends_when_held_rewards_are_added_costs_none_of_them(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest, helper = house.enrol("a"), house.enrol("b")
        while not house.tenant.help_wanted:
            earn(guest)
        for _ in range(3):  # these wait for the update
            earn(guest)
        assert house.tenant.report()["held"] == 3
        before = house.tenant.processes()["evaluator"]
        (house.folder / "no-memory").touch()
        with pytest.raises(Unavailable):
            helper.help()
        assert not (house.folder / "no-memory").exists()
        wait_for_another_evaluator(house, before)
        require_statistics(house, [guest])
        earn(guest)
        helper.help()
        require_statistics(house, [guest])


@pytest.mark.usefixtures("broken")
def test_revocation_that_could_not_delete_the_keys_does_so_the_second_time(
    tmp_path: Path, file_url: str
) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
        guest = house.enrol("a")
        (house.folder / "no-disk").touch()
        with pytest.raises(RunFailed):
            house.run(house.tenant.revoke(guest.user.id))
        assert list((house.folder / "users").glob("*.enrolment"))
        house.run(house.tenant.revoke(guest.user.id))
        assert not list((house.folder / "users").glob("*.enrolment"))
        assert list((house.folder / "users").glob("*.revoked"))


def test_reward_for_a_round_that_another_server_answered_counts(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        guest.play(toy_rounds(1))
        with second_tenant(house) as other:
            found = _until_served(lambda: guest.choose(ARMS))
            report = guest.report(found.round, ARMS[found.arm], 0.5)
            house.tenant = other  # a balancer sends the report here
            (data,) = _until_served(lambda: guest.say(report, Report, "reward"))
            assert guest.codec.decode(data).counted
        require_statistics(house, [guest])


def _until_served(action: Callable[[], Any]) -> Any:
    """What it returns, when the tenant no longer says that it starts."""
    found: list[Any] = []

    def served() -> bool:
        with suppress(Unavailable):
            found.append(action())
        return bool(found)

    wait_until(served)
    return found[0]


def test_store_that_is_away_is_asked_once_for_all_asks_of_a_turn(
    tmp_path: Path, file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
        guests = [house.enrol(f"u{number}") for number in range(4)]
        asks = [guest.make_ask(ARMS) for guest in guests]
        calls: list[str] = []

        def away(*_: object) -> Any:
            calls.append("find")
            time.sleep(0.3)
            raise Unavailable("does not answer in time")

        def send(pair: tuple[Guest, bytes]) -> bool:
            try:
                pair[0].say(pair[1], Ask, "ask")
            except Unavailable:
                return True
            return False

        with monkeypatch.context() as patch, ThreadPoolExecutor(4) as pool:
            patch.setattr(house.store, "find_round", away)
            assert all(pool.map(send, zip(guests, asks, strict=True)))
        assert len(calls) == 1
        assert guests[0].say(asks[0], Ask, "ask")
