"""A scheme makes keys and engines. `get_scheme` finds one by name and loads it when asked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from helba.errors import WrongVector, require_choice, require_whole
from helba.extras import missing_openfhe
from helba.reference.engine.engine import Engine
from helba.reference.engine.keys import (
    EvaluationKey,
    KeyPair,
    KeySet,
    PublicKey,
    ReencryptionKey,
    SecretKey,
)
from helba.reference.engine.wire.keyserialiser import KeySerialiser
from helba.reference.planning.parameters import Parameters

SCHEMES = ("ckks", "simulate")


class Scheme(KeySerialiser):
    """One way to encrypt.

    While evaluation keys are generated, loaded or written, no other thread of the process may
    compute: OpenFHE keeps them in maps of the whole process.
    """

    name: str

    @abstractmethod
    def generate_keys(
        self, parameters: Parameters, *, rotations: Iterable[int] = (), bootstrap_slots: int = 0
    ) -> KeySet:
        """Return fresh keys from the system's generator; `rotations` are steps to the left."""

    @abstractmethod
    def generate_pair(self, parameters: Parameters) -> KeyPair:
        """Return a fresh pair: it encrypts and decrypts, and nobody computes with it."""

    def make_reencryption_key(
        self, secret_key: SecretKey, *, recipient: PublicKey | SecretKey, level: int = 0
    ) -> ReencryptionKey:
        """Return the key from the owner of `secret_key` to the recipient.

        It serves vectors with at least `level` levels used, and is the smaller for it. With the
        recipient's secret key it errs less; nobody has that but who rotates keys of its own.
        """
        if recipient.parameters != secret_key.parameters:
            raise WrongVector("the keys are of different parameters")
        if recipient.belongs_to(secret_key):
            raise WrongVector("a re-encryption key leads to somebody else")
        require_whole("level", level, least=0, most=secret_key.parameters.depth)
        payload = self._make_reencryption_key(secret_key, recipient)
        return ReencryptionKey(
            parameters=secret_key.parameters,
            tag=secret_key.tag,
            payload=payload,
            recipient_tag=recipient.tag,
            level=level,
            identity=secret_key.identity,
            recipient_identity=recipient.identity,
        )

    @abstractmethod
    def _make_reencryption_key(
        self, secret_key: SecretKey, recipient: PublicKey | SecretKey
    ) -> Any:
        """The payload of such a key."""

    @abstractmethod
    def engine(
        self, public_key: PublicKey, *, evaluation_key: EvaluationKey | None = None
    ) -> Engine:
        """Return an engine that encrypts, and with an evaluation key also computes."""


def get_scheme(name: str) -> Scheme:
    """Return the scheme "ckks" or "simulate"; `MissingPackage` where OpenFHE cannot be loaded."""
    require_choice("engine", name, SCHEMES)
    if name == "simulate":
        from helba.reference.engine.simulated import SimulatorScheme

        return SimulatorScheme()
    try:
        from helba.reference.engine.ckks import CkksScheme
    except ImportError as error:
        raise missing_openfhe(error) from error
    return CkksScheme()
