"""A thief of a server's folder: makes every key object of every file, and tries to read.

An answer to a user, and the server's own statistics. Prints as JSON what came of it.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

from helba.errors import HelbaError
from helba.reference.engine import EncryptedVector, Engine, SecretKey, get_scheme
from helba.service.protocol.serverfiles import open_server


def name_of(action: object) -> str:
    try:
        action()  # type: ignore[operator]
    except (HelbaError, TypeError) as error:
        return type(error).__name__
    return "read"


def try_all(vector: EncryptedVector, *, engine: Engine, folder: Path) -> dict[str, object]:
    """What every file of the folder does for reading the vector, and a key made anew."""
    scheme = get_scheme("ckks")
    attempts = {
        path.name: name_of(
            lambda path=path: engine.decrypt(
                vector,
                secret_key=scheme.secret_key_from_bytes(path.read_bytes(), allow_insecure=True),
            )
        )
        for path in folder.rglob("*")
        if path.is_file() and path.name != "answer"
    }
    own = scheme.generate_keys(engine.parameters).secret
    return {
        "attempts": attempts,
        "own key": name_of(lambda: engine.decrypt(vector, secret_key=own)),
        "parameter": name_of(lambda: engine.decrypt(vector)),  # type: ignore[call-arg]
    }


def main(folder: Path, user: bytes) -> None:
    state = (folder / "state").read_bytes()
    server = open_server(folder, allow_insecure=True, state=state)
    theirs = server.directory.line(user).engine
    answer = theirs.vector_from_bytes((folder / "answer").read_bytes())
    gc.collect()
    things = gc.get_objects()
    found = {
        "secret_keys": sum(isinstance(thing, SecretKey) for thing in things),
        "vectors": sum(isinstance(thing, EncryptedVector) for thing in things),
        "answer": try_all(answer, engine=theirs, folder=folder),
        "design": try_all(server.design, engine=server._engine, folder=folder),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]), bytes.fromhex(sys.argv[2]))
