"""What arrives is read in the reader first: what cannot be read never reaches the evaluator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from helba.errors import DamagedData, Refused
from helba.reference.engine import get_scheme
from helba.reference.protocol.wire.messages import Ask, Report
from helba.service.protocol.tokens import hash_token, make_token
from helba.service.reader import MOST_MET, Reader, Stranger
from tests.reference.protocol.parties import authority_of
from tests.service.hostile.forging import Framed, broken_seals, is_framed
from tests.service.tenants import TOY, Guest, House, open_house, require_statistics, toy_rounds

ENGINES = ["simulate", pytest.param("ckks", marks=pytest.mark.ckks)]
SWITCHED = replace(TOY, keys="switched")
ARMS = [[0.9, 0.1], [-0.3, 0.6]]


@contextmanager
def silent_evaluator(house: House) -> Iterator[None]:
    """Nothing may be asked of the evaluator."""
    serving = house.tenant._loop._serving
    call = serving._call

    def refuse(name: str, *_: object) -> Any:
        raise AssertionError(f"{name} reached the evaluator")

    serving._call = refuse
    try:
        yield
    finally:
        serving._call = call


def damaged_keys(data: bytes) -> Iterator[bytes]:
    """Keys that were issued, in ways in which they are none."""
    yield from (data[:-1], data[: len(data) // 2], b"")
    framed = Framed.of(data) if is_framed(data) else None
    for index, part in enumerate((data,) if framed is None else framed.parts[:3]):
        for kind, changed in broken_seals(part, random.Random(index)):
            if kind != "seal: tag":  # the key of somebody else, which the evaluator tells
                yield changed if framed is None else framed.with_part(index, changed)


def bring_key(guest: Guest) -> bytes:
    """The user's inward key, which the tenant has taken."""
    key = guest.user.inward_key_bytes()
    guest.house.run(guest.house.tenant.introduce(guest.user.id, key))
    return key


@pytest.mark.parametrize("scheme", ENGINES)
def test_users_with_data_under_their_own_keys_are_served(
    tmp_path: Path, file_url: str, scheme: str
) -> None:
    with open_house(tmp_path / "s", request=SWITCHED, scheme=scheme, url=file_url) as house:
        guests = [house.enrol("a"), house.enrol("b")]
        for guest in guests:
            bring_key(guest)
            guest.play(toy_rounds(2))
        require_statistics(house, guests)


@pytest.mark.ckks
@pytest.mark.parametrize("kind", [Ask, Report])
def test_damaged_ciphertexts_under_users_keys_do_not_reach_the_evaluator(
    tmp_path: Path, file_url: str, kind: type
) -> None:
    with open_house(tmp_path / "s", request=SWITCHED, scheme="ckks", url=file_url) as house:
        guest = house.enrol("a")
        bring_key(guest)
        found = guest.choose(ARMS)
        verb = "ask" if kind is Ask else "reward"
        data = guest.make_ask(ARMS) if kind is Ask else guest.report(found.round, ARMS[0], 0.5)
        framed, tried = Framed.of(data), 0
        with silent_evaluator(house):
            for index, part in enumerate(framed.parts):
                for _, changed in broken_seals(part, random.Random(index)):
                    with pytest.raises(DamagedData):
                        guest.say(framed.with_part(index, changed), kind, verb)
                    tried += 1
        assert tried > 30
        assert guest.say(data, kind, verb)


@pytest.mark.ckks
def test_damaged_keys_do_not_reach_the_evaluator(tmp_path: Path, file_url: str) -> None:
    with open_house(tmp_path / "s", request=SWITCHED, scheme="ckks", url=file_url) as house:
        guest = house.enrol("a")
        inward = bring_key(guest)
        enrolment = house.authority.enrolment_of(guest.user.id)
        rotation = house.authority.rotate()
        tenant, token = house.tenant, hash_token(make_token("user"))

        def enrol(data: bytes) -> Any:
            return tenant.enrol(guest.user.id, data, token_hash=token)

        def introduce(data: bytes) -> Any:
            return tenant.introduce(guest.user.id, data)

        with silent_evaluator(house):
            for data, send in ((enrolment, enrol), (rotation, tenant.rotate), (inward, introduce)):
                damaged = list(damaged_keys(data))
                assert len(damaged) > 20
                for each in damaged:
                    with pytest.raises(DamagedData):
                        house.run(send(each))
        house.run(tenant.rotate(rotation))
        guest.user.adopt(house.authority.public_key_bytes())
        bring_key(guest)
        guest.play(toy_rounds(1))


def test_whose_key_is_revoked_is_refused_in_the_reader_too(tmp_path: Path, file_url: str) -> None:
    with open_house(tmp_path / "s", request=SWITCHED, url=file_url) as house:
        guest = house.enrol("a")
        bring_key(guest)
        ask = guest.make_ask(ARMS)
        house.run(house.tenant.revoke(guest.user.id))
        with pytest.raises(Refused, match="enrol"):
            guest.say(ask, Ask, "ask")


def test_reader_knows_only_so_many_keys() -> None:
    authority = authority_of(SWITCHED, scheme="simulate")
    users = [authority.make_user(f"u{number}") for number in range(MOST_MET + 1)]
    scheme = get_scheme("simulate")
    reader = Reader(
        authority.deployment, scheme=scheme, engine=scheme.engine(authority._keys.public)
    )
    report = users[0].report(bytes(16), context=ARMS[0], reward=0.5)
    with pytest.raises(Stranger):
        reader.check("rewards", report, users[0].id)
    reader.meet(users[0].public_key_bytes())
    assert reader.check("rewards", report, users[0].id)[0] == bytes(16)
    for user in users[1:]:
        reader.meet(user.public_key_bytes())
    assert len(reader._own) == MOST_MET
    with pytest.raises(Stranger):
        reader.check("rewards", report, users[0].id)
