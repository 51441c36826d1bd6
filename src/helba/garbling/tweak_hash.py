"""The hash of labels: H(x, i) = pi(pi(x) xor i) xor pi(x), with pi = AES-128 under fresh keys.

Guo, Katz, Wang, Yu, "Efficient and Secure Multiparty Computation from Fixed-Key Block Ciphers"
(IEEE S&P 2020, ePrint 2019/074), section 7.4: if pi is a random permutation, H is tweakable
circular correlation robust. That is: for a secret offset R of rho bits of entropy, nobody who asks
pi p times can tell q values H(w xor R, i) xor b R, with w, i and b of their own choice but no
(w, i) asked with both b, from random, but with an advantage of the order (p q + q^2) / 2^rho. Half
gates need exactly this (Zahur, Rosulek, Evans, ePrint 2014/756).

The term p q is real: pi(z) xor z for any z serves all q values at once (the attack of ePrint
2019/1168 on many instances). So no key serves more than `SPAN` = 2^12 tweaks. Every circuit has a
fresh random key, and tweaks k SPAN to (k + 1) SPAN - 1 of it have AES under BLAKE2b of that key and
k. In the ideal cipher model permutations under different keys are independent: the sum of p_k q_k
over all keys of a session, which share R, stays below 2^12 p. With rho = 127 that is 115 bits,
whatever the size of a circuit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import blake2b

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from helba.garbling.confidential import Confidential

Labels = npt.NDArray[np.uint64]
"""Labels of 128 bits as pairs of words: the last axis has length 2, or both words side by side."""

KEY_BYTES = 16
SPAN = 1 << 12
"""Tweaks under one key of AES."""

_Permute = Callable[[memoryview, memoryview], int]


class TweakHash(Confidential):
    """H under one circuit's key, for up to `capacity` labels a call."""

    def __init__(self, key: bytes, *, capacity: int) -> None:
        self._key = key
        self._span, self._permute = 0, _permutation(key, 0)
        # update_into wants room for one block more than it writes, and counts in bytes.
        self._inner, self._mixed, self._outer = np.empty((3, 2 * capacity + 2), dtype=np.uint64)
        self._views = [each.data.cast("B") for each in (self._inner, self._mixed, self._outer)]

    def hash(self, labels: Labels, *, tweaks: Labels, first: int) -> Labels:
        """Return H(labels, tweaks), shaped like `labels`; it is overwritten by the next call.

        `tweaks` has the shape of `labels`, or of one of its entries along the first axis. They are
        number `first` and following of the circuit, which says under which keys.
        """
        size, count = labels.size, tweaks.size // 2
        source, (inner_view, mixed_view, outer_view) = labels.data.cast("B"), self._views
        inner = self._inner[:size].reshape(labels.shape)
        mixed = self._mixed[:size].reshape(labels.shape)
        outer = self._outer[:size].reshape(labels.shape)
        parts = list(self._parts(first, count=count, copies=size // (2 * count)))
        for permute, start, stop in parts:
            permute(source[start:stop], inner_view[start : stop + 16])
        np.bitwise_xor(inner, tweaks, out=mixed)
        for permute, start, stop in parts:
            permute(mixed_view[start:stop], outer_view[start : stop + 16])
        outer ^= inner
        return outer

    def _parts(self, first: int, *, count: int, copies: int) -> Iterator[tuple[_Permute, int, int]]:
        """Yield the permutation and the bytes of each run of labels under one key."""
        if first // SPAN == (first + count - 1) // SPAN:
            yield self._permutation(first // SPAN), 0, 16 * count * copies
            return
        for span in range(first // SPAN, (first + count - 1) // SPAN + 1):
            start = max(first, span * SPAN) - first
            stop = min(first + count, (span + 1) * SPAN) - first
            permute = self._permutation(span)
            for copy in range(copies):
                yield permute, 16 * (copy * count + start), 16 * (copy * count + stop)

    def _permutation(self, span: int) -> _Permute:
        if span != self._span:
            self._span, self._permute = span, _permutation(self._key, span)
        return self._permute


def _permutation(key: bytes, span: int) -> _Permute:
    """AES under the key of one span. ECB is the permutation itself: no mode is meant."""
    number = span.to_bytes(8, "little")
    derived = blake2b(number, key=key, digest_size=KEY_BYTES, person=b"helba span").digest()
    permute: _Permute = Cipher(algorithms.AES(derived), modes.ECB()).encryptor().update_into
    return permute
