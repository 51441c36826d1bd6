"""Making keys, and the backends that they are of."""

from __future__ import annotations

from functools import lru_cache

from helba.errors import InvalidInput, WrongVector, require_choice
from helba.extras import missing_openfhe
from helba.ring.backend import Backend
from helba.ring.key import EvaluationKey, KeyPair, PublicKey, ReencryptionKey, SecretKey
from helba.ring.parameters import RingParameters
from helba.ring.simulate import SimulatedBackend

BACKENDS = ("openfhe", "simulate")


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
