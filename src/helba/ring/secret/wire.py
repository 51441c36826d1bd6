"""Secret keys as bytes, in the format of `helba.ring.wire`."""

from __future__ import annotations

from helba.errors import DamagedData
from helba.ring.key import PublicKey
from helba.ring.secret.key import SecretKey
from helba.ring.wire import dump_any_key, load_any_key


def dump_secret_key(key: SecretKey) -> bytes:
    """Return a secret key in the clear: who has these bytes can decrypt everything."""
    return dump_any_key(key, kind="secret key")


def load_secret_key(data: bytes | memoryview, *, public_key: PublicKey) -> SecretKey:
    """Return the secret key of a public key, or raise `DamagedData`.

    It must decrypt what the public key encrypts, modulo all primes.
    """
    backend = public_key.backend
    read = load_any_key(data, backend=backend, kind="secret key", key=public_key.key_id)
    if not backend.is_pair(read["payload"], public_key.payload):
        raise DamagedData("the secret key is not that of the public key")
    return SecretKey(**read)
