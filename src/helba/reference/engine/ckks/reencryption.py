"""Re-encryption keys as packed residues, without what their level does not need.

A key is 2 vectors of one polynomial for each digit, modulo Q P. A ciphertext with t primes left
meets the first ceil(t/width) digits, and in each the first t primes and those of P: for the last
three of 16 primes, in 4 digits, a tenth of the bytes. The rest is read as polynomials without
coefficients, so it takes no memory either. Nobody meets them: an engine refuses a vector that
would.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import openfhe as fhe
from numpy.typing import NDArray

from helba.errors import EngineError
from helba.reference.engine.ckks.evaluation import switching_template
from helba.reference.engine.ckks.residue import pack_residues, read_residues
from helba.reference.engine.ckks.wire import require_tag
from helba.reference.engine.keys import ReencryptionKey
from helba.reference.planning.parameters import Parameters
from helba.ring.ckks.form import parse
from helba.ring.ckks.template import Template, find_rows, gather_rows
from helba.ring.sharing.integer import Residues


def dump_reencryption_key(key: ReencryptionKey) -> bytes:
    """Return the packed residues that the key's level needs."""
    template = switching_template(key.parameters, tag=key.recipient_tag)
    data, ring_dim = fhe.Serialize(key._payload, fhe.BINARY), key.parameters.ring_dim
    kept = _kept_rows(key.parameters, level=key.level)
    try:
        residues = template.gather(data)[kept]
    except EngineError:  # it came as bytes, and has no others
        moduli = [template.moduli[row] for row in kept]
        rows = find_rows(data, ring_dim=ring_dim, moduli=moduli)
        residues = gather_rows(data, rows, ring_dim=ring_dim)
    return pack_residues(residues)


def load_reencryption_key(
    packed: memoryview, *, parameters: Parameters, recipient_tag: str, level: int
) -> Any:
    """Return OpenFHE's key with these residues, or raise `DamagedData`."""
    template = switching_template(parameters, tag=require_tag(recipient_tag))
    kept = _kept_rows(parameters, level=level)
    moduli = [template.moduli[row] for row in kept]
    residues = read_residues(packed, ring_dim=parameters.ring_dim, moduli=moduli)
    rows = dict(zip(kept.tolist(), residues, strict=True))
    return parse(fhe.DeserializeEvalKeyString, _fill_some(template, rows))


def _fill_some(template: Template, rows: Mapping[int, Residues]) -> bytes:
    """The serialised object with these rows; the others have no coefficients at all."""
    parts: list[bytes | memoryview] = []
    for index, chunk in enumerate(template.chunks[:-1]):
        if index in rows:
            parts += [chunk, rows[index].data]
        else:  # a row begins with its length, of 64 bits
            parts += [chunk[:-8], bytes(8)]
    return b"".join([*parts, template.chunks[-1]])


def _kept_rows(parameters: Parameters, *, level: int) -> NDArray[np.intp]:
    """The rows that a ciphertext of `level` or later meets, of all rows of a switching key."""
    primes, template = parameters.depth + 1, switching_template(parameters)
    every = np.arange(len(template.moduli)).reshape(2, parameters.digits, -1)
    left = primes - level
    digits = math.ceil(left / parameters.digit_width)
    towers = np.r_[0:left, primes : every.shape[2]]
    kept: NDArray[np.intp] = every[:, :digits][:, :, towers].reshape(-1)
    return kept
