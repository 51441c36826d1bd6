"""The whole story from folders: a server in a process of its own, and users who come and go."""

from __future__ import annotations

from pathlib import Path

import pytest

from helba.errors import DamagedData, Refused
from helba.problems.toy import Toy
from helba.reference.engine import get_scheme
from helba.service.protocol.keystore import open_authority, revoke_member, rotate_authority
from helba.service.protocol.serverfiles import enrolment_path, inward_path
from helba.service.protocol.userstore import update_user
from helba.service.protocol.vault import read_private
from tests.engines import BOTH
from tests.reference.protocol.folders import (
    WORDS,
    Players,
    enrol,
    files_of,
    insecure_authority,
    mode_of,
    new_user,
    opened,
    started,
)
from tests.sweep import in_soak

both = pytest.mark.parametrize("scheme", BOTH)
ROUNDS = {"simulate": 8, "ckks": 3}


pytestmark = pytest.mark.usefixtures("cheap_vault")


@pytest.mark.parametrize("scheme", ["simulate", in_soak("ckks", marks=pytest.mark.ckks)])
def test_users_are_enrolled_play_are_revoked_and_come_back(folder: Path, scheme: str) -> None:
    insecure_authority(folder, scheme=scheme, users=("ann", "bob"))
    ann, bob = opened(folder, "ann"), opened(folder, "bob")
    with started(folder) as server:
        players = Players(server, scheme=scheme)
        players.play([ann, bob], rounds=ROUNDS[scheme])
        learnt = server.status()
        assert (learnt.samples, learnt.users, learnt.rejected) == (ROUNDS[scheme], 2, 0)
        assert learnt.updates > 0

        gone = revoke_member(folder, "ann", allow_insecure=True)
        server.revoke(gone.id)
        assert "revoked" in players.refusal(ann)
        with pytest.raises(Refused, match="revoked"):
            server.tasks(ann.id)
        new_user(folder, "ann", home="ann-again")
        again = opened(folder, "ann", home="ann-again")
        assert "not enrolled" in players.refusal(again)
        players.play([bob], rounds=1)

        user = enrol(folder, "ann", home="ann-again")
        server.enrol(read_private(enrolment_path(folder / "server", user)))
        players.play([again, bob], rounds=2)
        assert "revoked" in players.refusal(ann)
        state = server.save()
    with started(folder, state=state) as server:  # the folder knows it all
        players = Players(server, scheme=scheme)
        assert server.status().users == 2
        assert "revoked" in players.refusal(ann)
        players.play([again, bob], rounds=2)


@pytest.mark.parametrize(
    "scheme", [in_soak("simulate"), pytest.param("ckks", marks=pytest.mark.ckks)]
)
def test_rotation_keeps_every_decision_and_no_old_key(folder: Path, scheme: str) -> None:
    insecure_authority(folder, scheme=scheme, users=("ann", "bob"))
    ann, bob = opened(folder, "ann"), opened(folder, "bob")
    contexts = [each.contexts for each in Toy(seed=7).rounds(4)]
    with started(folder) as server:
        players = Players(server, scheme=scheme)
        players.play([ann, bob], rounds=ROUNDS[scheme])
        before = [players.choose(ann, each) for each in contexts]
        old = files_of(folder)
        rotate_authority(folder, passphrase=WORDS, allow_insecure=True)
        server.rotate(read_private(folder / "server" / "rotation.key"))
        assert not (folder / "server" / "rotation.key").exists()
        with pytest.raises(Refused, match="rotated"):
            players.choose(ann, contexts[0])
        for name in ("ann", "bob"):
            path = folder / "keys-2" / "public.key"
            update_user(folder.parent / name, path, allow_insecure=True)
        ann, bob = opened(folder, "ann"), opened(folder, "bob")
        assert [players.choose(ann, each) for each in contexts] == before
        assert server.status().bits == 0
        players.play([bob, ann], rounds=2, seed=1)
        state = server.save()
    kept = files_of(folder)
    changed = [name for name in old if not name.endswith((".json", ".public"))]
    assert changed
    for name in changed:
        assert old[name] not in kept.values(), name
    with started(folder, state=state) as server:
        players = Players(server, scheme=scheme)
        assert [players.choose(bob, each) for each in contexts[:2]] == [
            players.choose(ann, each) for each in contexts[:2]
        ]


