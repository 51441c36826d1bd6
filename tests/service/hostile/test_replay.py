"""What comes again, or late, or in somebody else's name, leaves the tenant as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helba.errors import Refused, WrongVector
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Ask, TaskReply, TestReply
from tests.service.tenants import CUT_TOY, Guest, House, open_house, toy_rounds

ARMS = [[0.9, 0.1], [-0.3, 0.6]]


class Keeping(Guest):
    """A guest who keeps what it says."""

    def __init__(self, house: House, guest: Guest) -> None:
        super().__init__(house, guest.user)
        self.said: list[tuple[bytes, type[Any], str]] = []

    def say(self, data: bytes, kind: type[Any], verb: str) -> list[bytes]:
        self.said.append((data, kind, verb))
        return super().say(data, kind, verb)


def state_of(house: House) -> tuple[object, ...]:
    report = house.tenant.report()
    counts = {name: report[name] for name in ("round", "samples", "bits", "open_rounds", "batch")}
    return house.store.load("main"), house.store.ledger("main"), counts


def test_bits_of_a_reply_that_comes_again_are_not_counted_again(
    tmp_path: Path, store_url: str
) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = Keeping(house, house.enrol("a"))
        guest.play(toy_rounds(6))
        before = state_of(house)
        again = [each for each in guest.said if each[1] in (TestReply, TaskReply)]
        assert {each[1] for each in again} == {TestReply, TaskReply}
        for data, kind, verb in again:
            with pytest.raises(Refused):
                Guest.say(guest, data, kind, verb)
        assert state_of(house) == before


def test_bits_of_somebody_who_was_not_asked_are_not_counted(tmp_path: Path, file_url: str) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
        guest, rogue = Keeping(house, house.enrol("a")), house.enrol("b")
        guest.play(toy_rounds(3))
        before = state_of(house)
        codec = Codec(house.deployment)
        for data, kind, verb in guest.said:
            if kind is TaskReply:
                message = codec.decode(data)
                assert isinstance(message, TaskReply)
                renamed = codec.encode(replace(message, user=rogue.user.id))
                with pytest.raises(Refused):
                    rogue.say(renamed, kind, verb)
        assert state_of(house) == before


def test_ask_that_comes_again_opens_no_second_round(tmp_path: Path, store_url: str) -> None:
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        ask = guest.make_ask(ARMS)
        (first,) = guest.say(ask, Ask, "ask")
        before = state_of(house)
        assert [guest.say(ask, Ask, "ask") for _ in range(5)] == [[first]] * 5
        assert state_of(house) == before
        assert house.tenant.report()["open_rounds"] == 1


def test_old_ask_of_an_open_round_does_not_cost_its_reward(tmp_path: Path, store_url: str) -> None:
    """Its answer is lost with a process, its batch is over: it is refused, and stays answered."""
    with open_house(tmp_path / "s", url=store_url) as house:
        guest = house.enrol("a")
        ask = guest.make_ask(ARMS)
        found = guest.user.read(*guest.say(ask, Ask, "ask"))
        guest.play(toy_rounds(6))  # the batch of the ask is over
        house.close()
        house.open()
        before = state_of(house)
        with pytest.raises(Refused, match="is over"):
            guest.say(ask, Ask, "ask")
        assert state_of(house) == before
        assert guest.earn(found.round, ARMS[found.arm], 0.5).counted


def test_refused_ask_of_somebody_else_does_not_take_a_round(tmp_path: Path, store_url: str) -> None:
    """Who names a round first, and is refused, is not the one whose round it is."""
    with open_house(tmp_path / "s", url=store_url) as house:
        guest, rogue = house.enrol("a"), house.enrol("b")
        ask = guest.make_ask(ARMS)
        codec = Codec(house.deployment)
        message = codec.decode(ask)
        assert isinstance(message, Ask)
        taken = codec.encode(replace(message, user=rogue.user.id, batch=999))
        with pytest.raises(Refused, match="is over"):
            rogue.say(taken, Ask, "ask")
        found = guest.user.read(*guest.say(ask, Ask, "ask"))
        assert guest.earn(found.round, ARMS[found.arm], 0.5).counted


def test_share_of_another_exchange_is_refused_and_the_task_stays(
    tmp_path: Path, file_url: str
) -> None:
    with open_house(tmp_path / "s", request=CUT_TOY, url=file_url) as house:
        guest = Keeping(house, house.enrol("a"))
        guest.play(toy_rounds(1))
        old = next(data for data, kind, _ in guest.said if kind is TaskReply)
        sent = guest.say(guest.make_ask(ARMS), Ask, "ask")
        share, codec = guest.user.help(sent[0]), Codec(house.deployment)
        mine, other = codec.decode(share), codec.decode(old)
        mixed = codec.encode(replace(mine, parts=other.parts))
        before = state_of(house)
        with pytest.raises(WrongVector):
            guest.say(mixed, TaskReply, "task_reply")
        assert state_of(house) == before
        found = guest.user.read(guest.finish(sent))
        assert guest.earn(found.round, ARMS[found.arm], 0.5).counted


def test_rotation_that_comes_again_leaves_the_reader(tmp_path: Path, file_url: str) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
        guest = house.enrol("a")
        guest.play(toy_rounds(2))
        rotation = house.authority.rotate()
        house.run(house.tenant.rotate(rotation))
        guest.user.adopt(house.authority.public_key_bytes())
        guest.play(toy_rounds(1))
        before, processes = state_of(house), house.tenant.processes()
        house.run(house.tenant.rotate(rotation))
        assert house.tenant.processes() == processes
        assert state_of(house) == before
        guest.play(toy_rounds(1))
