"""A secret at rest: bytes under a passphrase, in a file that only its owner can read.

    write_private(path, seal_secret(secret, passphrase=words, purpose="secret key"))
    secret = open_secret(read_private(path), passphrase=words, purpose="secret key")

A sealed secret is

    magic | version | length of the head | length of the ciphertext | head | ciphertext, tag

The head is JSON and has one form only: cost and salt of scrypt (RFC 7914), nonce of AES-256-GCM,
purpose. All that stands before the ciphertext is associated data of the cipher: what opens is what
was sealed, for the same purpose. Salt and nonce are new each time; the passphrase counts in
Unicode's form NFC, so that it does not matter how a keyboard composes an accent.

Whatever does not fit raises `DamagedData`. The cost that a file asks for is limited before it is
paid: at most 1 GiB of memory. No error carries secret, passphrase or key.

Goes with the old service.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import struct
import time
import unicodedata
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from helba.errors import DamagedData, InvalidInput, RunFailed

# Where a file is written before it gets its name; a younger one may still be under way.
ASIDE = ".*.tmp"
WRITING_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Parameters of scrypt: it takes 128 n r bytes of memory, and time in proportion to n r p."""

    n: int
    r: int
    p: int


MAGIC = b"\x89HELSEC\n"
VERSION = 1
PREFIX = struct.Struct("<8sHIQ")
KEY_BYTES, SALT_BYTES, NONCE_BYTES, TAG_BYTES = 32, 16, 12, 16
COST = Cost(n=1 << 17, r=8, p=1)  # half a second and 128 MiB
MOST_COST = Cost(n=1 << 20, r=32, p=16)
MOST_MEMORY_BYTES = 1 << 30
MOST_HEAD_BYTES = 1 << 10
MOST_SECRET_BYTES = 1 << 30  # the cipher's own limit in `cryptography` is 2^31 - 1
PURPOSE = re.compile(r"[ -~]{1,64}")
OTHERS = stat.S_IRWXG | stat.S_IRWXO


@dataclass(frozen=True, kw_only=True)
class _Head:
    cost: Cost
    salt: bytes
    nonce: bytes
    purpose: str

    def to_bytes(self) -> bytes:
        words = {
            "kdf": {"name": "scrypt", **asdict(self.cost), "salt": self.salt.hex()},
            "cipher": {"name": "aes-256-gcm", "nonce": self.nonce.hex()},
            "purpose": self.purpose,
        }
        return json.dumps(words, sort_keys=True, separators=(",", ":")).encode("ascii")


def seal_secret(secret: bytes, *, passphrase: str, purpose: str) -> bytes:
    """Return the secret under the passphrase; it opens for the same `purpose` only."""
    if len(secret) > MOST_SECRET_BYTES:
        raise InvalidInput("secret", f"{len(secret)} bytes", f"at most {MOST_SECRET_BYTES} bytes")
    _require_purpose(purpose)
    head = _Head(
        cost=COST,
        salt=secrets.token_bytes(SALT_BYTES),
        nonce=secrets.token_bytes(NONCE_BYTES),
        purpose=purpose,
    )
    text = head.to_bytes()
    before = PREFIX.pack(MAGIC, VERSION, len(text), len(secret) + TAG_BYTES) + text
    key = _derive_key(passphrase, cost=head.cost, salt=head.salt)
    return before + AESGCM(key).encrypt(head.nonce, secret, before)


def open_secret(data: bytes, *, passphrase: str, purpose: str) -> bytes:
    """Return what was sealed under the passphrase for `purpose`, or raise `DamagedData`."""
    _require_purpose(purpose)
    start = PREFIX.size + _measure_head(data)
    head = _read_head(data[PREFIX.size : start])
    if head.purpose != purpose:
        raise DamagedData(f"a secret sealed for {head.purpose!r}, not for {purpose!r}")
    key = _derive_key(passphrase, cost=head.cost, salt=head.salt)
    try:
        return AESGCM(key).decrypt(head.nonce, data[start:], data[:start])
    except InvalidTag:
        raise DamagedData("wrong passphrase, or the file was changed") from None


def purpose_of(data: bytes) -> str:
    """Return what a secret was sealed for, as it says: `open_secret` tells whether it is true."""
    return _read_head(data[PREFIX.size : PREFIX.size + _measure_head(data)]).purpose


def change_passphrase(path: Path, *, old: str, new: str) -> None:
    """Seal the secret in a file under another passphrase; it is there all the time.

    Copies that were made of the file before still open with the old one.
    """
    data = read_private(path)
    purpose = purpose_of(data)
    secret = open_secret(data, passphrase=old, purpose=purpose)
    write_private(path, seal_secret(secret, passphrase=new, purpose=purpose))


def _require_purpose(purpose: str) -> None:
    if not PURPOSE.fullmatch(purpose):
        raise InvalidInput("purpose", repr(purpose), "1 to 64 printable characters of ASCII")


