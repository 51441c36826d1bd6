"""Secrets at rest: what opens is what was sealed, for whoever has the passphrase."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import unicodedata
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from helba.errors import DamagedData, InvalidInput, RunFailed
from helba.service.protocol import vault
from helba.service.protocol.vault import (
    Cost,
    open_secret,
    purpose_of,
    seal_secret,
)

CHEAP = Cost(n=16, r=1, p=1)
REAL = vault.COST
SECRET = b"the number of the beast, and of the bank account: 666"
WORDS = "correct horse battery staple"
PURPOSE = "secret key"

passphrases = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)


pytestmark = pytest.mark.usefixtures("cheap_vault")


@pytest.fixture
def without_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is refused is refused before the cost is paid."""
    forbid_scrypt(monkeypatch)


def forbid_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise AssertionError("scrypt was run")

    monkeypatch.setattr(vault, "Scrypt", fail)


def seal(secret: bytes = SECRET, *, passphrase: str = WORDS, purpose: str = PURPOSE) -> bytes:
    return seal_secret(secret, passphrase=passphrase, purpose=purpose)


def unseal(data: bytes, *, passphrase: str = WORDS, purpose: str = PURPOSE) -> bytes:
    return open_secret(data, passphrase=passphrase, purpose=purpose)


def split(data: bytes) -> tuple[dict[str, Any], bytes, int]:
    """Head and ciphertext, and where the ciphertext starts."""
    head_bytes = int.from_bytes(data[10:14], "little")
    start = 22 + head_bytes
    return json.loads(data[22:start]), data[start:], start


def join(head: object, ciphertext: bytes) -> bytes:
    text = head if isinstance(head, bytes) else canonical(head)
    return vault.PREFIX.pack(vault.MAGIC, 1, len(text), len(ciphertext)) + text + ciphertext


def canonical(head: object) -> bytes:
    return json.dumps(head, sort_keys=True, separators=(",", ":")).encode()


HEAD: dict[str, Any] = {
    "kdf": {"name": "scrypt", "n": 16, "r": 1, "p": 1, "salt": "00" * 16},
    "cipher": {"name": "aes-256-gcm", "nonce": "00" * 12},
    "purpose": PURPOSE,
}
SEALED = join(HEAD, bytes(60))


def require_silent(error: BaseException) -> None:
    """One line, and neither secret nor passphrase in it, its arguments or what it came from."""
    assert "\n" not in str(error)
    seen: BaseException | None = error
    while seen is not None:
        for text in (str(seen), repr(seen), repr(seen.args), repr(vars(seen))):
            assert WORDS not in text
            assert repr(SECRET)[2:-1] not in text
            assert SECRET.hex() not in text
        seen = seen.__cause__ or seen.__context__


def require_refused(data: bytes, *, match: str | None = None, **arguments: str) -> None:
    with pytest.raises(DamagedData, match=match) as caught:
        unseal(data, **arguments)
    require_silent(caught.value)


@given(secret=st.binary(max_size=4096), passphrase=passphrases)
def test_secret_survives_its_seal(secret: bytes, passphrase: str) -> None:
    assert unseal(seal(secret, passphrase=passphrase), passphrase=passphrase) == secret


@pytest.mark.parametrize("size", [0, 1, 4096, 3_000_000])
def test_secret_of_any_size_survives(size: int) -> None:
    secret = os.urandom(size)
    data = seal(secret)
    assert unseal(data) == secret
    assert len(split(data)[1]) == size + 16


@given(passphrases, passphrases)
def test_other_passphrase_does_not_open(one: str, other: str) -> None:
    data = seal(passphrase=one)
    if unicodedata.normalize("NFC", one) == unicodedata.normalize("NFC", other):
        assert unseal(data, passphrase=other) == SECRET
    else:
        line = "^wrong passphrase, or the file was changed$"
        require_refused(data, match=line, passphrase=other)


