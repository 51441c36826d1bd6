"""The server is brought in step with the folder, whatever happened to either."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helba.errors import InvalidInput, Refused, RunFailed, Unavailable
from helba.service.authority.courier import Courier
from helba.service.authority.delivery import deliver
from helba.service.authority.enroller import Enroller
from helba.service.authority.link import Link, require_safe_url
from helba.service.authority.run import ServerAddress, deliver_once
from helba.service.protocol.authorityfiles import SERVER
from helba.service.protocol.authoritystate import collective_id
from helba.service.protocol.keyinfo import describe_key
from helba.service.protocol.keystore import list_members, revoke_member, write_server_folder
from helba.service.protocol.serverfiles import write_server_files
from helba.service.protocol.tokens import make_token, read_authority_hash, read_token_hashes
from tests.reference.protocol.folders import WORDS, enrol, new_user, rotate
from tests.service.authority.fakeserver import FakeServer, free_port
from tests.service.authority.office import (
    NOWHERE,
    fake_server,
    new_hash,
    open_enroller,
    public_key_of,
    wait_until,
)


def take(enroller: Enroller, name: str) -> str:
    """Enrol somebody; its id as the server has it."""
    key = public_key_of(enroller.deployment)
    return enroller.enrol(name, public_key=key, token_hash=new_hash()).id.hex()


def told(enroller: Enroller) -> dict[str, str]:
    """What the server should have."""
    return {user.hex(): text for user, text in read_token_hashes(enroller.folder / SERVER).items()}


@contextmanager
def linked(enroller: Enroller, server: FakeServer) -> Iterator[Link]:
    with server.serving() as url:
        link = Link(url, tenant="main", token=enroller.token)
        try:
            yield link
        finally:
            link.close()


@contextmanager
def on_the_way(enroller: Enroller, *, url: str) -> Iterator[Courier]:
    courier = Courier(enroller.folder, link=Link(url, tenant="main", token=enroller.token))
    courier.start()
    try:
        yield courier
    finally:
        courier.stop()


# -- one delivery


def test_delivery_tells_what_is_new_and_nothing_twice(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server = fake_server(enroller)
    with linked(enroller, server) as link:
        ann, bob = take(enroller, "ann"), take(enroller, "bob")
        first = deliver(folder, link=link)
        assert (set(first.enrolled), first.revoked, first.left) == ({"ann", "bob"}, (), {})
        assert server.enrolled == told(enroller)
        assert set(server.enrolled) == {ann, bob}
        assert not deliver(folder, link=link).changed
        assert server.calls == ["PUT", "PUT"]


def test_delivery_tells_a_new_token(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server, key = fake_server(enroller), public_key_of(enroller.deployment)
    with linked(enroller, server) as link:
        for _ in range(2):
            text = new_hash()
            user = enroller.enrol("ann", public_key=key, token_hash=text).id
            assert deliver(folder, link=link).enrolled == ("ann",)
            assert server.enrolled == {user.hex(): text}


def test_delivery_tells_who_was_revoked_on_disk(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server = fake_server(enroller)
    with linked(enroller, server) as link:
        ann, bob = take(enroller, "ann"), take(enroller, "bob")
        deliver(folder, link=link)
        revoke_member(folder, "ann", allow_insecure=True)
        assert deliver(folder, link=link).revoked == (bytes.fromhex(ann),)
        assert set(server.enrolled) == {bob}
        assert server.revoked == {ann}


def test_delivery_repeats_a_revocation_once_to_a_server_that_read_it_on_disk(folder: Path) -> None:
    """Such a server says that the user is gone, and still has it in memory."""
    enroller = open_enroller(folder, open=True)
    server = fake_server(enroller)
    with linked(enroller, server) as link:
        ann = take(enroller, "ann")
        deliver(folder, link=link)
        revoke_member(folder, "ann", allow_insecure=True)
        del server.enrolled[ann]
        known: set[bytes] = set()
        for _ in range(2):
            assert not deliver(folder, link=link, told=known).changed
        assert server.calls == ["PUT", "DELETE"]
        assert server.revoked == {ann}


def test_rotation_goes_first_and_waits_no_longer(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server, waiting = fake_server(enroller), folder / SERVER / "rotation.key"
    with linked(enroller, server) as link:
        ann = take(enroller, "ann")
        deliver(folder, link=link)
        rotate(folder)
        bob = take(enroller, "bob")
        assert waiting.exists()
        outcome = deliver(folder, link=link)
        assert (outcome.rotated, outcome.enrolled) == (True, ("bob",))
        assert server.calls == ["PUT"] * 3
        assert server.key == collective_id(folder)
        assert set(server.enrolled) == {ann, bob}
        assert describe_key(server.outward[bob]).owner == server.key
        assert not waiting.exists()
        assert not (folder / SERVER / "previous.key").exists()
        rotate(folder)  # which a rotation that waits would forbid
        assert deliver(folder, link=link).rotated
        assert server.enrolled == told(enroller)


def test_rotation_that_was_taken_unheard_is_sent_again_before_it_is_dropped(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server = fake_server(enroller)
    rotate(folder)
    server.key = collective_id(folder)  # it has it, and the answer was lost
    with linked(enroller, server) as link:
        assert not deliver(folder, link=link).rotated
        assert server.calls == ["PUT"]
        assert not (folder / SERVER / "rotation.key").exists()


def test_server_under_a_foreign_key_is_refused(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server = fake_server(enroller)
    server.key = bytes(16)
    take(enroller, "ann")
    with linked(enroller, server) as link, pytest.raises(Refused, match="no rotation waits"):
        deliver(folder, link=link)
    assert not server.enrolled


def test_users_without_a_token_wait_and_do_not_hold_up_others(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server = fake_server(enroller)
    new_user(folder, "ann")
    enrol(folder, "ann")
    with linked(enroller, server) as link:
        bob = take(enroller, "bob")
        outcome = deliver(folder, link=link)
        assert (outcome.waiting, outcome.enrolled) == (("ann",), ("bob",))
        assert set(server.enrolled) == {bob}


def test_user_whom_the_server_refuses_does_not_hold_up_others(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enroller = open_enroller(folder, open=True)
    server = fake_server(enroller)
    ann, bob = take(enroller, "ann"), take(enroller, "bob")
    honest = Link.enrol

    def enrol_some(self: Link, user: bytes, **options: object) -> None:
        if user.hex() == ann:
            raise Refused("not her")
        honest(self, user, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Link, "enrol", enrol_some)
    with linked(enroller, server) as link:
        outcome = deliver(folder, link=link)
    assert (dict(outcome.left), set(server.enrolled)) == ({"ann": "not her"}, {bob})


def test_server_that_does_not_know_the_token_is_told_nothing(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server = fake_server(enroller)
    take(enroller, "ann")
    with server.serving() as url:
        stranger = Link(url, tenant="main", token=make_token("authority"))
        with pytest.raises(Refused, match=r"authority\.sha256"):
            deliver(folder, link=stranger)
        stranger.close()
    assert not server.calls


def test_server_that_is_away_or_busy_is_unavailable(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server = fake_server(enroller)
    server.refusal = Unavailable("starting")
    away = Link(NOWHERE, tenant="main", token=enroller.token)
    with pytest.raises(Unavailable, match="cannot be reached"):
        deliver(folder, link=away)
    away.close()
    with (
        linked(enroller, server) as link,
        pytest.raises(Unavailable, match="answers 503: starting"),
    ):
        deliver(folder, link=link)


def test_what_answers_otherwise_is_no_server(folder: Path) -> None:
    enroller = open_enroller(folder)
    server = fake_server(enroller)
    with server.serving() as url:
        lost = Link(url, tenant="other", token=enroller.token)
        with pytest.raises(Refused, match="answers 404"):
            deliver(folder, link=lost)
        lost.close()


def test_addresses_that_would_show_keys_to_others_are_refused() -> None:
    for good in ("http://127.0.0.1:8700", "http://localhost", "http://[::1]:1", "https://a.b/c"):
        assert require_safe_url(f"{good}/") == good
    for bad in ("http://10.0.0.1:8700", "http://server:8700"):
        with pytest.raises(InvalidInput, match="https where it is another machine"):
            require_safe_url(bad)
        assert require_safe_url(bad, plain_http=True) == bad
    for bad in (
        "",
        "server",
        "ftp://127.0.0.1",
        "http://",
        "https://a:b@c",
        "http://[::1",
        "http://a?b",
    ):
        with pytest.raises(InvalidInput, match="address"):
            require_safe_url(bad, plain_http=True)


def test_sync_delivers_once_without_a_passphrase(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server, user = fake_server(enroller), take(enroller, "ann")
    with server.serving() as url:
        outcome = deliver_once(folder, server=ServerAddress(url=url), allow_insecure=True)
    assert (outcome.enrolled, set(server.enrolled)) == (("ann",), {user})


def test_server_folder_elsewhere_knows_the_authority(folder: Path) -> None:
    enroller = open_enroller(folder)
    out = folder.parent / "out"
    write_server_folder(folder, passphrase=WORDS, out=out, allow_insecure=True)
    assert read_authority_hash(out) == read_authority_hash(enroller.server) is not None
    assert not (out / "server.token").exists()


# -- the thread that delivers


def test_courier_brings_a_server_in_step_that_was_away(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server, port = fake_server(enroller), free_port()
    with on_the_way(enroller, url=f"http://127.0.0.1:{port}") as courier:
        ann = take(enroller, "ann")
        ticket = courier.poke()
        wait_until(lambda: courier.is_done(ticket))
        assert courier.state == "away"
        assert not courier.has(bytes.fromhex(ann))
        with server.serving(port=port):
            wait_until(lambda: courier.has(bytes.fromhex(ann)))
            assert server.enrolled == told(enroller)
        bob = take(enroller, "bob")
        ticket = courier.poke()
        wait_until(lambda: courier.is_done(ticket))
        assert courier.state == "away"
        with server.serving(port=port):
            wait_until(lambda: courier.state == "in step")
            assert set(server.enrolled) == {ann, bob}


def test_courier_notices_revocation_and_rotation_on_disk(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server = fake_server(enroller)
    with server.serving() as url, on_the_way(enroller, url=url) as courier:
        ann, bob = take(enroller, "ann"), take(enroller, "bob")
        wait_until(lambda: set(server.enrolled) == {ann, bob})
        revoke_member(folder, "ann", allow_insecure=True)
        wait_until(lambda: set(server.enrolled) == {bob})
        rotate(folder)
        wait_until(lambda: server.key == collective_id(folder))
        wait_until(lambda: not (folder / SERVER / "rotation.key").exists())
        wait_until(lambda: courier.state == "in step")
        assert [each.name for each in list_members(folder) if not each.revoked] == ["bob"]
        assert server.enrolled == told(enroller)


def test_courier_outlives_what_it_cannot_read(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    server, members = fake_server(enroller), folder / "members.json"
    sound = members.read_bytes()
    with server.serving() as url, on_the_way(enroller, url=url) as courier:
        wait_until(lambda: courier.state == "in step")
        members.write_bytes(b"nonsense")
        ticket = courier.poke()
        wait_until(lambda: courier.is_done(ticket))
        assert courier.state == "refused"
        members.write_bytes(sound)
        ann = take(enroller, "ann")
        wait_until(lambda: set(server.enrolled) == {ann})
        assert enroller.token not in repr(courier)


def test_written_server_folder_keeps_the_tokens_of_its_users(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    take(enroller, "ann")
    before = told(enroller)
    assert before
    write_server_files(enroller._authority, folder / SERVER)
    assert told(enroller) == before
    with pytest.raises(RunFailed, match="cannot be reached"):
        deliver_once(folder, server=ServerAddress(url=NOWHERE), allow_insecure=True)
