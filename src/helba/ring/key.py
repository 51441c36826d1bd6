"""Keys, by who may hold them; making them, and the backends that they are of.

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
from functools import lru_cache
from typing import Any, NoReturn

from helba.errors import InvalidInput, WrongVector, require_choice
from helba.extras import missing_openfhe
from helba.ring.backend import Backend
from helba.ring.parameters import RingParameters
from helba.ring.simulate import SimulatedBackend

BACKENDS = ("openfhe", "simulate")


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


def find_backend(name: str, parameters: RingParameters, *, seed: int | None = None) -> Backend:
    """Return the backend of that name, the same one every time.

    With a `seed` the simulator is a new one, with that noise; OpenFHE takes none. `MissingPackage`
    where OpenFHE cannot be loaded.
    """
    require_choice("backend", name, BACKENDS)
    if seed is None:
        return _open_backend(name, parameters)
    if name != "simulate":
        raise InvalidInput("seed", seed, "none: encryption is never seeded, only the simulator is")
    return SimulatedBackend(parameters, seed=seed)


@lru_cache(maxsize=16)
def _open_backend(name: str, parameters: RingParameters) -> Backend:
    if name == "simulate":
        return SimulatedBackend(parameters)
    try:
        from helba.ring.ckks.backend import CkksBackend  # it loads OpenFHE
    except ImportError as error:
        raise missing_openfhe(error) from error
    return CkksBackend(parameters)


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
