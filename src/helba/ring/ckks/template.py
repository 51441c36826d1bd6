"""The structure of OpenFHE's serialised objects, without their residues.

OpenFHE's reader takes whatever structure it is given: no polynomials at all, forty of them, false
levels, other contexts, residues past their modulus; some of that ends in a crash. So structure does
not travel here. A template is the serialised form of an object that was made in this process, cut
at its residues; only residues come from outside, and they are checked before they are put in.

A row of residues stands in the serialised form as the ring dimension (64 bits), the residues (64
bits each), their modulus (64 bits) and the form (32 bits): 0 for evaluations, 1 for coefficients.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from helba.errors import EngineError
from helba.ring.sharing.integer import Residues

EVALUATIONS, COEFFICIENTS = 0, 1

_LENGTH = struct.Struct("<Q")
_END = struct.Struct("<QI")
_MOST_MODULUS = 1 << 61


@dataclass(frozen=True, kw_only=True)
class Template:
    """`chunks` of structure before, between and after the rows, one row for each of `moduli`.

    `form` is that of the rows: 0 for evaluations, 1 for coefficients.
    """

    ring_dim: int
    moduli: tuple[int, ...]
    chunks: tuple[bytes, ...]
    form: int = EVALUATIONS

    @classmethod
    def of(cls, sample: bytes, *, ring_dim: int, form: int = EVALUATIONS) -> Template:
        """Return the template of a serialised object that was made here."""
        moduli, chunks, start = [], [], 0
        for offset, modulus in _discover_rows(sample, ring_dim=ring_dim, form=form):
            moduli.append(modulus)
            chunks.append(sample[start:offset])
            start = offset + 8 * ring_dim
        chunks.append(sample[start:])
        return cls(ring_dim=ring_dim, moduli=tuple(moduli), chunks=tuple(chunks), form=form)

    def with_tag(self, tag: str, *, old: str) -> Template:
        """Return the template of the same object of another key."""
        new = [chunk.replace(old.encode(), tag.encode()) for chunk in self.chunks]
        return replace(self, chunks=tuple(new))

    def gather(self, data: bytes) -> Residues:
        """Return the residues of a serialised object with this template's rows.

        Only rows count: OpenFHE writes the same ciphertext in several ways, depending on which of
        its polynomials share their description.
        """
        offsets = find_rows(data, ring_dim=self.ring_dim, moduli=self.moduli, form=self.form)
        return gather_rows(data, offsets, ring_dim=self.ring_dim)

    def fill(self, residues: Residues) -> bytes:
        """Return the serialised object with `residues`, one row for each modulus."""
        parts: list[bytes | memoryview] = [self.chunks[0]]
        for row, chunk in zip(residues, self.chunks[1:], strict=True):
            parts += [row.data, chunk]
        return b"".join(parts)


def find_rows(
    data: bytes,
    *,
    ring_dim: int,
    moduli: Sequence[int],
    start: int = 0,
    form: int = EVALUATIONS,
) -> list[int]:
    """Return where the rows with these moduli begin, in order; `EngineError` if one is missing."""
    length = _LENGTH.pack(ring_dim)
    offsets = []
    for modulus in moduli:
        end = _END.pack(modulus, form)
        start = data.find(length, start)
        while start >= 0 and not data.startswith(end, start + 8 + 8 * ring_dim):
            start = data.find(length, start + 1)
        if start < 0:
            raise EngineError("an object of OpenFHE does not have the rows of its kind")
        offsets.append(start + 8)
        start += 8 + 8 * ring_dim
    return offsets


def gather_rows(data: bytes, offsets: Sequence[int], *, ring_dim: int) -> Residues:
    """Return the rows that begin at `offsets`."""
    return np.stack(
        [np.frombuffer(data, dtype="<u8", count=ring_dim, offset=offset) for offset in offsets]
    )


def _discover_rows(data: bytes, *, ring_dim: int, form: int) -> Iterator[tuple[int, int]]:
    """Rows of a trusted object and their moduli: q = 1 mod 2N, and all residues are below q."""
    length = _LENGTH.pack(ring_dim)
    start = data.find(length)
    while start >= 0 and start + 8 + 8 * ring_dim + _END.size <= len(data):
        modulus, found = _END.unpack_from(data, start + 8 + 8 * ring_dim)
        if found == form and modulus < _MOST_MODULUS and modulus % (2 * ring_dim) == 1:
            row = np.frombuffer(data, dtype="<u8", count=ring_dim, offset=start + 8)
            if int(row.max()) < modulus:
                yield start + 8, modulus
                start = data.find(length, start + 8 + 8 * ring_dim)
                continue
        start = data.find(length, start + 1)