def test_accent_opens_however_it_was_composed() -> None:
    assert unseal(seal(passphrase="caf\u00e9 noir"), passphrase="cafe\u0301 noir") == SECRET


def test_seal_hides_the_secret_and_is_new_each_time() -> None:
    one, other = seal(), seal()
    assert SECRET not in one
    assert WORDS.encode() not in one
    assert not any(SECRET[i : i + 6] in one for i in range(len(SECRET) - 6))
    (head, sealed, _), (other_head, other_sealed, _) = split(one), split(other)
    assert sealed != other_sealed
    assert head["kdf"]["salt"] != other_head["kdf"]["salt"]
    assert head["cipher"]["nonce"] != other_head["cipher"]["nonce"]


@pytest.mark.parametrize("cost", [CHEAP, REAL], ids=["cheap", "real"])
def test_format_opens_with_the_scrypt_of_the_standard_library(
    monkeypatch: pytest.MonkeyPatch, cost: Cost
) -> None:
    monkeypatch.setattr(vault, "COST", cost)
    words = "pa\u00dfwort \u2603"
    data = seal(passphrase=words)
    head, sealed, start = split(data)
    assert data[:10] == b"\x89HELSEC\n\x01\x00"
    assert int.from_bytes(data[14:22], "little") == len(sealed)
    assert data[22:start] == canonical(head)
    salt, nonce = bytes.fromhex(head["kdf"]["salt"]), bytes.fromhex(head["cipher"]["nonce"])
    assert head == {
        "kdf": {"name": "scrypt", "n": cost.n, "r": cost.r, "p": cost.p, "salt": salt.hex()},
        "cipher": {"name": "aes-256-gcm", "nonce": nonce.hex()},
        "purpose": PURPOSE,
    }
    assert (len(salt), len(nonce)) == (16, 12)
    key = hashlib.scrypt(
        words.encode(), salt=salt, n=cost.n, r=cost.r, p=cost.p, dklen=32, maxmem=1 << 28
    )
    assert AESGCM(key).decrypt(nonce, sealed, data[:start]) == SECRET
    forged = join(head, AESGCM(key).encrypt(nonce, b"other", data[:start]))
    require_refused(forged, match="was changed", passphrase=words)  # its length counts
    assert unseal(data, passphrase=words) == SECRET


def test_cost_is_what_it_should_be() -> None:
    assert Cost(n=2**17, r=8, p=1) == REAL


@pytest.mark.parametrize("bits", [0x01, 0x02, 0x20, 0x80, 0xFF])
def test_every_changed_byte_is_refused(bits: int) -> None:
    data = seal()
    start = split(data)[2]
    places = [*range(start), *range(start, len(data), 7), *range(len(data) - 17, len(data))]
    for place in places:
        changed = bytearray(data)
        changed[place] ^= bits
        require_refused(bytes(changed))


@examples(max_examples=200)
@given(st.data())
def test_damaged_bytes_are_refused(data: st.DataObject) -> None:
    whole = seal()
    first = data.draw(st.integers(0, len(whole)))
    last = data.draw(st.integers(first, len(whole)))
    changed = whole[:first] + data.draw(st.binary(max_size=40)) + whole[last:]
    if changed != whole:
        require_refused(changed)


@given(st.binary(max_size=400))
def test_bytes_that_are_no_secret_are_refused(data: bytes) -> None:
    require_refused(data)
    require_refused(join(data, bytes(16)))


def test_cut_or_longer_bytes_are_refused_before_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    data = seal(bytes(2000))
    forbid_scrypt(monkeypatch)
    for length in [*range(300), *range(300, len(data), 97), len(data) - 16, len(data) - 1]:
        require_refused(data[:length], match="too short|announces")
    require_refused(data + b"x", match="announces")
    require_refused(data + data, match="announces")


