"""Keys and engines of CKKS.

OpenFHE keeps evaluation keys in maps of the whole process, by key tag; see `ownership`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from helba.engine.ckks.context import open_context
from helba.engine.ckks.engine import CkksEngine
from helba.engine.ckks.evaluation import dump_evaluation_key, load_evaluation_keys
from helba.engine.ckks.ownership import own_keys
from helba.engine.ckks.process import require_own_randomness
from helba.engine.ckks.wire import (
    LIBRARY,
    dump_public_key,
    dump_secret_key,
    load_public_key,
    load_secret_key,
)
from helba.engine.description import Description
from helba.engine.engine import Engine
from helba.engine.keys import (
    EvaluationKey,
    KeySet,
    PublicKey,
    SecretKey,
    normal_steps,
    require_bootstrap,
)
from helba.engine.scheme import Scheme
from helba.errors import WrongVector
from helba.planning.bootstrap import BOOTSTRAP_BUDGET
from helba.planning.parameters import Parameters

__all__ = ["CkksScheme"]


class CkksScheme(Scheme):
    """CKKS by OpenFHE."""

    name = "ckks"
    library = LIBRARY

    def generate_keys(
        self, parameters: Parameters, *, rotations: Iterable[int] = (), bootstrap_slots: int = 0
    ) -> KeySet:
        """Return fresh keys from OpenFHE's generator, seeded by the system."""
        require_own_randomness()
        require_bootstrap(parameters, slots=bootstrap_slots)
        context = open_context(parameters)
        pair = context.KeyGen()
        steps = normal_steps(rotations, parameters=parameters)
        context.EvalMultKeyGen(pair.secretKey)
        if steps:
            context.EvalRotateKeyGen(pair.secretKey, list(steps))
        if bootstrap_slots:
            context.EvalBootstrapSetup(list(BOOTSTRAP_BUDGET), [0, 0], bootstrap_slots)
            context.EvalBootstrapKeyGen(pair.secretKey, bootstrap_slots)
        tag = pair.publicKey.GetKeyTag()
        evaluation = EvaluationKey(
            parameters=parameters,
            tag=tag,
            payload=None,
            rotations=steps,
            bootstrap_slots=bootstrap_slots,
        )
        own_keys(evaluation)
        return KeySet(
            public=PublicKey(parameters=parameters, tag=tag, payload=pair.publicKey),
            evaluation=evaluation,
            secret=SecretKey(parameters=parameters, tag=tag, payload=pair.secretKey),
        )

    def engine(
        self, public_key: PublicKey, *, evaluation_key: EvaluationKey | None = None
    ) -> Engine:
        """Return an engine on OpenFHE's context for the key's parameters."""
        _require_ckks(public_key)
        return CkksEngine(public_key, evaluation_key=evaluation_key)

    # -- bytes

    def _dump_public_key(self, key: PublicKey) -> bytes:
        return dump_public_key(_require_ckks(key), parameters=key.parameters)

    def _dump_evaluation_key(self, key: EvaluationKey) -> list[bytes]:
        return dump_evaluation_key(key)

    def _dump_secret_key(self, key: SecretKey) -> bytes:
        return dump_secret_key(_require_ckks(key), parameters=key.parameters)

    def _load_public_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> PublicKey:
        parameters = description.parameters
        payload = load_public_key(data, parameters=parameters, tag=tag)
        return PublicKey(parameters=parameters, tag=tag, payload=payload)

    def _load_evaluation_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> EvaluationKey:
        load_evaluation_keys(data, description=description, tag=tag)
        key = EvaluationKey(
            parameters=description.parameters,
            tag=tag,
            payload=None,
            rotations=description.rotations,
            bootstrap_slots=description.bootstrap_slots,
        )
        own_keys(key)
        return key

    def _load_secret_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> SecretKey:
        parameters = description.parameters
        payload = load_secret_key(data, parameters=parameters, tag=tag)
        return SecretKey(parameters=parameters, tag=tag, payload=payload)


def _require_ckks(key: PublicKey | SecretKey) -> Any:
    """OpenFHE's own key; `WrongVector` if the key is of another scheme."""
    if not hasattr(key._payload, "GetCryptoContext"):
        raise WrongVector("the key is not one of CKKS")
    return key._payload
