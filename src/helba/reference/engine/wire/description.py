"""What a key's envelope says about it: parameters, whose it is, what it can do, where it leads.

It is JSON in one form only, so that equal keys have equal bytes. Reading it checks the parameters
again, with the security table: bytes cannot make parameters that the program itself would refuse.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from helba.errors import DamagedData, HelbaError
from helba.reference.engine.keys import require_bootstrap
from helba.reference.planning.parameters import Parameters, insecure_parameters
from helba.ring.security import RING_DIMS

_NUMBERS = ("ring_dim", "depth", "scale_bits", "digits", "first_bits")
_FIELDS = {*_NUMBERS, "security", "secret"}
_TAG = re.compile(r"[a-z0-9-]{1,48}")
_IDENTITY = re.compile(r"(?:[0-9a-f]{64})?")
_LEAST_RING_DIM = 1 << 4  # OpenFHE works from there on; only insecure parameters go below 2^13
# what a document of any other form runs into
_REFUSALS = (
    HelbaError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Whose key a re-encryption key leads to, and the least level that it serves."""

    tag: str
    identity: str
    level: int


@dataclass(frozen=True, kw_only=True)
class Description:
    """`parameters` of a key; `rotations` and `bootstrap_slots` of an evaluation key.

    `identity` is the digest of the public key that the key belongs to, and empty in a scheme
    without public keys to speak of. `leads_to` is for re-encryption keys only.
    """

    parameters: Parameters
    identity: str = ""
    rotations: tuple[int, ...] = ()
    bootstrap_slots: int = 0
    leads_to: Destination | None = None

    def to_bytes(self) -> bytes:
        """Return the one way to write it."""
        fields = asdict(self.parameters)
        document: dict[str, Any] = {
            "identity": self.identity,
            "parameters": {name: fields[name] for name in sorted(_FIELDS)},
            "rotations": list(self.rotations),
            "bootstrap_slots": self.bootstrap_slots,
        }
        if self.leads_to is not None:
            document["leads_to"] = asdict(self.leads_to)
        return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()

    @classmethod
    def from_bytes(
        cls, data: bytes, *, expected: Parameters | None, allow_insecure: bool
    ) -> Description:
        """Return what `data` describes, checked again, or raise `DamagedData`.

        Parameters without security are taken if they are the `expected` ones, or if
        `allow_insecure`.
        """
        try:
            document = json.loads(data)
            parameters = _read_parameters(document["parameters"])
            found = cls(
                parameters=parameters,
                identity=_read_identity(document["identity"]),
                rotations=_read_steps(document["rotations"], below=parameters.max_slots),
                bootstrap_slots=_read_number(document["bootstrap_slots"]),
                leads_to=_read_destination(document.get("leads_to"), most=parameters.depth),
            )
            require_bootstrap(parameters, slots=found.bootstrap_slots)
        except _REFUSALS as error:
            raise DamagedData("the key does not describe admissible parameters") from error
        if found.to_bytes() != data:
            raise DamagedData("the key's description is not in its one form")
        if expected is not None and parameters != expected:
            raise DamagedData("the key is of other parameters")
        if parameters.security is None and expected is None and not allow_insecure:
            raise DamagedData("the key has no security (allow_insecure=True takes it, for tests)")
        return found


def _read_parameters(fields: Any) -> Parameters:
    if set(fields) != _FIELDS:
        raise ValueError("other fields")
    numbers = {name: _read_number(fields[name]) for name in _NUMBERS}
    if fields["security"] is None:
        ring_dim = numbers["ring_dim"]
        if ring_dim & (ring_dim - 1) or not _LEAST_RING_DIM <= ring_dim <= RING_DIMS[-1]:
            raise ValueError("not the dimension of a ring")
        return insecure_parameters(**numbers, secret=str(fields["secret"]))
    security = _read_number(fields["security"])
    return Parameters(**numbers, security=security, secret=str(fields["secret"]))


def _read_identity(value: Any) -> str:
    if type(value) is not str or _IDENTITY.fullmatch(value) is None:
        raise ValueError("not an identity")
    return value


def _read_destination(fields: Any, *, most: int) -> Destination | None:
    if fields is None:
        return None
    level, tag = _read_number(fields["level"]), fields["tag"]
    if not 0 <= level <= most:
        raise ValueError("not a level")
    if type(tag) is not str or _TAG.fullmatch(tag) is None:
        raise ValueError("not a tag")
    return Destination(tag=tag, identity=_read_identity(fields["identity"]), level=level)


def _read_steps(steps: Iterable[Any], *, below: int) -> tuple[int, ...]:
    found = tuple(_read_number(step) for step in steps)
    if any(not 0 < step < below for step in found) or list(found) != sorted(set(found)):
        raise ValueError("not rotation steps")
    return found


def _read_number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError("not a whole number")
    return value