@pytest.mark.usefixtures("without_scrypt")
@pytest.mark.parametrize(
    ("place", "value", "line"),
    [
        (slice(0, 8), b"\x89HELSRV\n", "do not start like a sealed secret"),
        (slice(8, 10), b"\x02\x00", "of version 2; this is 1"),
        (slice(8, 10), b"\x00\x00", "of version 0; this is 1"),
        (slice(10, 14), b"\xff\xff\xff\xff", "head of the sealed secret is longer than any"),
        (slice(14, 22), b"\xff" * 8, "shorter or longer than any"),
        (slice(14, 22), b"\x0f" + bytes(7), "shorter or longer than any"),
        (slice(22, 23), b"[", "not of its form"),
    ],
)
def test_other_kind_version_or_length_is_refused(place: slice, value: bytes, line: str) -> None:
    data = bytearray(SEALED)
    data[place] = value
    require_refused(bytes(data), match=line)


def with_value(path: tuple[str, ...], value: object) -> dict[str, Any]:
    head: dict[str, Any] = json.loads(json.dumps(HEAD))
    inner = head
    for name in path[:-1]:
        inner = inner[name]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return head


@pytest.mark.usefixtures("without_scrypt")
@pytest.mark.parametrize(
    "path",
    [
        *(("kdf",), ("cipher",), ("purpose",)),
        *(("kdf", name) for name in ("name", "n", "r", "p", "salt", "other")),
        *(("cipher", name) for name in ("name", "nonce", "other")),
        ("other",),
    ],
)
@pytest.mark.parametrize(
    "value", [..., None, True, 1.0, 1e400, "", "x", "00", "AB" * 16, "AB" * 12, [], {}, "\u2603"]
)
def test_head_of_another_form_is_refused(path: tuple[str, ...], value: object) -> None:
    if path == ("purpose",) and value in ("x", "00", "AB" * 16, "AB" * 12):
        require_refused(join(with_value(path, value), bytes(60)), match="sealed for")
    elif "other" not in path or value is not ...:
        require_refused(join(with_value(path, value), bytes(60)), match="not of its form")


@pytest.mark.usefixtures("without_scrypt")
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(HEAD).encode(),
        canonical(HEAD) + b" ",
        canonical(HEAD).replace(b'"p":1', b'"p":1,"p":1'),
        canonical(HEAD).replace(b'"p":1', b'"p":' + b"1" * 600),
        canonical(HEAD).replace(b"secret", b"\\u0073ecret"),
        json.dumps(HEAD, sort_keys=True, separators=(",", ":")).encode("utf-16"),
        b"[" * 1024,
        b"",
        b"null",
    ],
)
def test_head_has_one_form_only(text: bytes) -> None:
    line = "not of its form|more time or memory"
    require_refused(join(text, bytes(60)), match=line)


@pytest.mark.usefixtures("without_scrypt")
@pytest.mark.parametrize(
    "cost",
    [
        *(Cost(n=2**21, r=1, p=1), Cost(n=2**62, r=8, p=1), Cost(n=10**400, r=8, p=1)),
        *(Cost(n=16, r=33, p=1), Cost(n=16, r=1, p=17), Cost(n=16, r=2**40, p=1)),
        *(Cost(n=2**20, r=9, p=1), Cost(n=2**19, r=17, p=1), Cost(n=2**20, r=32, p=16)),
    ],
)
def test_cost_past_its_limits_is_refused_before_scrypt(cost: Cost) -> None:
    words = {**HEAD["kdf"], "n": cost.n, "r": cost.r, "p": cost.p}
    data = join({**HEAD, "kdf": words}, bytes(60))
    require_refused(data, match="more time or memory than is allowed")


@pytest.mark.usefixtures("without_scrypt")
@pytest.mark.parametrize(
    "cost",
    [
        *(replace(CHEAP, n=n) for n in (-16, 0, 1, 3, 17, 2**17 - 1)),
        *(replace(CHEAP, n=n) for n in (2**16, 2**17)),  # too large for r = 1
        *(replace(CHEAP, r=0), replace(CHEAP, r=-1), replace(CHEAP, p=0), replace(CHEAP, p=-1)),
    ],
)
def test_cost_that_scrypt_does_not_have_is_refused(cost: Cost) -> None:
    words = {**HEAD["kdf"], "n": cost.n, "r": cost.r, "p": cost.p}
    require_refused(join({**HEAD, "kdf": words}, bytes(60)), match="scrypt does not have")


