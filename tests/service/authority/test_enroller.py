"""The enroller: who is let in, how often, and what `helba keys` does beside it."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from helba.errors import DamagedData, InvalidInput, Refused, RunFailed, Unavailable
from helba.reference.protocol.enrolment import Enrolment
from helba.service.authority import enroller as enroller_module
from helba.service.authority.enroller import Enroller
from helba.service.protocol.authorityfiles import SERVER, locked
from helba.service.protocol.authoritystate import collective_id
from helba.service.protocol.invitation import NotInvited, find_invitation
from helba.service.protocol.keyinfo import describe_key
from helba.service.protocol.keystore import list_members, revoke_member
from helba.service.protocol.serverfiles import enrolment_path
from helba.service.protocol.tokens import hash_token, read_token_hashes
from tests.reference.protocol.folders import enrol, files_of, mode_of, new_user, rotate
from tests.service.authority.office import code_for, new_hash, open_enroller, public_key_of


def take(enroller: Enroller, name: str, **options: Any) -> bytes:
    """Enrol somebody with a new key; its id."""
    key = public_key_of(enroller.deployment)
    return enroller.enrol(name, public_key=key, token_hash=new_hash(), **options).id


# -- enrolments


def test_enrolment_that_returned_is_on_disk_whole(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    key, text = public_key_of(enroller.deployment), new_hash()
    record = enroller.enrol("ann", public_key=key, token_hash=text)
    assert record.id == describe_key(key).owner
    assert [(each.name, each.id) for each in list_members(folder)] == [("ann", record.id)]
    assert read_token_hashes(folder / SERVER) == {record.id: text}
    data = enrolment_path(folder / SERVER, record.id).read_bytes()
    assert Enrolment.from_bytes(data, deployment=enroller.deployment).public_key == key
    assert open_enroller(folder).records() == [record]


def test_enrolment_may_be_asked_again_and_the_last_token_counts(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    key = public_key_of(enroller.deployment)
    first = enroller.enrol("ann", public_key=key, token_hash=new_hash())
    data = enrolment_path(folder / SERVER, first.id).read_bytes()
    text = new_hash()
    assert enroller.enrol("ann", public_key=key, token_hash=text) == first
    assert read_token_hashes(folder / SERVER) == {first.id: text}
    assert enrolment_path(folder / SERVER, first.id).read_bytes() == data


def test_enrolment_that_broke_off_is_completed_by_asking_again(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    key = public_key_of(enroller.deployment)
    first = enroller.enrol("ann", public_key=key, token_hash=new_hash())
    enrolment_path(folder / SERVER, first.id).unlink()
    enroller.enrol("ann", public_key=key, token_hash=new_hash())
    assert enrolment_path(folder / SERVER, first.id).exists()


def test_another_key_under_an_enrolled_name_is_refused(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    take(enroller, "ann")
    before = files_of(folder)
    with pytest.raises(Refused, match="ann is enrolled with another key"):
        take(enroller, "ann")
    assert files_of(folder) == before


def test_key_of_somebody_else_is_refused(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    key = public_key_of(enroller.deployment)
    enroller.enrol("ann", public_key=key, token_hash=new_hash())
    with pytest.raises(Refused, match="this key is enrolled under another name") as caught:
        enroller.enrol("bob", public_key=key, token_hash=new_hash())
    assert "ann" not in str(caught.value)  # who has all keys must not learn all names
    assert [each.name for each in enroller.records()] == ["ann"]


def test_what_is_no_public_key_is_damaged_and_changes_nothing(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    key = public_key_of(enroller.deployment)
    evaluation = (folder / "keys-1" / "evaluation.key").read_bytes()
    before = files_of(folder)
    for bad in (b"", b"helba", key[:-1], key + b"\0", bytes([key[0] ^ 1]) + key[1:], evaluation):
        with pytest.raises(DamagedData):
            enroller.enrol("ann", public_key=bad, token_hash=new_hash())
    with pytest.raises(InvalidInput, match="64 hexadecimal digits"):
        enroller.enrol("ann", public_key=key, token_hash="short")
    with pytest.raises(InvalidInput, match="1 to 64 printable"):
        enroller.enrol("a\nb", public_key=key, token_hash=new_hash())
    assert files_of(folder) == before


def test_folder_that_is_damaged_is_not_blamed_on_who_asks(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    (folder / "members.json").write_text("nonsense")
    with pytest.raises(RunFailed, match=r"members\.json"):  # and not DamagedData
        take(enroller, "ann")


# -- invitations


def test_invitation_lets_one_key_in_under_its_name(folder: Path) -> None:
    enroller = open_enroller(folder)
    code, other = code_for(folder, "ann"), code_for(folder, "bob")
    with pytest.raises(NotInvited, match="needed"):
        take(enroller, "ann")
    for wrong in (other, "helba_i_" + "x" * 43):
        with pytest.raises(NotInvited, match="not for this name"):
            take(enroller, "ann", invitation=wrong)
    for nothing in ("nonsense", "helba_u_" + "x" * 43):
        with pytest.raises(NotInvited, match="no invitation"):
            take(enroller, "ann", invitation=nothing)
    key = public_key_of(enroller.deployment)
    first = enroller.enrol("ann", public_key=key, token_hash=new_hash(), invitation=code)
    assert enroller.enrol("ann", public_key=key, token_hash=new_hash(), invitation=code) == first
    with pytest.raises(Refused, match="another key"):
        take(enroller, "ann", invitation=code)
    assert [each.name for each in enroller.records()] == ["ann"]


def test_invitation_that_is_over_lets_nobody_in(folder: Path) -> None:
    enroller = open_enroller(folder)
    code = code_for(folder, "ann", days=1e-9)
    with pytest.raises(NotInvited, match="ended at"):
        take(enroller, "ann", invitation=code)


def test_invitation_is_not_used_up_by_a_key_that_is_refused(folder: Path) -> None:
    enroller = open_enroller(folder)
    taken = public_key_of(enroller.deployment)
    code = code_for(folder, "ann")
    enroller.enrol("ann", public_key=taken, token_hash=new_hash(), invitation=code)
    code = code_for(folder, "bob")
    with pytest.raises(DamagedData):
        enroller.enrol("bob", public_key=taken[:-1], token_hash=new_hash(), invitation=code)
    with pytest.raises(Refused, match="every user makes its own"):
        enroller.enrol("bob", public_key=taken, token_hash=new_hash(), invitation=code)
    assert take(enroller, "bob", invitation=code) == list_members(folder)[-1].id


def test_code_of_an_invitation_is_nowhere_on_disk(folder: Path) -> None:
    enroller = open_enroller(folder)
    code = code_for(folder, "ann")
    take(enroller, "ann", invitation=code)
    assert mode_of(folder / "invitations.json") == 0o600
    assert hash_token(code).encode() in files_of(folder)["invitations.json"]
    assert not any(code.encode() in data for data in files_of(folder).values())
    assert hash_token(code) not in repr(find_invitation(folder, "ann"))


def test_revoked_user_needs_a_new_invitation(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    key, code = public_key_of(enroller.deployment), code_for(folder, "ann")
    options: dict[str, Any] = {"public_key": key, "token_hash": new_hash()}
    enroller.enrol("ann", **options, invitation=code)
    revoke_member(folder, "ann", allow_insecure=True)
    assert read_token_hashes(folder / SERVER) == {}
    for again in (code, None):
        with pytest.raises(NotInvited):
            enroller.enrol("ann", **options, invitation=again)
    record = enroller.enrol("ann", **options, invitation=code_for(folder, "ann"))
    assert not record.revoked
    assert read_token_hashes(folder / SERVER) == {record.id: options["token_hash"]}


def test_open_enroller_keeps_names_for_those_who_are_invited(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    code = code_for(folder, "ann")
    with pytest.raises(NotInvited, match="somebody else"):
        take(enroller, "ann")
    take(enroller, "bob")
    take(enroller, "ann", invitation=code)
    assert {each.name for each in enroller.records()} == {"ann", "bob"}


def test_user_of_the_command_line_gets_a_token_by_an_invitation(folder: Path) -> None:
    enroller = open_enroller(folder)
    new_user(folder, "ann")
    user = enrol(folder, "ann")
    assert read_token_hashes(folder / SERVER) == {}
    key, text = (folder.parent / "ann" / "public.key").read_bytes(), new_hash()
    code = code_for(folder, "ann")
    assert enroller.enrol("ann", public_key=key, token_hash=text, invitation=code).id == user
    assert read_token_hashes(folder / SERVER) == {user: text}


# -- beside other commands


def test_commands_on_the_folder_are_seen_by_the_enroller(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enroller = open_enroller(folder, open=True)
    ann = take(enroller, "ann")
    new_user(folder, "bob")
    bob = enrol(folder, "bob")
    revoke_member(folder, "ann", allow_insecure=True)
    with monkeypatch.context() as patch:  # members alone need no passphrase
        patch.setattr(
            enroller_module, "read_authority", lambda *_, **__: pytest.fail("opened anew")
        )
        cleo = take(enroller, "cleo")
    assert [(each.id, each.revoked) for each in list_members(folder)] == [
        (ann, True),
        (bob, False),
        (cleo, False),
    ]


def test_enrolment_after_a_rotation_on_disk_is_under_the_new_key(folder: Path) -> None:
    enroller = open_enroller(folder, open=True)
    old, ann = enroller.key_id(), take(enroller, "ann")
    rotate(folder)
    assert enroller.key_id() == collective_id(folder) != old
    bob = take(enroller, "bob")
    for user in (ann, bob):
        data = enrolment_path(folder / SERVER, user).read_bytes()
        outward = Enrolment.from_bytes(data, deployment=enroller.deployment).outward_key
        assert describe_key(outward).owner == enroller.key_id()
    assert set(read_token_hashes(folder / SERVER)) == {ann, bob}


def test_enroller_waits_for_a_command_and_gives_up_after_a_while(folder: Path) -> None:
    enroller = open_enroller(folder, open=True, wait_seconds=0.2)
    with locked(folder), pytest.raises(Unavailable, match="another command is working") as caught:
        take(enroller, "ann")
    assert str(folder) not in str(caught.value)
    patient = open_enroller(folder, open=True, wait_seconds=20.0)
    held, begun = locked(folder), threading.Event()
    held.__enter__()
    found: list[bytes] = []

    def work() -> None:
        begun.set()
        found.append(take(patient, "ann"))

    thread = threading.Thread(target=work)
    thread.start()
    assert begun.wait(10.0)
    held.__exit__(None, None, None)
    thread.join(20.0)
    assert [each.id for each in list_members(folder)] == found


def test_failed_write_leaves_no_member_in_memory(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enroller = open_enroller(folder, open=True)

    def fail(*_: object) -> None:
        raise RunFailed("no space is left")

    with monkeypatch.context() as patch:
        patch.setattr("helba.service.protocol.authoritystate.write_members", fail)
        with pytest.raises(RunFailed, match="no space"):
            take(enroller, "ann")
    take(enroller, "bob")
    assert [each.name for each in list_members(folder)] == ["bob"]


def test_token_of_the_authority_stays_and_its_hash_is_the_servers(folder: Path) -> None:
    enroller = open_enroller(folder)
    assert open_enroller(folder).token == enroller.token
    assert (
        mode_of(folder / "server.token") == mode_of(folder / SERVER / "authority.sha256") == 0o600
    )
    files = files_of(folder / SERVER)
    assert files["authority.sha256"].decode() == hash_token(enroller.token, kind="authority")
    assert not any(enroller.token.encode() in data for data in files.values())
    assert enroller.token not in repr(enroller)