@both
def test_server_folder_holds_no_secret_key(folder: Path, scheme: str) -> None:
    """Not of the collective keys, old or new, nor of a user, in the clear or packed."""
    authority = insecure_authority(folder, scheme=scheme, users=("ann",))
    ann = opened(folder, "ann")
    with started(folder) as server:
        players = Players(server, scheme=scheme)
        players.play([ann], rounds=2)
        rotated = rotate_authority(folder, passphrase=WORDS, allow_insecure=True)
        (folder / "server" / "state").write_bytes(server.save())
    tool, deployment = get_scheme(scheme), authority.deployment
    own = tool.secret_key_to_bytes(ann._secret_key)
    keys = {"old": authority.secret_key_bytes(), "new": rotated.secret_key_bytes(), "ann": own}
    samples = [sample for key in keys.values() for sample in samples_of(key, scheme=scheme)]
    if scheme == "ckks":
        import openfhe as fhe

        whole = fhe.Serialize(authority._keys.secret._payload, fhe.BINARY)
        middle = len(whole) // 2
        samples += [whole[place : place + 64] for place in (middle, middle + 512)]
    assert all(len(set(sample)) > 1 for sample in samples)
    found = files_of(folder / "server")
    assert {"rotation.key", "ledger.json", "state", "public.key"} <= set(found)
    for name, data in found.items():
        assert not any(sample in data for sample in samples), name
        assert WORDS.encode() not in data
        for start in (0, *places_of(b"\x89HELBA\r\n", data)):
            with pytest.raises(DamagedData):
                tool.secret_key_from_bytes(data[start:], parameters=deployment.parameters)
    # what is searched for is found where it is, and what is read is read where it can be
    assert all(sample in b"".join(keys.values()) for sample in samples[:2])
    for key in keys.values():
        tool.secret_key_from_bytes(key, parameters=deployment.parameters)


def samples_of(key: bytes, *, scheme: str) -> list[bytes]:
    """Parts of a secret key; a simulated one has no residues, and is its own digest."""
    if scheme == "simulate":
        return [key[-32:], key]
    middle = len(key) // 2
    return [key[middle : middle + 64], key[-160:-96], key[-32:]]


def places_of(sign: bytes, data: bytes) -> list[int]:
    """Where an envelope begins inside of others, the first few hundred."""
    places, start = [], data.find(sign, 1)
    while start > 0 and len(places) < 300:
        places.append(start)
        start = data.find(sign, start + 1)
    return places


# -- data that arrives switched


def test_inward_keys_are_kept_private_and_go_with_their_user(folder: Path) -> None:
    insecure_authority(folder, keys="switched", users=("ann", "bob"))
    ann, bob = opened(folder, "ann"), opened(folder, "bob")
    with started(folder) as server:
        players = Players(server, scheme="simulate", keys="switched")
        assert "has not arrived" in players.refusal(ann)
        for user in (ann, bob):
            server.introduce(user.id, user.inward_key_bytes())
            path = inward_path(folder / "server", user.id)
            assert mode_of(path) == 0o600
            assert path.read_bytes()
        players.play([ann, bob], rounds=3)
        with pytest.raises(DamagedData):
            server.introduce(ann.id, bob.inward_key_bytes())
    with started(folder) as server:
        players = Players(server, scheme="simulate", keys="switched")
        players.play([ann, bob], rounds=2)
        server.revoke(ann.id)
        assert not inward_path(folder / "server", ann.id).exists()
        assert not enrolment_path(folder / "server", ann.id).exists()
        revoke_member(folder, "ann", allow_insecure=True)
        rotate_authority(folder, passphrase=WORDS, allow_insecure=True)
        assert not list((folder / "server" / "users").glob("*.inward"))
        server.rotate(read_private(folder / "server" / "rotation.key"))
        bob.adopt((folder / "server" / "public.key").read_bytes())
        assert "has not arrived" in players.refusal(bob)
        server.introduce(bob.id, bob.inward_key_bytes())
        players.play([bob], rounds=2)
    with started(folder) as server:
        Players(server, scheme="simulate", keys="switched").play([bob], rounds=1)


