"""Sums of ciphertexts as residues, in the form they travel in.

A ciphertext that is only added to others need not become an object of OpenFHE: making one takes as
long as everything before it. Residues are added as words of 64 bits, row by row, so that a row of
the sum stays in the cache while those of all ciphertexts pass, and reduced before words could
overflow: every 15th time for primes of 60 bits, and hardly ever for shorter ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from helba.reference.engine.ckks.residue import read_rows
from helba.reference.engine.ckks.wire import CiphertextForm
from helba.ring.ckks.template import Residues

__all__ = ["ResidueSum"]

WORDS = 1 << 64


class ResidueSum:
    """The sum of ciphertexts of one form."""

    def __init__(self, form: CiphertextForm) -> None:
        self._form = form
        template = form.template
        self._total: Residues = np.zeros((len(template.moduli), template.ring_dim), dtype="<u8")

    def read(self, data: memoryview) -> Residues:
        """Return packed residues, or raise `DamagedData`."""
        return read_rows(data, template=self._form.template)

    def add(self, payloads: Sequence[Residues]) -> None:
        """Add residues that were read."""
        for row, modulus in enumerate(self._form.template.moduli):
            total = self._total[row]
            most = (WORDS - 1) // (modulus - 1) - 1  # beside what is left of the last reduction
            for start in range(0, len(payloads), most):
                for residues in payloads[start : start + most]:
                    total += residues[row]
                total %= modulus

    def payload(self) -> Any:
        """Return the ciphertext."""
        return self._form.fill(self._total)
