"""A server's process: it gets a directory of bytes, computes, and tries to read what it holds.

Prints as JSON what came of each attempt to decrypt. The result goes to `result` in the directory,
and re-encrypted to a reader to `answer`.
"""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from helba.errors import HelbaError
from helba.reference.engine import EncryptedVector, Engine, SecretKey, get_scheme
from helba.reference.planning.parameters import Parameters


def attempt(action: Callable[[], object]) -> str:
    """The error's name, or what was read."""
    try:
        found = action()
    except HelbaError as error:
        return type(error).__name__
    return f"read {np.asarray(found).round(3).tolist()}" if found is not None else "nothing"


def decrypt_with_another_key(
    engine: Engine, vector: EncryptedVector, parameters: Parameters, *, forged: bool
) -> object:
    """Use a key of one's own, as it is or under the tag of the true one."""
    secret = get_scheme("ckks").generate_keys(parameters).secret
    if forged:
        secret = SecretKey(
            parameters=parameters,
            tag=vector.tag,
            payload=secret._payload,
            identity=engine.public_key.identity,
        )
    return engine.decrypt(vector, secret_key=secret)


def main(directory: Path) -> None:
    scheme = get_scheme("ckks")
    public_bytes = (directory / "public").read_bytes()
    evaluation_bytes = (directory / "evaluation").read_bytes()
    public = scheme.public_key_from_bytes(public_bytes, allow_insecure=True)
    evaluation = scheme.evaluation_key_from_bytes(evaluation_bytes, allow_insecure=True)
    engine = scheme.engine(public, evaluation_key=evaluation)
    left, right = (
        engine.vector_from_bytes((directory / name).read_bytes()) for name in ("left", "right")
    )
    result = engine.rotate(engine.multiply(left, right), 1)
    (directory / "result").write_bytes(engine.vector_to_bytes(result))
    reencryption_bytes = (directory / "reencryption").read_bytes()
    key = scheme.reencryption_key_from_bytes(reencryption_bytes, parameters=public.parameters)
    reader_bytes = (directory / "reader").read_bytes()
    reader = scheme.engine(scheme.public_key_from_bytes(reader_bytes, parameters=public.parameters))
    sent = reader.flood(engine.reencrypt(result, key=key), amount=2.0**-10)
    (directory / "answer").write_bytes(reader.vector_to_bytes(sent))
    secrets = sum(isinstance(thing, SecretKey) for thing in gc.get_objects())
    parameters = public.parameters
    attempts = {
        "public key as secret key": lambda: scheme.secret_key_from_bytes(
            public_bytes, allow_insecure=True
        ),
        "evaluation key as secret key": lambda: scheme.secret_key_from_bytes(
            evaluation_bytes, allow_insecure=True
        ),
        "re-encryption key as secret key": lambda: scheme.secret_key_from_bytes(
            reencryption_bytes, allow_insecure=True
        ),
        "own key, forged tag, answer": lambda: decrypt_with_another_key(
            reader, sent, parameters, forged=True
        ),
        "own key": lambda: decrypt_with_another_key(engine, left, parameters, forged=False),
        "own key, forged tag": lambda: decrypt_with_another_key(
            engine, left, parameters, forged=True
        ),
        "own key, forged tag, result": lambda: decrypt_with_another_key(
            engine, result, parameters, forged=True
        ),
    }
    found = {name: attempt(action) for name, action in attempts.items()}
    print(json.dumps({"secret_keys": secrets, "attempts": found}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
