"""A thief of a server's folder: makes every key object of every file, and tries to read.

Prints as JSON what came of it.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

from helba.engine import EncryptedVector, SecretKey, get_scheme
from helba.errors import HelbaError
from helba.protocol.process import open_server


def name_of(action: object) -> str:
    try:
        action()  # type: ignore[operator]
    except (HelbaError, TypeError) as error:
        return type(error).__name__
    return "read"


def main(folder: Path) -> None:
    state = (folder / "state").read_bytes()
    server = open_server(folder, allow_insecure=True, state=state)
    engine, scheme = server._engine, get_scheme("ckks")
    vector = engine.vector_from_bytes((folder / "answer").read_bytes())
    attempts = {
        path.name: name_of(
            lambda path=path: engine.decrypt(
                vector,
                secret_key=scheme.secret_key_from_bytes(path.read_bytes(), allow_insecure=True),
            )
        )
        for path in folder.iterdir()
        if path.name != "answer"
    }
    gc.collect()
    things = gc.get_objects()
    secrets = sum(isinstance(thing, SecretKey) for thing in things)
    vectors = sum(isinstance(thing, EncryptedVector) for thing in things)
    own = scheme.generate_keys(engine.parameters).secret
    found = {
        "secret_keys": secrets,
        "vectors": vectors,
        "attempts": attempts,
        "own key": name_of(lambda: engine.decrypt(vector, secret_key=own)),
        "parameter": name_of(lambda: engine.decrypt(vector)),  # type: ignore[call-arg]
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
