"""Public keys, by who may hold them, and the backends that they are of.

| key | who holds it | what it allows |
|---|---|---|
| secret (`helba.ring.secret`) | the opener, or a user, alone | to decrypt |
| public | everybody | to encrypt, to re-randomise |
| evaluation | the server | products and the automorphism |
| re-encryption | the server; with the recipient's secret it is this one | to change keys |

A key is named by the digest of its public part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

from helba.errors import InvalidInput, require_choice, require_whole
from helba.extras import missing_openfhe
from helba.ring.backend import Backend
from helba.ring.parameters import RingParameters
from helba.ring.simulate import SimulatedBackend

BACKENDS = ("openfhe", "simulate")


@dataclass(frozen=True, kw_only=True, eq=False)
class Key:
    """A key of one ring and backend; it is neither printed nor pickled."""

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
class PublicKey(Key):
    """Encrypts."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EvaluationKey(Key):
    """Relinearises products; with `automorphism` s it also takes X to X^s."""

    automorphism: int | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class ReencryptionKey(Key):
    """Turns ciphertexts under `key_id` into ciphertexts under `recipient_id`."""

    recipient_id: bytes


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
    require_whole("seed", seed, least=0, most=2**64 - 1)
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
