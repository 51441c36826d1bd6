"""The simulator as a scheme: keys that hide nothing, told apart like real ones."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Any

from helba.errors import DamagedData, WrongVector
from helba.reference.engine.engine import Engine
from helba.reference.engine.keys import (
    EvaluationKey,
    KeyPair,
    KeySet,
    PublicKey,
    ReencryptionKey,
    SecretKey,
    normal_steps,
    require_bootstrap,
)
from helba.reference.engine.scheme import Scheme
from helba.reference.engine.simulator import LIBRARY, SimulatedEngine
from helba.reference.engine.wire.description import Description
from helba.reference.planning.parameters import Parameters

TAG_PREFIX = "simulated-"


class SimulatorScheme(Scheme):
    """Keys that hide nothing, for engines that compute in the clear."""

    name = "simulate"
    library = LIBRARY

    def generate_keys(
        self, parameters: Parameters, *, rotations: Iterable[int] = (), bootstrap_slots: int = 0
    ) -> KeySet:
        """Return tokens that are told apart like real keys."""
        require_bootstrap(parameters, slots=bootstrap_slots)
        tag = TAG_PREFIX + secrets.token_hex(8)
        return KeySet(
            public=PublicKey(parameters=parameters, tag=tag, payload=None),
            evaluation=EvaluationKey(
                parameters=parameters,
                tag=tag,
                payload=None,
                rotations=normal_steps(rotations, parameters=parameters),
                bootstrap_slots=bootstrap_slots,
            ),
            secret=SecretKey(parameters=parameters, tag=tag, payload=None),
        )

    def generate_pair(self, parameters: Parameters) -> KeyPair:
        """Return tokens that are told apart like real keys."""
        keys = self.generate_keys(parameters)
        return KeyPair(public=keys.public, secret=keys.secret)

    def _make_reencryption_key(
        self, secret_key: SecretKey, recipient: PublicKey | SecretKey
    ) -> Any:
        return None

    def engine(
        self, public_key: PublicKey, *, evaluation_key: EvaluationKey | None = None
    ) -> Engine:
        """Return an engine of these tokens."""
        return SimulatedEngine(public_key, evaluation_key=evaluation_key)

    # -- bytes: a token is its envelope, without any payload

    def _dump_public_key(self, key: PublicKey) -> bytes:
        return _empty(key)

    def _dump_evaluation_key(self, key: EvaluationKey) -> list[bytes]:
        return [_empty(key)]

    def _dump_secret_key(self, key: SecretKey) -> bytes:
        return _empty(key)

    def _dump_reencryption_key(self, key: ReencryptionKey) -> bytes:
        return _empty(key)

    def _load_reencryption_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> Any:
        _require_token(data, tag)

    def _load_public_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> PublicKey:
        _require_token(data, tag)
        return PublicKey(parameters=description.parameters, tag=tag, payload=None)

    def _load_evaluation_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> EvaluationKey:
        _require_token(data, tag)
        return EvaluationKey(
            parameters=description.parameters,
            tag=tag,
            payload=None,
            rotations=description.rotations,
            bootstrap_slots=description.bootstrap_slots,
        )

    def _load_secret_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> SecretKey:
        _require_token(data, tag)
        return SecretKey(parameters=description.parameters, tag=tag, payload=None)


def _empty(key: PublicKey | EvaluationKey | SecretKey | ReencryptionKey) -> bytes:
    if not key.tag.startswith(TAG_PREFIX):
        raise WrongVector("the key is not one of the simulator")
    return b""


def _require_token(data: memoryview, tag: str) -> None:
    if len(data) or not tag.startswith(TAG_PREFIX):
        raise DamagedData("the key is not one of the simulator")
