"""Secret keys, and making keys of all kinds.

Secret keys are neither printed nor pickled; `helba.ring.secret.wire` writes them where the caller
says so.
"""

from __future__ import annotations

from dataclasses import dataclass

from helba.errors import InvalidInput, WrongVector
from helba.ring.backend import Backend
from helba.ring.key import EvaluationKey, Key, PublicKey, ReencryptionKey, find_backend
from helba.ring.parameters import RingParameters


@dataclass(frozen=True, kw_only=True, eq=False)
class SecretKey(Key):
    """Decrypts: only its owner has it."""


@dataclass(frozen=True, kw_only=True)
class KeyPair:
    """The three keys of one owner, as `make_keys` makes them."""

    secret: SecretKey
    public: PublicKey
    evaluation: EvaluationKey


def make_keys(
    parameters: RingParameters,
    *,
    backend: str | Backend = "openfhe",
    automorphism: int | None = None,
) -> KeyPair:
    """Draw a key pair with its evaluation key; `automorphism` s lets it take X to X^s.

    `backend` is a name, or what `find_backend` returned.
    """
    if automorphism is not None and (
        automorphism % 4 != 1 or not 1 < automorphism < 2 * parameters.ring_dim
    ):
        raise InvalidInput("automorphism", automorphism, "1 modulo 4, from 5 to 2 N")
    engine = find_backend(backend, parameters) if isinstance(backend, str) else backend
    key_id, secret, public, evaluation = engine.make_keys(automorphism=automorphism)
    return KeyPair(
        secret=SecretKey(backend=engine, key_id=key_id, payload=secret),
        public=PublicKey(backend=engine, key_id=key_id, payload=public),
        evaluation=EvaluationKey(
            backend=engine, key_id=key_id, payload=evaluation, automorphism=automorphism
        ),
    )


def make_reencryption_key(secret_key: SecretKey, *, to: PublicKey) -> ReencryptionKey:
    """Return the key that hands ciphertexts on from the owner of `secret_key` to that of `to`.

    It holds the secret key encrypted to the recipient: server and recipient together have it.
    """
    if secret_key.backend is not to.backend:
        raise WrongVector("the two keys have other parameters or another backend")
    return ReencryptionKey(
        backend=secret_key.backend,
        key_id=secret_key.key_id,
        recipient_id=to.key_id,
        payload=secret_key.backend.make_reencryption(secret_key.payload, to.payload),
    )
