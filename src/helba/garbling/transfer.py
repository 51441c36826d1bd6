"""Input labels for the evaluator's bits, by transfer extension.

Ishai, Kilian, Nissim, Petrank, "Extending Oblivious Transfers Efficiently" (CRYPTO 2003), with the
one column a transfer of Asharov, Lindell, Schneider, Zohner (CCS 2013, ePrint 2013/552). The
evaluator has both seeds of 128 base transfers, the garbler the one that bit i of its offset R
chooses. For n bits r of the evaluator and a fresh nonce, with G a stream of n bits,

    evaluator  t^i = G(seed_0^i), sends u^i = t^i xor G(seed_1^i) xor r
    garbler    q^i = G(seed_(R_i)^i) xor R_i u^i

Then row j of q is row j of t xor r_j R: q_j is the zero label of bit j, and the evaluator holds
t_j, its label for r_j. Nothing goes back. u is pseudorandom to the garbler, so that it learns
nothing (the first paper's theorem); the evaluator sees nothing at all, and R stays
hidden if it sends columns that belong to one r. An evaluator that does not finds all of R from one
transfer and one garbled circuit, unnoticed, and with it the garbler's inputs of the whole session:
there is no consistency check, and the parties are honest-but-curious here. Labels are not hashed,
because the hash of the gates takes labels of anybody's choice (see `tweak_hash`).

G is AES-128 in counter mode from the nonce on, with the seed as key: standard, given that no
counter block is used twice; nonces are random, so that one is with probability below
(blocks of a session)^2 / 2^128.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from helba.garbling.base_transfer import TRANSFERS
from helba.garbling.circuits.circuit import Bits
from helba.garbling.confidential import Confidential
from helba.garbling.tweak_hash import Labels

NONCE_BYTES = 16
Columns = npt.NDArray[np.uint8]


def column_bytes(bits: int) -> int:
    """Return the length of one of the 128 columns for that many bits."""
    return -(-bits // 8)


def expand_labels(seed: bytes, *, shape: tuple[int, ...]) -> Labels:
    """Return labels of shape (*shape, 2) from a seed that is used once, by AES-128-CTR."""
    stream = _Streams([seed]).draw(bytes(NONCE_BYTES), size=16 * math.prod(shape))
    return np.ascontiguousarray(stream[0]).view(np.uint64).reshape(*shape, 2)


class TransferReceiver(Confidential):
    """The evaluator's side: both seeds of every base transfer."""

    def __init__(self, seeds: list[tuple[bytes, bytes]]) -> None:
        self._zero = _Streams([zero for zero, _ in seeds])
        self._one = _Streams([one for _, one in seeds])

    def receive(self, bits: Bits, *, nonce: bytes) -> tuple[Columns, Labels]:
        """Return the columns for the garbler, and the labels of the bits, of shape (bits, 2)."""
        size = column_bytes(len(bits))
        zero = self._zero.draw(nonce, size=size)
        columns = zero ^ self._one.draw(nonce, size=size)
        columns ^= np.packbits(bits, bitorder="little")
        return columns, _transpose(zero)[: len(bits)]


class TransferSender(Confidential):
    """The garbler's side: the seeds that its offset has chosen."""

    def __init__(self, seeds: list[bytes], *, offset: Labels) -> None:
        self._streams = _Streams(seeds)
        chosen = np.unpackbits(offset.view(np.uint8), bitorder="little")
        self._masks = (np.uint8(0) - chosen)[:, None]

    def send(self, columns: Columns, *, nonce: bytes, bits: int) -> Labels:
        """Return the zero labels of the evaluator's bits, of shape (bits, 2)."""
        rows = self._streams.draw(nonce, size=column_bytes(bits))
        rows ^= columns & self._masks
        return _transpose(rows)[:bits]


class _Streams(Confidential):
    """AES-128-CTR under several keys at once; the key schedules are made once."""

    def __init__(self, keys: list[bytes]) -> None:
        # Counter mode is ECB on counter blocks; a CTR object would need a new one for every nonce.
        self._encryptors = [Cipher(algorithms.AES(k), modes.ECB()).encryptor() for k in keys]

    def draw(self, nonce: bytes, *, size: int) -> Columns:
        """Return `size` bytes of every stream, starting at counter block `nonce`."""
        blocks = -(-size // 16)
        counters = _count_from(nonce, blocks)
        # One block of room after every row, because update_into wants it.
        rows = np.empty((len(self._encryptors), 16 * (blocks + 1)), dtype=np.uint8)
        for encryptor, row in zip(self._encryptors, rows, strict=True):
            encryptor.update_into(counters, row.data)
        return rows[:, :size]


def _count_from(nonce: bytes, blocks: int) -> bytes:
    """Return nonce, nonce + 1, ... modulo 2^128 as blocks of 16 bytes, highest byte first."""
    high, low = int.from_bytes(nonce[:8], "big"), int.from_bytes(nonce[8:], "big")
    lows = np.arange(blocks, dtype=np.uint64) + np.uint64(low)
    highs = np.full(blocks, high, dtype=np.uint64) + (lows < np.uint64(low))
    return np.stack([highs, lows], axis=1).astype(">u8").tobytes()


def _transpose(rows: Columns) -> Labels:
    """Return the labels whose bit i comes from row i: a transposition of 128 x (8 size) bits.

    Bytes are moved to 8 x 8 squares of bits, which are transposed as words (Warren, "Hacker's
    Delight", section 7-3).
    """
    size = rows.shape[1]
    squares = np.ascontiguousarray(rows.reshape(TRANSFERS // 8, 8, size).transpose(2, 0, 1))
    words = squares.view(np.uint64)
    swapped = np.empty_like(words)
    for distance, mask in (
        (7, 0x00AA00AA00AA00AA),
        (14, 0x0000CCCC0000CCCC),
        (28, 0x00000000F0F0F0F0),
    ):
        np.right_shift(words, np.uint64(distance), out=swapped)
        swapped ^= words
        swapped &= np.uint64(mask)
        words ^= swapped
        swapped <<= np.uint64(distance)
        words ^= swapped
    flat = np.ascontiguousarray(squares.transpose(0, 2, 1))
    return flat.reshape(8 * size, TRANSFERS // 8).view(np.uint64)
