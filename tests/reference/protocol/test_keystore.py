"""The authority and users on disk: what is written opens, whatever broke off on the way."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from helba.errors import DamagedData, HelbaError, InvalidInput, Refused, RunFailed
from helba.reference.protocol.authority import Authority
from helba.service.protocol import vault
from helba.service.protocol.authorityfiles import locked
from helba.service.protocol.keystore import (
    create_authority,
    list_members,
    replace_member_key,
    revoke_member,
    rotate_authority,
    save_authority,
)
from helba.service.protocol.serverfiles import open_server
from helba.service.protocol.userstore import create_user, open_user, update_user
from tests.reference.protocol.folders import (
    WORDS,
    enrol,
    files_of,
    insecure_authority,
    insecure_deployment,
    mode_of,
    new_user,
    reopen,
    rotate,
)

pytestmark = pytest.mark.usefixtures("cheap_vault")


def require_one_line(error: BaseException) -> None:
    assert "\n" not in str(error)
    assert WORDS not in str(error)


# -- what is written is what is read


def test_authority_opens_as_it_was_saved(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    made = insecure_authority(folder, users=("ann", "bob"))
    revoke_member(folder, "ann", allow_insecure=True)
    found = reopen(folder)
    assert found.deployment == made.deployment
    for keys in ("public_key_bytes", "evaluation_key_bytes", "secret_key_bytes"):
        assert getattr(found, keys)() == getattr(made, keys)()
    assert [(m.name, m.revoked) for m in found.members] == [("ann", True), ("bob", False)]
    homes = [(tmp_path / m.name / "public.key").read_bytes() for m in found.members]
    assert [m.public_key for m in found.members] == homes


def test_files_and_modes_are_those_of_the_layout(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann",))
    (member,) = list_members(folder)
    found = {name: mode_of(folder / name) for name in files_of(folder)}
    assert found == {
        "deployment.json": 0o644,
        "current.json": 0o644,
        "members.json": 0o600,
        "keys-1/public.key": 0o644,
        "keys-1/evaluation.key": 0o644,
        "keys-1/secret.key": 0o600,
        f"users/{member.id.hex()}.public": 0o644,
        "server/deployment.json": 0o644,
        "server/public.key": 0o644,
        "server/evaluation.key": 0o644,
        f"server/users/{member.id.hex()}.enrolment": 0o600,
    }
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    assert {mode_of(path) for path in folders} == {0o700}
    user = {name: mode_of(tmp_path / "ann" / name) for name in files_of(tmp_path / "ann")}
    public = {"deployment.json": 0o644, "collective.key": 0o644, "public.key": 0o644}
    assert user == {**public, "secret.key": 0o600}
    assert mode_of(tmp_path / "ann") == 0o700


def test_no_file_has_the_passphrase_or_a_secret_in_the_clear(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    made = insecure_authority(folder, users=("ann",))
    rotate(folder)
    plain = [WORDS.encode(), made.secret_key_bytes(), reopen(folder).secret_key_bytes()]
    for name, data in files_of(tmp_path).items():
        assert not any(secret in data for secret in plain), name


def test_members_have_their_times_in_utc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann",))
    (before,) = list_members(folder)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", before.enrolled_at)
    for module in ("keystore", "authorityfiles"):
        monkeypatch.setattr(f"helba.service.protocol.{module}.now", lambda: "2031-01-01T00:00:00Z")
    new_user(folder, "bob")
    enrol(folder, "bob")
    ann, bob = list_members(folder)
    assert ann == before
    assert (bob.enrolled_at, bob.since, bob.revoked) == ("2031-01-01T00:00:00Z",) * 2 + (False,)
    revoke_member(folder, "ann", allow_insecure=True)
    ann, _ = list_members(folder)
    assert (ann.enrolled_at, ann.since, ann.revoked) == (
        before.enrolled_at,
        "2031-01-01T00:00:00Z",
        True,
    )
    enrol(folder, "ann")  # the same key again
    ann, _ = list_members(folder)
    assert (ann.enrolled_at, ann.revoked_at) == ("2031-01-01T00:00:00Z", None)


def test_listing_and_revoking_need_no_passphrase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann", "bob"))

    def fail(**_: object) -> None:
        raise AssertionError("scrypt was run")

    monkeypatch.setattr(vault, "Scrypt", fail)
    gone = revoke_member(folder, "ann", allow_insecure=True)
    assert [member.revoked for member in list_members(folder)] == [True, False]
    users = folder / "server" / "users"
    assert [path.suffix for path in users.glob(f"{gone.id.hex()}*")] == [".revoked"]
    assert len(list(users.glob("*.enrolment"))) == 1


def test_user_opens_as_it_was_made_and_adopts_a_new_collective_key(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder)
    made, words = new_user(folder, "ann"), f"{WORDS} of ann"
    found = open_user(tmp_path / "ann", passphrase=words, allow_insecure=True)
    assert (found.id, found.deployment) == (made.id, made.deployment)
    rotated = rotate(folder)
    update_user(tmp_path / "ann", folder / "keys-2" / "public.key", allow_insecure=True)
    found = open_user(tmp_path / "ann", passphrase=words, allow_insecure=True)
    assert found.id == made.id
    server = rotated.make_server()
    found.read_notice(server.notice())
    with pytest.raises(Refused, match="rotated"):
        made.read_notice(server.notice())


@pytest.mark.parametrize("source", ["authority", "authority/server", "ann", "handed-out"])
def test_user_finds_the_collective_key_wherever_it_is_given(tmp_path: Path, source: str) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder)
    new_user(folder, "ann")
    (tmp_path / "handed-out").mkdir()
    for path in (folder / "deployment.json", folder / "keys-1" / "public.key"):
        shutil.copy(path, tmp_path / "handed-out")
    create_user(
        tmp_path / "bob",
        deployment_folder=tmp_path / source,
        passphrase=WORDS,
        allow_insecure=True,
    )
    collective = (tmp_path / "bob" / "collective.key").read_bytes()
    assert collective == (folder / "keys-1" / "public.key").read_bytes()


# -- what is refused, and loses nothing


def test_folder_that_is_taken_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann",))
    before = files_of(tmp_path)
    deployment = insecure_deployment()
    for taken in (folder, tmp_path / "ann"):
        with pytest.raises(Refused, match="already"):
            create_authority(taken, deployment, passphrase=WORDS)
        with pytest.raises(Refused, match="already"):
            create_user(taken, deployment_folder=folder, passphrase=WORDS, allow_insecure=True)
    other = Authority(insecure_deployment(keys="switched"))
    with pytest.raises(Refused, match="another deployment"):
        save_authority(other, folder, passphrase=WORDS)
    assert files_of(tmp_path) == before


def test_what_is_no_authority_or_user_says_so(tmp_path: Path) -> None:
    for action in (
        lambda: list_members(tmp_path / "none"),
        lambda: reopen(tmp_path),
        lambda: rotate(tmp_path),
        lambda: revoke_member(tmp_path, "ann"),
    ):
        with pytest.raises(RunFailed, match="holds no authority"):
            action()
    with pytest.raises(RunFailed, match="holds no user's keys"):
        open_user(tmp_path, passphrase=WORDS)
    assert not list(tmp_path.iterdir())


def test_wrong_passphrase_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann",))
    before = files_of(tmp_path)
    for action in (
        lambda: reopen(folder, passphrase="wrong"),
        lambda: rotate_authority(folder, passphrase="wrong", allow_insecure=True),
        lambda: open_user(tmp_path / "ann", passphrase="wrong", allow_insecure=True),
    ):
        with pytest.raises(DamagedData, match=r"secret\.key: wrong passphrase"):
            action()
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("how", ["cut", "changed", "emptied", "missing"])
@pytest.mark.parametrize(
    "name",
    [
        "deployment.json",
        "current.json",
        "members.json",
        "keys-1/public.key",
        "keys-1/evaluation.key",
        "keys-1/secret.key",
    ],
)
def test_damaged_file_is_named(tmp_path: Path, name: str, how: str) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann",))
    damage(folder / name, how=how)
    with pytest.raises(HelbaError) as caught:
        reopen(folder)
    if (name, how) == ("current.json", "missing"):
        assert "holds no authority" in str(caught.value)
    else:
        assert name in str(caught.value)
    require_one_line(caught.value)


@pytest.mark.parametrize("how", ["cut", "changed", "emptied", "missing"])
@pytest.mark.parametrize("name", ["deployment.json", "collective.key", "public.key", "secret.key"])
def test_damaged_file_of_a_user_is_named(tmp_path: Path, name: str, how: str) -> None:
    insecure_authority(tmp_path / "authority", users=("ann",))
    damage(tmp_path / "ann" / name, how=how)
    with pytest.raises(HelbaError) as caught:
        open_user(tmp_path / "ann", passphrase=f"{WORDS} of ann", allow_insecure=True)
    assert name in str(caught.value) or "holds no user's keys" in str(caught.value)
    require_one_line(caught.value)


def damage(path: Path, *, how: str) -> None:
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    elif how == "changed":
        middle = len(data) // 2
        path.write_bytes(data[:middle] + bytes([data[middle] ^ 0xFF]) + data[middle + 1 :])
    else:
        path.write_bytes(data[: len(data) // 2] if how == "cut" else b"")


def test_keys_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    for name in ("one", "two"):
        insecure_authority(tmp_path / name / "authority", users=("ann",))
    for name in ("public.key", "evaluation.key", "secret.key"):
        theirs = tmp_path / "two" / "authority" / "keys-1" / name
        mine = tmp_path / "one" / "authority" / "keys-1" / name
        before = mine.read_bytes()
        shutil.copy(theirs, mine)
        with pytest.raises(DamagedData, match="do not belong together"):
            reopen(tmp_path / "one" / "authority")
        mine.write_bytes(before)
    shutil.copy(tmp_path / "two" / "ann" / "secret.key", tmp_path / "one" / "ann")
    with pytest.raises(DamagedData, match=r"secret\.key: a secret sealed for"):
        open_user(tmp_path / "one" / "ann", passphrase=f"{WORDS} of ann", allow_insecure=True)


def test_folder_or_secret_that_others_can_open_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann",))
    for path, mode in ((folder, 0o755), (folder / "keys-1" / "secret.key", 0o644)):
        before = mode_of(path)
        path.chmod(mode)
        with pytest.raises(RunFailed, match="open to other users: chmod "):
            reopen(folder)
        path.chmod(before)
    (tmp_path / "ann").chmod(0o750)
    with pytest.raises(RunFailed, match="open to other users: chmod 700 "):
        open_user(tmp_path / "ann", passphrase=f"{WORDS} of ann", allow_insecure=True)


def test_one_command_at_a_time_works_on_a_folder(tmp_path: Path) -> None:
    insecure_authority(tmp_path / "authority", users=("ann",))
    with locked(tmp_path / "authority"):
        for action in (
            lambda: reopen(tmp_path / "authority"),
            lambda: revoke_member(tmp_path / "authority", "ann"),
        ):
            with pytest.raises(RunFailed, match="another command"):
                action()
    reopen(tmp_path / "authority")


def test_names_and_keys_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, users=("ann",))
    new_user(folder, "bob")
    before = files_of(folder)
    own = (tmp_path / "ann" / "public.key").read_bytes()
    cases: list[tuple[type[HelbaError], str, Callable[[], object]]] = [
        (Refused, "enrolled already", lambda: enrol(folder, "ann", home="bob")),
        (Refused, "another name", lambda: enrol(folder, "bob", home="ann")),
        (InvalidInput, "name", lambda: enrol(folder, " bob", home="bob")),
        (Refused, "nobody of the name", lambda: revoke_member(folder, "eve", allow_insecure=True)),
        (
            Refused,
            "nobody of the name",
            lambda: replace_member_key(
                folder, "eve", public_key=own, passphrase=WORDS, allow_insecure=True
            ),
        ),
        (
            InvalidInput,
            "collective key",
            lambda: update_user(
                tmp_path / "ann", tmp_path / "ann" / "public.key", allow_insecure=True
            ),
        ),
    ]
    for kind, line, action in cases:
        with pytest.raises(kind, match=line):
            action()
    assert files_of(folder) == before
    revoke_member(folder, "ann", allow_insecure=True)
    with pytest.raises(Refused, match="revoked already"):
        revoke_member(folder, "ann", allow_insecure=True)
    with pytest.raises(Refused, match="is revoked: enrol again"):
        replace_member_key(folder, "ann", public_key=own, passphrase=WORDS, allow_insecure=True)


def test_where_keys_are_shared_nobody_has_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "authority"
    insecure_authority(folder, keys="shared")
    with pytest.raises(Refused, match="share one key"):
        new_user(folder, "ann")
    with pytest.raises(Refused, match="share one key"):
        revoke_member(folder, "ann", allow_insecure=True)
    rotate(folder)
    open_server(folder / "server", allow_insecure=True)
