"""What a key's bytes say about it: kind, owner, parameters, where it leads. Nothing is set up.

The bytes are checked as far as that goes without the scheme: lengths, digest, description. Whether
they are a key is known only when the scheme reads them.

Goes with the old service.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from helba.errors import DamagedData
from helba.reference.engine import PublicKey
from helba.reference.engine.wire.description import Description
from helba.reference.engine.wire.envelope import HEADER, kind_of, unseal
from helba.reference.planning.parameters import Parameters
from helba.reference.protocol.enrolment import name_key
from helba.service.protocol.files import naming, read_public

KEY_KINDS = ("public key", "evaluation key", "secret key", "re-encryption key")


@dataclass(frozen=True, kw_only=True)
class KeyInfo:
    """`owner` is the id of the public key that it belongs to, `leads_to` that of a recipient.

    `rotations` is how many an evaluation key has.
    """

    kind: str
    scheme: str
    library: str
    parameters: Parameters
    owner: bytes
    leads_to: bytes | None = None
    rotations: int = 0


def describe_key(data: bytes) -> KeyInfo:
    """Return what the bytes of a key say about it, or raise `DamagedData`."""
    kind = kind_of(data)
    if kind not in KEY_KINDS:
        raise DamagedData("these bytes are no key of helba")
    fields = HEADER.unpack_from(data)
    scheme, library = (bytes(field).rstrip(b"\0").decode("latin-1") for field in fields[3:5])
    envelope, _ = unseal(data, kind=kind, scheme=scheme, library=library)
    found = Description.from_bytes(envelope.detail, expected=None, allow_insecure=True)
    to = found.leads_to
    return KeyInfo(
        kind=kind,
        scheme=scheme,
        library=library,
        parameters=found.parameters,
        owner=_id(found.parameters, tag=envelope.tag, identity=found.identity),
        leads_to=None if to is None else _id(found.parameters, tag=to.tag, identity=to.identity),
        rotations=len(found.rotations),
    )


def id_of_file(path: Path) -> bytes:
    """Return the id of the public key that the key in a file belongs to."""
    data = read_public(path)
    with naming(path):
        return describe_key(data).owner


def _id(parameters: Parameters, *, tag: str, identity: str) -> bytes:
    return name_key(PublicKey(parameters=parameters, tag=tag, payload=None, identity=identity))
