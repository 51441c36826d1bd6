"""A server's two processes of one opening: the mask passes from one to the other in a file.

`begin DIRECTORY` masks the vector there; `finish DIRECTORY` reads the reply, and prints the values
as JSON. Both print how many secret keys of helba they hold.
"""

from __future__ import annotations

import gc
import json
import sys
from pathlib import Path

from helba.reference.engine import PendingOpening, SecretKey, get_scheme


def main(step: str, directory: Path) -> None:
    scheme = get_scheme("ckks")
    public = scheme.public_key_from_bytes((directory / "public").read_bytes(), allow_insecure=True)
    evaluation = scheme.evaluation_key_from_bytes(
        (directory / "evaluation").read_bytes(), allow_insecure=True
    )
    engine = scheme.engine(public, evaluation_key=evaluation)
    found: dict[str, object] = {}
    if step == "begin":
        vector = engine.vector_from_bytes((directory / "vector").read_bytes())
        request, pending = engine.begin_opening(vector)
        (directory / "request").write_bytes(engine.opening_request_to_bytes(request))
        (directory / "pending").write_bytes(engine.pending_to_bytes(pending))
    else:
        kept = engine.pending_from_bytes((directory / "pending").read_bytes())
        assert isinstance(kept, PendingOpening)
        reply = engine.opening_reply_from_bytes((directory / "reply").read_bytes())
        found["opened"] = engine.finish_opening(reply, kept).tolist()
    found["secret_keys"] = sum(isinstance(thing, SecretKey) for thing in gc.get_objects())
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
