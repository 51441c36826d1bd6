"""Keys, by who may hold them.

| key | who holds it | what it allows |
|---|---|---|
| secret | the opener, or a user, alone | to decrypt |
| public | everybody | to encrypt, to re-randomise |
| evaluation | the server | products and the automorphism |
| re-encryption | the server; with the recipient's secret it is this one | to change keys |

A key is named by the digest of its public part. Secret keys are neither printed nor pickled; the
wire format writes them only where the caller says so (`helba.ring.wire`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from helba.ring.backend import Backend
from helba.ring.parameters import RingParameters

KEY_ID_BYTES = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class _Key:
    backend: Backend = field(repr=False)
    key_id: bytes
    payload: Any = field(repr=False)

    @property
    def parameters(self) -> RingParameters:
        """The ring that the key is of."""
        return self.backend.parameters

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is stored by helba.ring.wire, not pickled or copied")


@dataclass(frozen=True, kw_only=True, eq=False)
class PublicKey(_Key):
    """Encrypts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluationKey(_Key):
    """Relinearises products; with `automorphism` s it also takes X to X^s."""

    automorphism: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class SecretKey(_Key):
    """Decrypts: only its owner has it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReencryptionKey(_Key):
    """Turns ciphertexts under `key_id` into ciphertexts under `recipient_id`."""

    recipient_id: bytes


@dataclass(frozen=True, kw_only=True)
class KeyPair:
    """The three keys of one owner, as `make_keys` makes them."""

    secret: SecretKey
    public: PublicKey
    evaluation: EvaluationKey


@dataclass(frozen=True, kw_only=True)
class Recipient:
    """An opener with a key of its own: its public key, and the way to it."""

    public: PublicKey
    reencryption: ReencryptionKey
