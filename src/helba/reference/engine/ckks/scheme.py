"""Keys and engines of CKKS.

OpenFHE keeps evaluation keys in maps of the whole process, by key tag; see `ownership`. While keys
are generated, loaded or written, no other thread of the process may compute.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from helba.errors import WrongVector
from helba.reference.engine.ckks.admission import admit_choice, admit_key
from helba.reference.engine.ckks.context import open_context
from helba.reference.engine.ckks.engine import CkksEngine
from helba.reference.engine.ckks.evaluation import dump_evaluation_key, load_evaluation_keys
from helba.reference.engine.ckks.ownership import changing_maps, own_keys
from helba.reference.engine.ckks.reencryption import dump_reencryption_key, load_reencryption_key
from helba.reference.engine.ckks.wire import (
    LIBRARY,
    dump_public_key,
    dump_secret_key,
    identify,
    load_public_key,
    load_secret_key,
    require_tag,
)
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
from helba.reference.engine.memory import require_memory
from helba.reference.engine.scheme import Scheme
from helba.reference.engine.wire.description import Description
from helba.reference.planning.bounds.bootstrap import BOOTSTRAP_BUDGET
from helba.reference.planning.parameters import Parameters
from helba.ring.ckks.process import forget_keys, require_own_randomness


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
        steps = normal_steps(rotations, parameters=parameters)
        require_memory(parameters, keys=1 + len(steps))
        admit_choice(parameters, bootstrap_slots=bootstrap_slots)
        context = open_context(parameters)
        with changing_maps():
            pair = context.KeyGen()
            tag = pair.publicKey.GetKeyTag()
            try:
                context.EvalMultKeyGen(pair.secretKey)
                if steps:
                    context.EvalRotateKeyGen(pair.secretKey, list(steps))
                if bootstrap_slots:
                    context.EvalBootstrapSetup(list(BOOTSTRAP_BUDGET), [0, 0], bootstrap_slots)
                    context.EvalBootstrapKeyGen(pair.secretKey, bootstrap_slots)
                identity = identify(pair.publicKey, parameters=parameters)
            except BaseException:
                forget_keys({tag})
                raise
            evaluation = EvaluationKey(
                parameters=parameters,
                tag=tag,
                payload=None,
                rotations=steps,
                bootstrap_slots=bootstrap_slots,
                identity=identity,
            )
            own_keys(evaluation)
        public, secret = pair.publicKey, pair.secretKey
        return KeySet(
            public=PublicKey(parameters=parameters, tag=tag, payload=public, identity=identity),
            evaluation=evaluation,
            secret=SecretKey(parameters=parameters, tag=tag, payload=secret, identity=identity),
        )

    def generate_pair(self, parameters: Parameters) -> KeyPair:
        """Return a fresh pair from OpenFHE's generator."""
        require_own_randomness()
        admit_choice(parameters)
        pair = open_context(parameters).KeyGen()
        identity = identify(pair.publicKey, parameters=parameters)
        tag, public, secret = pair.publicKey.GetKeyTag(), pair.publicKey, pair.secretKey
        return KeyPair(
            public=PublicKey(parameters=parameters, tag=tag, payload=public, identity=identity),
            secret=SecretKey(parameters=parameters, tag=tag, payload=secret, identity=identity),
        )

    def _make_reencryption_key(
        self, secret_key: SecretKey, recipient: PublicKey | SecretKey
    ) -> Any:
        require_own_randomness()
        context, secret = open_context(secret_key.parameters), _require_ckks(secret_key)
        to = _require_ckks(recipient)
        if isinstance(recipient, SecretKey):
            return context.KeySwitchGen(secret, to)
        return context.ReKeyGen(secret, to)

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

    def _dump_reencryption_key(self, key: ReencryptionKey) -> bytes:
        if key._payload is None:
            raise WrongVector("the key is not one of CKKS")
        return dump_reencryption_key(key)

    def _load_reencryption_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> Any:
        assert description.leads_to is not None
        require_tag(tag)
        to = description.leads_to
        return load_reencryption_key(
            data, parameters=description.parameters, recipient_tag=to.tag, level=to.level
        )

    def _admit(
        self, kind: str, description: Description, payload_bytes: int, *, chosen: bool
    ) -> None:
        admit_key(kind, description, payload_bytes, chosen=chosen)

    def _load_public_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> PublicKey:
        parameters = description.parameters
        payload, identity = load_public_key(data, parameters=parameters, tag=tag)
        return PublicKey(parameters=parameters, tag=tag, payload=payload, identity=identity)

    def _load_evaluation_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> EvaluationKey:
        key = EvaluationKey(
            parameters=description.parameters,
            tag=tag,
            payload=None,
            rotations=description.rotations,
            bootstrap_slots=description.bootstrap_slots,
            identity=description.identity,
        )
        with changing_maps():
            load_evaluation_keys(data, description=description, tag=tag)
            own_keys(key)
        return key

    def _load_secret_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> SecretKey:
        parameters, identity = description.parameters, description.identity
        payload = load_secret_key(data, parameters=parameters, tag=tag)
        return SecretKey(parameters=parameters, tag=tag, payload=payload, identity=identity)


def _require_ckks(key: PublicKey | SecretKey) -> Any:
    """OpenFHE's own key; `WrongVector` if the key is of another scheme."""
    if not hasattr(key._payload, "GetCryptoContext"):
        raise WrongVector("the key is not one of CKKS")
    return key._payload
