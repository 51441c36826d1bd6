"""A server in a process of its own: it has bytes of public keys, computes, and tries to read.

    python -m tests.ring.serving FOLDER

Prints as JSON what its attempts to decrypt gave.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

import numpy as np

from helba.errors import HelbaError
from helba.ring import Ring, insecure_parameters
from helba.ring.secret import Opener, SecretKey, make_keys
from helba.ring.secret.wire import load_secret_key
from helba.ring.wire import (
    dump_ciphertext,
    dump_opening,
    load_ciphertext,
    load_evaluation_key,
    load_public_key,
)
from tests.ring.parties import AUTOMORPHISM


def main(folder):
    parameters = insecure_parameters()
    public = load_public_key((folder / "public").read_bytes(), parameters=parameters)
    evaluation = load_evaluation_key(
        (folder / "evaluation").read_bytes(), public_key=public, automorphism=AUTOMORPHISM
    )
    ring = Ring(public, evaluation_key=evaluation)
    held = load_ciphertext((folder / "ciphertext").read_bytes(), public_key=public)
    product = ring.product(held, held)
    (folder / "product").write_bytes(dump_ciphertext(product, backend=public.backend))
    opening, _ = ring.open(product, places=[0, 1])
    (folder / "opening").write_bytes(dump_opening(opening, backend=public.backend))
    secrets = [each for each in gc.get_objects() if isinstance(each, SecretKey)]

    attempts = {}
    for name in ("public", "evaluation", "ciphertext"):
        data = (folder / name).read_bytes()
        attempts[name] = attempt(lambda data=data: load_secret_key(data, public_key=public))
    own = make_keys(parameters)
    attempts["own key"] = attempt(
        lambda: Opener(own.secret, public_key=public).decrypt(held, places=[0])
    )
    forged = SecretKey(backend=public.backend, key_id=public.key_id, payload=own.secret.payload)
    read = Opener(forged, public_key=public).decrypt(held, places=np.arange(4))
    attempts["own key, forged name"] = [str(int(each)) for each in read]
    print(json.dumps({"secret_keys": len(secrets), "attempts": attempts}))


def attempt(action):
    try:
        action()
    except HelbaError as error:
        return type(error).__name__
    return "done"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
