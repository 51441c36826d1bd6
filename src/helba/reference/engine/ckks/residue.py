"""Rows of residues as packed bytes, checked on reading.

Residues of ciphertexts and keys look uniform, so they cannot be packed below their entropy: what is
much shorter is not unpacked. A row of nothing but zeros is refused as well. Such are the
polynomials of a ciphertext that hides nothing, of a vector minus itself for example.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from helba.errors import DamagedData, EngineError
from helba.reference.engine.wire.packing import pack_words, unpack_words
from helba.ring.ckks.template import Template
from helba.ring.sharing.integer import Residues

LEAST_SHARE = 0.9  # of the entropy of uniform residues, in what they are packed to


def pack_residues(residues: Residues) -> bytes:
    """Return the rows packed; `EngineError` if one is all zeros."""
    if not residues.max(axis=1).all():
        raise EngineError("this holds no encryption: whoever gets it could read it without a key")
    return pack_words(residues)


def read_residues(packed: memoryview, *, ring_dim: int, moduli: Sequence[int]) -> Residues:
    """Return one row for each modulus, each residue below it, or raise `DamagedData`."""
    require_entropy(packed, ring_dim=ring_dim, moduli=moduli)
    words = unpack_words(packed, count=len(moduli) * ring_dim).reshape(len(moduli), ring_dim)
    largest = words.max(axis=1)
    if (largest >= np.array(moduli, dtype=np.uint64)).any():
        raise DamagedData("a residue is not below its modulus")
    if not largest.all():
        raise DamagedData("a row of residues is all zeros: that hides nothing")
    return words


def read_rows(packed: memoryview, *, template: Template) -> Residues:
    """Return the rows of one template, checked, or raise `DamagedData`."""
    return read_residues(packed, ring_dim=template.ring_dim, moduli=template.moduli)


def require_entropy(packed: memoryview, *, ring_dim: int, moduli: Sequence[int]) -> None:
    """Raise `DamagedData` for what is too short to be uniform residues, without unpacking it."""
    bits = ring_dim * sum(math.log2(modulus) for modulus in moduli)
    if 8 * len(packed) < LEAST_SHARE * bits:
        raise DamagedData("the packed residues are shorter than residues can be")
