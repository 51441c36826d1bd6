"""Bits that go back to the garbler, as labels that it has committed to.

With its tables the garbler sends hashes of both labels of every returned wire, ordered by colour,
which tells nothing about the bit. The evaluator returns a label only if its hash is the one at its
colour. So whatever was garbled, each wire gives the garbler one of two labels that it named before:
one bit, or an abort. To have more it would need two labels of one colour with one hash, a collision
of 256 bits. The garbler takes only one of its own two labels; to forge the other one is to find R
(half gates are authentic: ePrint 2014/756). The hash is BLAKE2b under the circuit's key,
as a random oracle apart from the hash of the gates, over opening, wire, lane and label.
"""

from __future__ import annotations

from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from helba.errors import DamagedData
from helba.garbling.circuits.circuit import Bits
from helba.garbling.gate import take_colours
from helba.garbling.tweak_hash import Labels

COMMITMENT_BYTES = 32


def commit_outputs(
    zero: Labels, *, offset: Labels, key: bytes, name: bytes
) -> npt.NDArray[np.uint8]:
    """Return the hashes of both labels of every wire and lane, of shape (wires, lanes, 2, 32)."""
    hashes = np.empty((*zero.shape[:2], 2, COMMITMENT_BYTES), dtype=np.uint8)
    first = take_colours(zero).astype(np.intp)[..., None, None]
    np.put_along_axis(hashes, first, _hash(zero, key=key, name=name)[:, :, None], axis=2)
    one = _hash(zero ^ offset, key=key, name=name)
    np.put_along_axis(hashes, 1 - first, one[:, :, None], axis=2)
    return hashes


def match_outputs(
    labels: Labels, *, hashes: npt.NDArray[np.uint8], key: bytes, name: bytes
) -> bool:
    """Return True if every label has the hash that stands at its colour."""
    places = take_colours(labels).astype(np.intp)[..., None, None]
    expected = np.take_along_axis(hashes, places, axis=2)[:, :, 0]
    return np.array_equal(expected, _hash(labels, key=key, name=name))


def read_outputs(labels: Labels, *, zero: Labels, offset: Labels) -> Bits:
    """Return the bits, of shape (wires, lanes); `DamagedData` for any but a wire's two labels."""
    zeros = (labels == zero).all(axis=-1)
    ones: Bits = (labels == zero ^ offset).all(axis=-1)
    if not (zeros | ones).all():
        raise DamagedData("expected labels of the returned wires, got another label")
    return ones


def _hash(labels: Labels, *, key: bytes, name: bytes) -> npt.NDArray[np.uint8]:
    """Return BLAKE2b of every label, with its place."""
    start = blake2b(name, digest_size=COMMITMENT_BYTES, key=key, person=b"helba returned")
    digests = []
    for wire, lanes in enumerate(labels):
        for lane, label in enumerate(lanes):
            text = start.copy()
            text.update(wire.to_bytes(4, "little") + lane.to_bytes(4, "little") + label.tobytes())
            digests.append(text.digest())
    flat = np.frombuffer(b"".join(digests), dtype=np.uint8)
    return flat.reshape(*labels.shape[:2], COMMITMENT_BYTES)
