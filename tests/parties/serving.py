"""A server, or an opener, in a process of its own: it has its files, and speaks in bytes.

`serve` holds what a server is given: public key, evaluation key, and its state.
`open_` holds the secret key. Neither imports another party's module.
"""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from typing import Any

# What a server's process does without: other parties, and all code for secret keys.
ELSEWHERE = ("helba.opener", "helba.user", "helba.authority", "helba.ring.secret")


def make_deployment(opener: str) -> Any:
    """The deployment that all processes agree on."""
    from helba.bandits.settings import Settings
    from helba.protocol.deployment import SharesDeployment
    from helba.ring import insecure_parameters

    settings = Settings(
        dim=2,
        arms=3,
        horizon=500,
        length=1.0,
        parameter_bound=1.0,
        noise=0.5,
        reward_max=2.0,
        growth=1.0,
        schedule="public",
    )
    return SharesDeployment.of(
        settings, engine="ckks", opener=opener, parameters=insecure_parameters(9)
    )


def serve(connection: Any, folder: str, opener: str) -> None:
    """Do what comes through the connection until it says stop."""
    from helba.protocol.codec import Codec
    from helba.ring import Ring
    from helba.ring.wire import load_evaluation_key, load_public_key
    from helba.server.server import Server
    from helba.server.snapshot import dump_state, load_state

    deployment, files = make_deployment(opener), Path(folder)
    parameters = deployment.plan.parameters
    public = load_public_key((files / "public").read_bytes(), parameters=parameters)
    evaluation = load_evaluation_key(
        (files / "evaluation").read_bytes(),
        public_key=public,
        automorphism=deployment.plan.automorphism,
    )
    server = Server(
        deployment,
        ring=Ring(public, evaluation_key=evaluation),
        state=load_state((files / "state").read_bytes(), deployment=deployment, public_key=public),
    )
    codec = Codec(deployment, public_key=public)
    while True:
        command, *arguments = connection.recv()
        if command == "handle":
            data, sender = arguments
            sent = server.handle(codec.decode(data), sender=sender, now=0.0).replies
            connection.send([(each.to, codec.encode(each.message)) for each in sent])
        elif command == "work":
            connection.send(
                [(each.to, codec.encode(each.message)) for each in server.work(now=0.0).replies]
            )
        elif command == "helper":
            server.add_helper(*arguments)
            connection.send(None)
        elif command == "save":
            connection.send(dump_state(server.state, deployment=deployment, public_key=public))
        elif command == "pry":
            connection.send(pry(server, files, public))
        else:
            return


def pry(server: Any, files: Path, public: Any) -> dict[str, Any]:
    """Look for a secret key in everything that the process can reach."""
    loaded = [name for name in ELSEWHERE if name in sys.modules]
    from helba.errors import HelbaError
    from helba.ring.secret import Opener, SecretKey, make_keys
    from helba.ring.secret.wire import load_secret_key

    gc.collect()
    found = {
        "secret_keys": sum(isinstance(each, SecretKey) for each in gc.get_objects()),
        "openers": sum(isinstance(each, Opener) for each in gc.get_objects()),
        "loaded": loaded,
    }

    def attempt(data: bytes) -> str:
        try:
            load_secret_key(data, public_key=public)
        except HelbaError as error:
            return type(error).__name__
        return "done"

    found["attempts"] = {path.name: attempt(path.read_bytes()) for path in files.iterdir()}
    own = make_keys(public.parameters)
    forged = SecretKey(backend=public.backend, key_id=public.key_id, payload=own.secret.payload)
    places = server.deployment.plan.inner(1).model_places.places
    read = Opener(forged, public_key=public).decrypt(server.state.learned.model, places=places)
    found["garbage"] = [str(int(each)) for each in read]
    return found


def open_(connection: Any, folder: str) -> None:
    """Open what comes through the connection, and say at the end what was seen."""
    import nacl.public
    import numpy as np

    from helba.opener.opener import OpenerParty
    from helba.protocol.codec import Codec
    from helba.protocol.effects import SERVER
    from helba.ring.secret import Opener
    from helba.ring.secret.wire import load_secret_key
    from helba.ring.wire import load_public_key

    deployment, files = make_deployment("authority"), Path(folder)
    public = load_public_key((files / "public").read_bytes(), parameters=deployment.plan.parameters)
    secret = load_secret_key((files / "secret").read_bytes(), public_key=public)
    seen: dict[int, list[float]] = {1: [], 2: []}
    receive = Opener.receive

    def record(opener: Opener, opening: Any, *, places: Any) -> Any:
        share = receive(opener, opening, places=places)
        modulus = opener.parameters.modulus(share.primes)
        seen[share.primes] += [int(each) % modulus / modulus for each in share.integers()]
        return share

    Opener.receive = record  # type: ignore[method-assign]
    party = OpenerParty(
        deployment,
        opener=Opener(secret, public_key=public),
        sealing_key=nacl.public.PrivateKey((files / "sealing").read_bytes()),
    )
    codec = Codec(deployment, public_key=public)
    while True:
        command, *arguments = connection.recv()
        if command == "handle":
            replies = party.handle(codec.decode(arguments[0]), sender=SERVER).replies
            connection.send(codec.encode(replies[0].message) if replies else None)
        elif command == "seen":
            parties = ("helba.server.server", "helba.user.user", "helba.authority.authority")
            connection.send(
                (
                    {k: np.array(v) for k, v in seen.items()},
                    [name for name in parties if name in sys.modules],
                )
            )
        else:
            return
