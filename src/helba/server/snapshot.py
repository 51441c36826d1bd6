"""A server's state as bytes, and back: a head, the state field by field, and a digest."""

from __future__ import annotations

import hashlib
import struct

from helba.errors import DamagedData, InvalidInput
from helba.protocol.deployment import SharesDeployment
from helba.protocol.form import Reader, make_form
from helba.ring import PublicKey
from helba.server.state import ServerState

_MARK = b"\x89HSs"
VERSION = 5
_HEAD = struct.Struct("<4sB16s16s")
_DIGEST_BYTES = 32


def dump_state(state: ServerState, *, deployment: SharesDeployment, public_key: PublicKey) -> bytes:
    """Return the state as bytes, with a digest."""
    head = _HEAD.pack(_MARK, VERSION, deployment.digest, public_key.key_id)
    body = head + make_form(ServerState, public_key=public_key).dump(state)
    return body + hashlib.sha256(body).digest()


def load_state(data: bytes, *, deployment: SharesDeployment, public_key: PublicKey) -> ServerState:
    """Return the state that was dumped, or raise `DamagedData`."""
    if len(data) < _HEAD.size + _DIGEST_BYTES:
        raise DamagedData(f"{len(data)} bytes are too few for a server's state")
    body = memoryview(data)[:-_DIGEST_BYTES]
    if hashlib.sha256(body).digest() != data[-_DIGEST_BYTES:]:
        raise DamagedData("the digest is wrong: the state was changed or cut")
    mark, version, digest, key_id = _HEAD.unpack_from(body)
    if (mark, version) != (_MARK, VERSION):
        raise DamagedData(f"expected a server's state of version {VERSION}, got other bytes")
    if digest != deployment.digest or key_id != public_key.key_id:
        raise DamagedData("the state belongs to another deployment or key")
    reader = Reader(body[_HEAD.size :])
    try:
        state: ServerState = make_form(ServerState, public_key=public_key).load(reader)
    except InvalidInput as problem:
        raise DamagedData(f"the state makes no sense: {problem}") from problem
    reader.require_end()
    numbers = deployment.settings.dim + 1
    for name, row in state.rows.items():
        if name != row.name or name not in state.names or len(row.shares) != numbers:
            raise DamagedData("a stored report is not one of this deployment")
    learned = state.learned
    if not (learned.rows.parts and learned.columns.parts and learned.design.parts):
        raise DamagedData("a matrix of the model is missing")
    return state
