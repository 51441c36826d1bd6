"""Tokens: their form, what is kept of them, and who loses one."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import pytest

from helba.errors import DamagedData, InvalidInput, Refused
from helba.service.protocol.keystore import list_members, revoke_member
from helba.service.protocol.serverfiles import drop_user
from helba.service.protocol.tokens import (
    TOKEN_KINDS,
    drop_token_hash,
    hash_token,
    make_token,
    read_authority_hash,
    read_token_hash,
    read_token_hashes,
    require_token_hash,
    same_hash,
    token_path,
    write_authority_hash,
    write_token_hash,
)
from tests.reference.protocol.folders import insecure_authority, mode_of, rotate

pytestmark = pytest.mark.usefixtures("cheap_vault")
ANN, BOB = bytes(range(16)), bytes(range(16, 32))


@pytest.mark.parametrize("kind", TOKEN_KINDS)
def test_token_has_its_prefix_and_is_new_each_time(kind: str) -> None:
    made = {make_token(kind) for _ in range(50)}
    assert len(made) == 50
    assert all(token.startswith(f"helba_{kind[0]}_") and len(token) == 51 for token in made)


def test_hash_is_sha256_of_the_whole_token() -> None:
    token = make_token("user")
    assert hash_token(token) == hashlib.sha256(token.encode()).hexdigest()
    assert hash_token(token, kind="user") == hash_token(token)


def test_text_that_is_no_token_is_refused_and_not_repeated() -> None:
    token = make_token("user")
    for text in ("", "x", token[:-1], token + "a", token + "\n", f" {token}", "é" * 51, "x" * 51):
        with pytest.raises(Refused) as caught:
            hash_token(text)
        assert not text or text not in str(caught.value) or len(text) == 1
    with pytest.raises(Refused, match="no token of authority"):
        hash_token(token, kind="authority")
    with pytest.raises(InvalidInput):
        make_token("server")


def test_hash_of_another_form_is_refused_and_not_repeated() -> None:
    good = secrets.token_hex(32)
    assert require_token_hash(good) == good
    for text in (None, "", good[:-1], good.upper() + "A", good + "0", make_token("user")):
        with pytest.raises(InvalidInput) as caught:
            require_token_hash(text)
        assert not text or text not in str(caught.value)


def test_hashes_are_compared_as_wholes() -> None:
    one, other = hash_token(make_token("user")), hash_token(make_token("user"))
    assert same_hash(one, one)
    assert not same_hash(one, other)
    assert not same_hash(one, one[:-1])


def test_hashes_are_kept_in_private_files_and_read_back(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir(mode=0o700)
    server = tmp_path / "server"
    assert read_token_hashes(server) == {}
    assert read_authority_hash(server) is None
    first, second, other = (hash_token(make_token("user")) for _ in range(3))
    write_token_hash(server, ANN, first)
    write_token_hash(server, ANN, second)
    write_token_hash(server, BOB, other)
    write_authority_hash(server, first)
    assert read_token_hashes(server) == {ANN: second, BOB: other}
    assert (read_token_hash(server, BOB), read_authority_hash(server)) == (other, first)
    assert mode_of(token_path(server, ANN)) == mode_of(server / "authority.sha256") == 0o600
    drop_token_hash(server, BOB)
    drop_token_hash(server, BOB)
    assert read_token_hash(server, BOB) is None
    drop_user(server, ANN)
    assert read_token_hashes(server) == {}


def test_mark_of_revocation_outweighs_a_token(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir(mode=0o700)
    write_token_hash(tmp_path / "server", ANN, hash_token(make_token("user")))
    token_path(tmp_path / "server", ANN).with_suffix(".revoked").touch(mode=0o600)
    assert read_token_hashes(tmp_path / "server") == {}


def test_damaged_hash_is_named_and_stray_files_are_nobodys(tmp_path: Path) -> None:
    server = tmp_path / "server"
    server.mkdir(mode=0o700)
    text = hash_token(make_token("user"))
    write_token_hash(server, ANN, text)
    (server / "users" / "notes.token").write_text("mine")
    assert read_token_hashes(server) == {ANN: text}
    token_path(server, ANN).write_text("nonsense")
    with pytest.raises(DamagedData, match=rf"{ANN.hex()}\.token: this is no hash"):
        read_token_hashes(server)


def test_rotation_leaves_tokens_to_users_who_stay(folder: Path) -> None:
    insecure_authority(folder, users=("ann", "bob"))
    server = folder / "server"
    hashes = {each.id: hash_token(make_token("user")) for each in list_members(folder)}
    for user, text in hashes.items():
        write_token_hash(server, user, text)
    rotate(folder)
    assert read_token_hashes(server) == hashes
    gone = revoke_member(folder, "ann", allow_insecure=True)
    del hashes[gone.id]
    assert read_token_hashes(server) == hashes
