"""Keys by who may hold them: anybody, the server, the owner.

They are separate types, so that a function that needs the secret key says so in its signature, and
a process that was given the others has nothing to decrypt with. No key prints or pickles.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from helba.errors import InvalidInput, WrongVector, require_whole
from helba.reference.planning.bounds.bootstrap import BOOTSTRAP_LEVELS
from helba.reference.planning.parameters import Parameters


class _Key:
    """One key of `parameters`; keys with the same `tag` and `identity` belong together.

    OpenFHE knows owners by tag only, and a tag can be copied; `identity` names the public key.
    """

    def __init__(
        self, *, parameters: Parameters, tag: str, payload: Any, identity: str = ""
    ) -> None:
        self.parameters = parameters
        self.tag = tag
        self.identity = identity
        self._payload = payload

    def belongs_to(self, other: _Key) -> bool:
        """Whether both are of one owner, as far as tags, parameters and identities tell."""
        return (self.tag, self.parameters, self.identity) == (
            other.tag,
            other.parameters,
            other.identity,
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.parameters.fingerprint}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} cannot be pickled or copied")


class PublicKey(_Key):
    """Encrypts."""


class SecretKey(_Key):
    """Decrypts, and answers a masked refresh. Only its owner has it."""


class EvaluationKey(_Key):
    """Multiplies, and rotates by `rotations`; bootstraps `bootstrap_slots` slots if not 0."""

    def __init__(
        self,
        *,
        parameters: Parameters,
        tag: str,
        payload: Any,
        rotations: Iterable[int],
        bootstrap_slots: int = 0,
        identity: str = "",
    ) -> None:
        super().__init__(parameters=parameters, tag=tag, payload=payload, identity=identity)
        self.rotations = frozenset(rotations)
        self.bootstrap_slots = bootstrap_slots


class ReencryptionKey(_Key):
    """Turns vectors of its owner, with at least `level` levels used, into vectors of a recipient.

    It holds the owner's secret key, encrypted under the recipient's: a secret of whoever
    re-encrypts, and together with the recipient's secret key it is the owner's.
    """

    def __init__(
        self,
        *,
        parameters: Parameters,
        tag: str,
        payload: Any,
        recipient_tag: str,
        level: int = 0,
        identity: str = "",
        recipient_identity: str = "",
    ) -> None:
        super().__init__(parameters=parameters, tag=tag, payload=payload, identity=identity)
        self.recipient_tag = recipient_tag
        self.recipient_identity = recipient_identity
        self._level = level

    @property
    def level(self) -> int:
        """The least level that it serves; what earlier ones would need may not be there at all."""
        return self._level

    def leads_to(self, key: _Key) -> bool:
        """Whether the owner of `key` is the recipient, as far as that can be told."""
        recipient = (self.recipient_tag, self.parameters, self.recipient_identity)
        return recipient == (key.tag, key.parameters, key.identity)


@dataclass(frozen=True, kw_only=True)
class Recipient:
    """Where a vector may go: the key that leads there, and the public key to encrypt under."""

    key: ReencryptionKey
    public_key: PublicKey

    def __post_init__(self) -> None:
        if not self.key.leads_to(self.public_key):
            raise WrongVector("the re-encryption key leads to another public key")


@dataclass(frozen=True, kw_only=True)
class KeyPair:
    """What a user makes: `public` for the authority, `secret` for nobody else."""

    public: PublicKey
    secret: SecretKey


@dataclass(frozen=True, kw_only=True)
class KeySet:
    """What the owner makes: `public` for everybody, `evaluation` for the server, `secret`."""

    public: PublicKey
    evaluation: EvaluationKey
    secret: SecretKey


def normal_steps(steps: Iterable[int], *, parameters: Parameters) -> tuple[int, ...]:
    """Rotation steps in [1, N/2), sorted, each once."""
    return tuple(sorted({step % parameters.max_slots for step in steps} - {0}))


def require_bootstrap(parameters: Parameters, *, slots: int) -> None:
    """Raise `InvalidInput` unless `parameters` can bootstrap that many slots; 0 asks for none."""
    require_whole("bootstrap_slots", slots, least=0, most=parameters.max_slots)
    if slots == 0:
        return
    if slots & (slots - 1):
        raise InvalidInput("bootstrap_slots", slots, "a power of two")
    if parameters.secret != "sparse":
        raise InvalidInput("secret", parameters.secret, "sparse, to bootstrap")
    if parameters.depth <= BOOTSTRAP_LEVELS:
        raise InvalidInput("depth", parameters.depth, f"more than {BOOTSTRAP_LEVELS}, to bootstrap")
