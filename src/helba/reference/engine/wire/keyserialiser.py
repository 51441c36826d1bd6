"""Keys as bytes: the part that every scheme shares.

A key travels with its parameters, so that a process that has nothing but bytes can open the scheme.
They are checked again on arrival, with the security table. A key of parameters without security is
refused unless the caller names these parameters or passes `allow_insecure=True`.

Every key also carries the identity of its owner, the digest of the public key. A public key is
checked against it; the others cannot be, so they prove nothing about who made them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from helba.errors import DamagedData
from helba.reference.engine.keys import (
    EvaluationKey,
    PublicKey,
    ReencryptionKey,
    SecretKey,
    normal_steps,
)
from helba.reference.engine.wire.description import Description, Destination
from helba.reference.engine.wire.envelope import Envelope, seal, unseal
from helba.reference.planning.parameters import Parameters


class KeySerialiser(ABC):
    """Writes and reads keys. The bytes of a public or an evaluation key hold no secret."""

    name: str
    library: str  # which library, of which version: bytes of another one are refused

    def public_key_to_bytes(self, key: PublicKey) -> bytes:
        """Return a public key as bytes, for everybody."""
        description = Description(parameters=key.parameters, identity=key.identity)
        return self._write("public key", key, description, self._dump_public_key(key))

    def public_key_from_bytes(
        self,
        data: bytes | memoryview,
        *,
        parameters: Parameters | None = None,
        allow_insecure: bool = False,
    ) -> PublicKey:
        """Return the public key, of `parameters` if they are given, or raise `DamagedData`."""
        envelope, description, payload = self._read(
            "public key", data, expected=parameters, allow_insecure=allow_insecure
        )
        self._admit("public key", description, len(payload), chosen=parameters is not None)
        key = self._load_public_key(payload, description=description, tag=envelope.tag)
        if key.identity != description.identity:
            raise DamagedData("the public key is not the one that it names")
        return key

    def evaluation_key_to_bytes(self, key: EvaluationKey) -> bytes:
        """Return an evaluation key as bytes, for the server: tens of megabytes for each rotation.

        Every rotation key is written apart, so little more memory is taken than OpenFHE's own form
        and the result need.
        """
        description = Description(
            parameters=key.parameters,
            identity=key.identity,
            rotations=tuple(sorted(key.rotations)),
            bootstrap_slots=key.bootstrap_slots,
        )
        return self._write("evaluation key", key, description, *self._dump_evaluation_key(key))

    def evaluation_key_from_bytes(
        self,
        data: bytes | memoryview,
        *,
        parameters: Parameters | None = None,
        rotations: Iterable[int] | None = None,
        bootstrap_slots: int | None = None,
        allow_insecure: bool = False,
    ) -> EvaluationKey:
        """Return the evaluation key, or raise `DamagedData`.

        `parameters`, `rotations` and `bootstrap_slots` say what it must be, exactly, where they are
        given; where not, the sender decides what this process sets up and keeps in memory.
        Load it from whoever made it: a false one gives false results, and while it is in use the
        true one of the same tag is refused.
        """
        envelope, description, payload = self._read(
            "evaluation key", data, expected=parameters, allow_insecure=allow_insecure
        )
        if rotations is not None:
            wanted = normal_steps(rotations, parameters=description.parameters)
            if description.rotations != wanted:
                raise DamagedData("the evaluation key has other rotations than the expected ones")
        if bootstrap_slots is not None and description.bootstrap_slots != bootstrap_slots:
            raise DamagedData("the evaluation key bootstraps other slots than the expected ones")
        chosen = parameters is not None and (
            bootstrap_slots is not None or description.bootstrap_slots == 0
        )
        self._admit("evaluation key", description, len(payload), chosen=chosen)
        return self._load_evaluation_key(payload, description=description, tag=envelope.tag)

    def secret_key_to_bytes(self, key: SecretKey) -> bytes:
        """Return the secret key in the clear: whoever reads these bytes can decrypt everything.

        For the owner's own store only. They must never be logged, sent, or kept unprotected.
        """
        description = Description(parameters=key.parameters, identity=key.identity)
        return self._write("secret key", key, description, self._dump_secret_key(key))

    def secret_key_from_bytes(
        self,
        data: bytes | memoryview,
        *,
        parameters: Parameters | None = None,
        allow_insecure: bool = False,
    ) -> SecretKey:
        """Return the secret key, of `parameters` if they are given, or raise `DamagedData`."""
        envelope, description, payload = self._read(
            "secret key", data, expected=parameters, allow_insecure=allow_insecure
        )
        self._admit("secret key", description, len(payload), chosen=parameters is not None)
        return self._load_secret_key(payload, description=description, tag=envelope.tag)

    def reencryption_key_to_bytes(self, key: ReencryptionKey) -> bytes:
        """Return a re-encryption key as bytes: for the server only, and a secret of it.

        Levels that the key does not serve are left out.
        """
        leads_to = Destination(
            tag=key.recipient_tag, identity=key.recipient_identity, level=key.level
        )
        description = Description(
            parameters=key.parameters, identity=key.identity, leads_to=leads_to
        )
        payload = self._dump_reencryption_key(key)
        return self._write("re-encryption key", key, description, payload)

    def reencryption_key_from_bytes(
        self,
        data: bytes | memoryview,
        *,
        parameters: Parameters | None = None,
        allow_insecure: bool = False,
    ) -> ReencryptionKey:
        """Return the re-encryption key, of `parameters` if they are given, or raise `DamagedData`.

        As for an evaluation key, a false one gives false results.
        """
        kind = "re-encryption key"
        envelope, description, payload = self._read(
            kind, data, expected=parameters, allow_insecure=allow_insecure
        )
        to = description.leads_to
        if to is None:
            raise DamagedData("the re-encryption key does not say where it leads")
        self._admit(kind, description, len(payload), chosen=parameters is not None)
        loaded = self._load_reencryption_key(payload, description=description, tag=envelope.tag)
        return ReencryptionKey(
            parameters=description.parameters,
            tag=envelope.tag,
            payload=loaded,
            recipient_tag=to.tag,
            level=to.level,
            identity=description.identity,
            recipient_identity=to.identity,
        )

    def _write(
        self,
        kind: str,
        key: PublicKey | EvaluationKey | SecretKey | ReencryptionKey,
        description: Description,
        *payload: bytes,
    ) -> bytes:
        envelope = Envelope(
            kind=kind,
            scheme=self.name,
            library=self.library,
            fingerprint=key.parameters.fingerprint,
            tag=key.tag,
            detail=description.to_bytes(),
        )
        return seal(envelope, payload)

    def _read(
        self,
        kind: str,
        data: bytes | memoryview,
        *,
        expected: Parameters | None,
        allow_insecure: bool,
    ) -> tuple[Envelope, Description, memoryview]:
        envelope, payload = unseal(data, kind=kind, scheme=self.name, library=self.library)
        description = Description.from_bytes(
            envelope.detail, expected=expected, allow_insecure=allow_insecure
        )
        if envelope.fingerprint != description.parameters.fingerprint:
            raise DamagedData(f"the {kind} names other parameters than it describes")
        if (envelope.slots, envelope.level) != (0, 0):
            raise DamagedData(f"a {kind} has neither slots nor level")
        if kind != "evaluation key" and (description.rotations or description.bootstrap_slots):
            raise DamagedData(f"a {kind} neither rotates nor bootstraps")
        if kind != "re-encryption key" and description.leads_to is not None:
            raise DamagedData(f"a {kind} leads nowhere")
        return envelope, description, payload

    # -- what a scheme implements

    def _admit(  # noqa: B027 a scheme that sets nothing up admits every key
        self, kind: str, description: Description, payload_bytes: int, *, chosen: bool
    ) -> None:
        """Refuse what cannot be such a key, or is one too many, before anything is set up for it.

        `chosen` tells that the caller named all that would be set up.
        """

    @abstractmethod
    def _dump_public_key(self, key: PublicKey) -> bytes:
        """The key's payload as bytes; `WrongVector` if it is of another scheme."""

    @abstractmethod
    def _dump_evaluation_key(self, key: EvaluationKey) -> list[bytes]:
        """As for the public key, in parts."""

    @abstractmethod
    def _dump_secret_key(self, key: SecretKey) -> bytes:
        """As for the public key."""

    @abstractmethod
    def _dump_reencryption_key(self, key: ReencryptionKey) -> bytes:
        """As for the public key, without what levels before the key's own would need."""

    @abstractmethod
    def _load_reencryption_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> Any:
        """The key's payload, or `DamagedData`."""

    @abstractmethod
    def _load_public_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> PublicKey:
        """The key with the identity that it has, or `DamagedData`."""

    @abstractmethod
    def _load_evaluation_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> EvaluationKey:
        """The key, or `DamagedData`."""

    @abstractmethod
    def _load_secret_key(
        self, data: memoryview, *, description: Description, tag: str
    ) -> SecretKey:
        """The key, or `DamagedData`."""