def _measure_head(data: bytes) -> int:
    """Return the length of the head of bytes that have the length they announce."""
    if len(data) < PREFIX.size:
        raise DamagedData(f"{len(data)} bytes are too short for a sealed secret")
    magic, version, head_bytes, sealed_bytes = PREFIX.unpack_from(data)
    if magic != MAGIC:
        raise DamagedData("the bytes do not start like a sealed secret of helba")
    if version != VERSION:
        raise DamagedData(f"a sealed secret of version {version}; this is {VERSION}")
    if head_bytes > MOST_HEAD_BYTES:
        raise DamagedData("the head of the sealed secret is longer than any")
    if not TAG_BYTES <= sealed_bytes <= MOST_SECRET_BYTES + TAG_BYTES:
        raise DamagedData("the sealed secret is shorter or longer than any")
    expected = PREFIX.size + head_bytes + sealed_bytes
    if len(data) != expected:
        raise DamagedData(f"the sealed secret has {len(data)} bytes and announces {expected}")
    return int(head_bytes)


def _read_head(text: bytes) -> _Head:
    try:
        words = json.loads(text.decode("ascii"))
        kdf = words["kdf"]
        head = _Head(
            cost=Cost(n=kdf["n"], r=kdf["r"], p=kdf["p"]),
            salt=bytes.fromhex(kdf["salt"]),
            nonce=bytes.fromhex(words["cipher"]["nonce"]),
            purpose=words["purpose"],
        )
        sound = (
            all(type(value) is int for value in asdict(head.cost).values())  # True is none
            and (len(head.salt), len(head.nonce)) == (SALT_BYTES, NONCE_BYTES)
            and PURPOSE.fullmatch(head.purpose) is not None
            and head.to_bytes() == text
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        sound = False
    if not sound:
        raise DamagedData("the head of the sealed secret is not of its form")
    _require_bearable(head.cost)
    return head


def _require_bearable(cost: Cost) -> None:
    """Refuse what would take the machine's memory, and what is no cost of scrypt."""
    n, r, p = cost.n, cost.r, cost.p
    most = MOST_COST
    if n > most.n or r > most.r or p > most.p or 128 * n * r > MOST_MEMORY_BYTES:
        raise DamagedData("the sealed secret asks for more time or memory than is allowed")
    # RFC 7914, section 2: n is a power of 2, greater than 1 and less than 2^(128 r / 8).
    if n < 2 or n & (n - 1) or r < 1 or p < 1 or n >= 1 << (16 * r):
        raise DamagedData("the sealed secret asks for a cost that scrypt does not have")


def _derive_key(passphrase: str, *, cost: Cost, salt: bytes) -> bytes:
    if not passphrase:
        raise InvalidInput("passphrase", "an empty one", "at least one character long")
    # scrypt takes "a" and "a\0" for the same; half a surrogate pair has no bytes.
    if any(letter == "\0" or "\ud800" <= letter <= "\udfff" for letter in passphrase):
        raise InvalidInput("passphrase", "something else", "Unicode text without NUL")
    words = unicodedata.normalize("NFC", passphrase).encode()
    try:
        return Scrypt(salt=salt, length=KEY_BYTES, n=cost.n, r=cost.r, p=cost.p).derive(words)
    except MemoryError:
        mebibytes = 128 * cost.n * cost.r >> 20
        raise RunFailed(f"no {mebibytes} MiB of memory are left for the passphrase") from None


def write_private(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read; it appears whole or not at all."""
    _write_atomically(path, data, mode=0o600)


def write_public(path: Path, data: bytes) -> None:
    """Write a file that all may read, as far as the umask lets them; whole or not at all."""
    _write_atomically(path, data, mode=0o644)


def _write_atomically(path: Path, data: bytes, *, mode: int) -> None:
    aside = path.parent / f".{secrets.token_hex(8)}.tmp"
    try:
        handle = os.open(aside, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
        try:
            with open(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(handle)
            os.replace(aside, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(aside)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise RunFailed(f"cannot write {path}: {error.strerror}") from error


def sweep_folder(path: Path) -> None:
    """Delete what a write that was killed left behind, unless it may still be under way."""
    for aside in path.glob(ASIDE):
        with suppress(OSError):
            if time.time() - aside.stat().st_mtime > WRITING_SECONDS:
                aside.unlink()


def _sync_folder(path: Path) -> None:
    """Let the names in a folder outlast a power cut."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_private(path: Path) -> bytes:
    """Return the bytes of a file of this user that nobody else can read, or raise `RunFailed`."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # does not wait at a pipe
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode):
                raise RunFailed(f"{path} is not a regular file")
            _require_own(path, found, mode="600")
            with open(handle, "rb", closefd=False) as file:
                return file.read()
        finally:
            os.close(handle)
    except OSError as error:
        raise RunFailed(f"cannot read {path}: {error.strerror}") from error


def make_private_folder(path: Path) -> None:
    """Make a folder that only its owner can enter, or check that it is one."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.stat()
    except OSError as error:
        raise RunFailed(f"cannot make the folder {path}: {error.strerror}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise RunFailed(f"{path} is not a folder")
    _require_own(path, found, mode="700")


def _require_own(path: Path, found: os.stat_result, *, mode: str) -> None:
    if found.st_uid != os.geteuid():
        raise RunFailed(f"{path} belongs to another user")
    if found.st_mode & OTHERS:
        raise RunFailed(f"{path} is open to other users: chmod {mode} {path}")