@pytest.mark.parametrize(
    "cost",
    [Cost(n=2, r=1, p=1), Cost(n=2**15, r=1, p=1), Cost(n=16, r=32, p=16), Cost(n=64, r=3, p=5)],
)
def test_other_cost_within_the_limits_opens(monkeypatch: pytest.MonkeyPatch, cost: Cost) -> None:
    monkeypatch.setattr(vault, "COST", cost)
    data = seal()
    monkeypatch.setattr(vault, "COST", CHEAP)
    assert unseal(data) == SECRET


def test_largest_costs_reach_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    class Scrypt:
        def __init__(self, *, n: int, r: int, p: int, **_: object) -> None:
            asked.append(Cost(n=n, r=r, p=p))

        def derive(self, words: bytes) -> bytes:
            raise MemoryError(words)

    monkeypatch.setattr(vault, "Scrypt", Scrypt)
    costs = [Cost(n=2**20, r=8, p=16), Cost(n=2**18, r=32, p=16)]
    for cost in costs:
        words = {**HEAD["kdf"], "n": cost.n, "r": cost.r, "p": cost.p}
        with pytest.raises(RunFailed, match=r"^no 1024 MiB of memory are left") as caught:
            unseal(join({**HEAD, "kdf": words}, bytes(60)))
        assert caught.value.__suppress_context__
    assert asked == costs


@pytest.mark.usefixtures("without_scrypt")
def test_other_purpose_is_refused() -> None:
    line = "^a secret sealed for 'secret key', not for 'state'$"
    require_refused(SEALED, match=line, purpose="state")


def test_purpose_can_be_read_without_the_passphrase(monkeypatch: pytest.MonkeyPatch) -> None:
    sealed = seal()
    forbid_scrypt(monkeypatch)
    assert purpose_of(sealed) == PURPOSE
    for damaged in (b"", sealed[:-1], sealed.replace(b"purpose", b"propose")):
        with pytest.raises(DamagedData):
            purpose_of(damaged)


def test_purpose_is_authenticated() -> None:
    head, sealed, _ = split(seal())
    data = join({**head, "purpose": "state"}, sealed)
    require_refused(data, match="was changed", purpose="state")


@pytest.mark.parametrize("purpose", ["", "x" * 65, "two\nlines", "caf\u00e9", "\0"])
def test_purpose_must_be_a_short_line(purpose: str) -> None:
    for act in (lambda: seal(purpose=purpose), lambda: unseal(SEALED, purpose=purpose)):
        with pytest.raises(InvalidInput, match=r"^purpose must be") as caught:
            act()
        require_silent(caught.value)


@pytest.mark.usefixtures("without_scrypt")
@pytest.mark.parametrize("passphrase", ["", WORDS + "\0", WORDS + "\ud800", "\udcff" + WORDS])
def test_passphrase_that_is_none_is_refused(passphrase: str) -> None:
    for act in (lambda: seal(passphrase=passphrase), lambda: unseal(SEALED, passphrase=passphrase)):
        with pytest.raises(InvalidInput, match=r"^passphrase must be") as caught:
            act()
        require_silent(caught.value)


@pytest.mark.usefixtures("without_scrypt")
def test_secret_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault, "MOST_SECRET_BYTES", len(SECRET) - 1)
    with pytest.raises(InvalidInput, match=r"^secret must be at most 52 bytes") as caught:
        seal()
    require_silent(caught.value)


def test_importing_helba_loads_no_cryptography() -> None:
    code = (
        "import helba, sys; print(*{'cryptography', 'helba.service.protocol'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
