"""What one process makes at random, as JSON: `fresh`, `forked` or `unguarded`.

`fresh PUBLIC_KEY_FILE` prints digests of a ciphertext under that key and of a new key. `forked`
prints what a forked child gets from the guarded operations. `unguarded` forks, uses OpenFHE
directly, and prints digests of what parent and child made.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openfhe as fhe

from helba.errors import EngineError
from helba.reference.engine import get_scheme
from helba.reference.engine.ckks.context import open_context
from helba.reference.planning.parameters import insecure_parameters

PARAMETERS = insecure_parameters(ring_dim=1 << 10, depth=3)
VALUES = [1.0, 2.0, 3.0, 4.0]


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def make_fresh(path: Path) -> dict[str, str]:
    scheme = get_scheme("ckks")
    public = scheme.public_key_from_bytes(path.read_bytes(), parameters=PARAMETERS)
    engine = scheme.engine(public)
    keys = scheme.generate_keys(PARAMETERS)
    return {
        "ciphertext": digest(engine.vector_to_bytes(engine.encrypt(VALUES))),
        "public key": digest(scheme.public_key_to_bytes(keys.public)),
        "secret key": digest(scheme.secret_key_to_bytes(keys.secret)),
    }


def in_child(action: Callable[[], Any]) -> Any:
    """What `action` returns in a forked child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.write(writer, json.dumps(action()).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return json.loads(answer)


def name_of_error(action: Callable[[], Any]) -> str:
    try:
        action()
    except EngineError as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def fork_guarded() -> dict[str, str]:
    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(PARAMETERS)
    engine = scheme.engine(keys.public, evaluation_key=keys.evaluation)
    vector = engine.encrypt(VALUES)
    request, _ = engine.begin_refresh(vector)
    actions: dict[str, Callable[[], Any]] = {
        "encrypt": lambda: engine.encrypt(VALUES),
        "generate keys": lambda: scheme.generate_keys(PARAMETERS),
        "begin refresh": lambda: engine.begin_refresh(vector),
        "answer refresh": lambda: engine.answer_refresh(request, secret_key=keys.secret),
    }

    def attempt_all() -> dict[str, str]:
        return {name: name_of_error(action) for name, action in actions.items()}

    found: dict[str, str] = in_child(attempt_all)
    return found


def fork_unguarded() -> dict[str, dict[str, str]]:
    context = open_context(PARAMETERS)
    keys = context.KeyGen()

    def make() -> dict[str, str]:
        plaintext = context.MakeCKKSPackedPlaintext(VALUES)
        ciphertext = context.Encrypt(keys.publicKey, plaintext)
        pair = context.KeyGen()
        return {
            "ciphertext": digest(fhe.Serialize(ciphertext, fhe.BINARY)),
            "secret key": digest(fhe.Serialize(pair.secretKey, fhe.BINARY)),
        }

    return {"child": in_child(make), "parent": make()}


def main(mode: str, *arguments: str) -> None:
    if mode == "fresh":
        found: object = make_fresh(Path(arguments[0]))
    elif mode == "forked":
        found = fork_guarded()
    else:
        found = fork_unguarded()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
