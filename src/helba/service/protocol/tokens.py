"""Bearer tokens: who holds one may speak for a user, for the authority, or enrol once.

    helba_u_...     a user's, for the server         users/<id>.token of a server's folder
    helba_a_...     the authority's, for the server  authority.sha256 of a server's folder
    helba_i_...     an invitation, for the authority invitations.json of an authority's folder

A token is 32 random bytes in the URL's base64, after the prefix of its kind. Who checks one keeps
its SHA-256 only, in hexadecimal digits: 256 bits of chance need neither salt nor a slow hash. No
error carries a token or a hash.

Goes with the old service.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from pathlib import Path

from helba.errors import DamagedData, InvalidInput, Refused, require_choice
from helba.reference.protocol.wire.messages import ID_BYTES
from helba.service.protocol.files import USERS, delete_file
from helba.service.protocol.vault import make_private_folder, read_private, write_private

TOKEN_KINDS = {"user": "helba_u_", "authority": "helba_a_", "invitation": "helba_i_"}
AUTHORITY_HASH, TOKEN = "authority.sha256", ".token"
REVOKED = ".revoked"  # the mark of `serverfiles`
TOKEN_BYTES = 32
FORM = re.compile(r"helba_([uai])_[A-Za-z0-9_-]{43}")
HASH = re.compile(r"[0-9a-f]{64}")
NAME = re.compile(f"[0-9a-f]{{{2 * ID_BYTES}}}")


def make_token(kind: str) -> str:
    """Return a new token of a kind: "user", "authority" or "invitation"."""
    require_choice("kind", kind, TOKEN_KINDS)
    return TOKEN_KINDS[kind] + secrets.token_urlsafe(TOKEN_BYTES)


def hash_token(token: str, *, kind: str | None = None) -> str:
    """Return the hash of a token, or raise `Refused` if the text is none, or of another kind."""
    if not FORM.fullmatch(token) or not token.startswith(TOKEN_KINDS[kind] if kind else "helba_"):
        raise Refused(f"this is no token of {kind or 'helba'}")
    return hashlib.sha256(token.encode("ascii")).hexdigest()


def require_token_hash(text: str | None) -> str:
    """Return the text if it has the form of a token's hash, or raise `InvalidInput`."""
    if text is None or not HASH.fullmatch(text):
        found = "none" if text is None else "something else"
        raise InvalidInput("hash of the token", found, "64 hexadecimal digits")
    return text


def same_hash(one: str, other: str) -> bool:
    """Return whether two hashes are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(one.encode(), other.encode())


# -- in a server's folder


def token_path(folder: Path, user: bytes) -> Path:
    """Return where a server's folder has the hash of a user's token."""
    return folder / USERS / f"{user.hex()}{TOKEN}"


def write_token_hash(folder: Path, user: bytes, hash: str) -> None:
    """Keep the hash of a user's token, in place of the one before."""
    make_private_folder(folder / USERS)
    write_private(token_path(folder, user), require_token_hash(hash).encode())


def drop_token_hash(folder: Path, user: bytes) -> None:
    """Delete the hash of a user's token, if there is one."""
    if token_path(folder, user).exists():
        delete_file(token_path(folder, user))


def read_token_hashes(folder: Path) -> dict[bytes, str]:
    """Return the hashes of all users' tokens; those of users with a mark of revocation are left."""
    return {
        bytes.fromhex(path.stem): _read_hash(path)
        for path in sorted((folder / USERS).glob(f"*{TOKEN}"))
        if NAME.fullmatch(path.stem) and not path.with_suffix(REVOKED).exists()
    }


def read_token_hash(folder: Path, user: bytes) -> str | None:
    """Return the hash of a user's token, or None if the folder has none."""
    path = token_path(folder, user)
    return _read_hash(path) if path.exists() else None


def write_authority_hash(folder: Path, hash: str) -> None:
    """Keep the hash of the authority's token."""
    make_private_folder(folder)
    write_private(folder / AUTHORITY_HASH, require_token_hash(hash).encode())


def read_authority_hash(folder: Path) -> str | None:
    """Return the hash of the authority's token, or None if the folder has none."""
    path = folder / AUTHORITY_HASH
    return _read_hash(path) if path.exists() else None


def _read_hash(path: Path) -> str:
    text = read_private(path).decode("latin-1").strip()
    if not HASH.fullmatch(text):
        raise DamagedData(f"{path}: this is no hash of a token")
    return text
