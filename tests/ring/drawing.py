"""Draws from everything random in the ring, in a process of its own; prints digests as JSON."""

from __future__ import annotations

import hashlib
import json

from helba.ring import insecure_parameters
from helba.ring.gaussian import draw_gaussian
from helba.ring.ring import Ring
from helba.ring.secret import make_keys
from helba.ring.secret.wire import dump_secret_key
from helba.ring.sharing.pad import draw_seed
from helba.ring.wire import dump_ciphertext, dump_key


def main():
    keys = make_keys(insecure_parameters())
    ring = Ring(keys.public)
    made = ring.encrypt([1], places=[0], scale=1.0, peak=1.0, primes=1)
    opening, mask = ring.open(made, places=[0, 1, 2])
    drawn = {
        "public key": dump_key(keys.public),
        "secret key": dump_secret_key(keys.secret),
        "ciphertext": dump_ciphertext(made, backend=keys.public.backend),
        "opening": opening.name,
        "mask": str(mask.take_integers()).encode(),
        "seed": draw_seed(),
        "gaussian": draw_gaussian(10, deviation=2.0**40).tobytes(),
    }
    print(json.dumps({name: hashlib.sha256(data).hexdigest() for name, data in drawn.items()}))


if __name__ == "__main__":
    main()