# -- what the server is told outlasts it


def test_server_that_is_told_by_messages_only_keeps_its_folder(folder: Path) -> None:
    """The authority's folder may be on another machine: enrolments and rotations come as bytes."""
    insecure_authority(folder, users=("ann",))
    authority = open_authority(folder, passphrase=WORDS, allow_insecure=True)
    ann, bob = opened(folder, "ann"), authority.make_user("bob")
    with started(folder) as server:
        server.enrol(authority.enrolment_of(bob.id))
        server.rotate(authority.rotate())
        for user in (ann, bob):
            user.adopt(authority.public_key_bytes())
        Players(server, scheme="simulate").play([ann, bob], rounds=2)
    with started(folder) as server:
        assert server.status().users == 2
        Players(server, scheme="simulate").play([ann, bob], rounds=2)
        with pytest.raises(DamagedData):
            server.enrol(b"no enrolment")
    assert len(list((folder / "server" / "users").iterdir())) == 2


def test_user_enrolled_or_revoked_before_the_server_rotates_stays_so(folder: Path) -> None:
    insecure_authority(folder, users=("ann", "bob"))
    with started(folder) as server:
        rotate_authority(folder, passphrase=WORDS, allow_insecure=True)
        gone = revoke_member(folder, "ann", allow_insecure=True)
        new_user(folder, "eve")
        eve = enrol(folder, "eve")
        server.rotate(read_private(folder / "server" / "rotation.key"))
        assert not enrolment_path(folder / "server", gone.id).exists()
        server.revoke(gone.id)
    with started(folder) as server:
        assert server.status().users == 2
        assert server.tasks(eve) == ()
        with pytest.raises(Refused):
            server.tasks(gone.id)


def test_state_saved_before_a_rotation_comes_under_the_new_key(folder: Path) -> None:
    """The server was stopped while the authority rotated: its model is not lost."""
    insecure_authority(folder, users=("ann", "bob"))
    ann, bob = opened(folder, "ann"), opened(folder, "bob")
    with started(folder) as server:
        Players(server, scheme="simulate").play([ann, bob], rounds=4)
        before, state = server.status(), server.save()
    rotate_authority(folder, passphrase=WORDS, allow_insecure=True)
    public = (folder / "server" / "public.key").read_bytes()
    with started(folder, state=state) as server:
        after = server.status()
        assert (after.samples, after.updates) == (before.samples, before.updates)
        assert not (folder / "server" / "rotation.key").exists()
        assert not (folder / "server" / "previous.key").exists()
        for user in (ann, bob):
            user.adopt(public)
        Players(server, scheme="simulate").play([ann, bob], rounds=2)
        assert server.status().samples > before.samples
        state = server.save()
    with started(folder, state=state) as server:
        assert server.status().samples > before.samples


def test_revoked_marker_wins_over_an_enrolment_that_a_crash_left(folder: Path) -> None:
    insecure_authority(folder, users=("ann",))
    ann = opened(folder, "ann")
    enrolment_path(folder / "server", ann.id).with_suffix(".revoked").write_bytes(b"")
    with started(folder) as server:
        assert server.status().users == 0
        assert "revoked" in Players(server, scheme="simulate").refusal(ann)
