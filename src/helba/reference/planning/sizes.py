"""Bytes that travel and that are stored, from the parameters alone.

A ciphertext is two polynomials, one word of 8 bytes for each coefficient and prime. Residues of a
prime of b bits have b bits of entropy, so that compression leaves b/64 of them (measured: 0.57 of
the size where the limit is 0.56); sizes on the wire are after compression.
"""

from __future__ import annotations

import math

from helba.reference.planning.cost.chain import REFRESH_LEVELS
from helba.reference.planning.parameters import Parameters

WORD_BYTES = 8
# Measured: what a serialised ciphertext has beside its polynomials.
HEADER_BYTES = 1400
# Measured: compressed size over the limit that entropy sets.
COMPRESSION_LOSS = 0.57 / 0.56
# Measured: what an update holds beside its keys, in ciphertexts of the top level (41 at N = 2^16).
WORKING_CIPHERTEXTS = 41


def ciphertext_bytes(parameters: Parameters, *, level: int = 0) -> int:
    """Return the bytes of a ciphertext in memory, with `level` levels used."""
    primes = parameters.depth + 1 - level
    return 2 * primes * parameters.ring_dim * WORD_BYTES + HEADER_BYTES


def message_bytes(parameters: Parameters, *, level: int = 0) -> int:
    """Return the bytes of a ciphertext on the wire, compressed."""
    bits = parameters.first_bits + (parameters.depth - level) * parameters.scale_bits
    return math.ceil(COMPRESSION_LOSS * 2 * parameters.ring_dim * bits / 8) + HEADER_BYTES


def switching_key_bytes(parameters: Parameters) -> int:
    """Return the bytes of a relinearisation or rotation key."""
    return reencryption_key_bytes(parameters, level=0)


def outward_level(parameters: Parameters) -> int:
    """Return the least level of what goes out to users: refreshes leave with two levels to go."""
    return parameters.depth - REFRESH_LEVELS


def reencryption_key_bytes(parameters: Parameters, *, level: int) -> int:
    """Return the bytes of a key that switches ciphertexts with at least `level` levels used."""
    left = parameters.depth + 1 - level
    digits = math.ceil(left / parameters.digit_width)
    rows = 2 * digits * (left + parameters.auxiliary_primes)
    return rows * parameters.ring_dim * WORD_BYTES


def working_bytes(parameters: Parameters, *, keys: int) -> int:
    """Return the memory of a party that computes with `keys` keys, the program itself apart."""
    held = WORKING_CIPHERTEXTS * ciphertext_bytes(parameters)
    return keys * switching_key_bytes(parameters) + held
