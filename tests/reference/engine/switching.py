"""The collective and a user who re-encrypt to each other, for tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from helba.reference.engine import EncryptedVector, Engine, KeyPair, Scheme, get_scheme
from helba.reference.engine.keys import ReencryptionKey
from helba.reference.planning.bounds.noise import NoiseModel
from helba.reference.planning.parameters import Parameters, insecure_parameters
from tests.engines import Keyed, open_keyed

insecure_small = insecure_parameters(ring_dim=1 << 10, depth=5, scale_bits=40)
insecure_other = insecure_parameters(ring_dim=1 << 10, depth=4, scale_bits=40)
# P is 8 bits longer than the largest digit: the errors of a key made with a public key show
insecure_tight = insecure_parameters(ring_dim=1 << 11, depth=5, scale_bits=56, digits=2)
toy_plan = Parameters(ring_dim=1 << 15, depth=15, scale_bits=38, digits=4, security=128)
SLOTS = 8


@dataclass(frozen=True)
class Parties:
    """The collective with all its keys, and a user."""

    scheme: Scheme
    collective: Keyed
    user: KeyPair
    user_engine: Engine

    def way_out(self, *, level: int = 0) -> ReencryptionKey:
        """From the collective to the user."""
        return self.scheme.make_reencryption_key(
            self.collective.keys.secret, recipient=self.user.public, level=level
        )

    def way_in(self, *, level: int = 0) -> ReencryptionKey:
        """From the user to the collective."""
        return self.scheme.make_reencryption_key(
            self.user.secret, recipient=self.collective.keys.public, level=level
        )

    def read(self, vector: EncryptedVector) -> NDArray[np.float64]:
        return self.user_engine.decrypt(vector, secret_key=self.user.secret)


def meet(name: str, parameters: Parameters = insecure_small) -> Parties:
    scheme = get_scheme(name)
    user = scheme.generate_pair(parameters)
    keyed = open_keyed(name, parameters=parameters, rotations=(1,))
    return Parties(scheme, keyed, user, scheme.engine(user.public))


def numbers(slots: int = SLOTS, *, seed: int = 0) -> NDArray[np.float64]:
    return np.random.default_rng(seed).uniform(-3, 3, slots)


def close(level: int, *, slots: int = SLOTS, parameters: Parameters = insecure_small) -> float:
    """Encryption, re-encryption, and the noise that OpenFHE's decryption adds of their size."""
    model = NoiseModel(parameters)
    return 2.0 * (model.encryption(slots) + model.reencryption(slots, level=level)) + 1e-12
