"""128 oblivious transfers of random seeds, once a session.

Masny, Rindal, "Endemic Oblivious Transfer" (CCS 2019, ePrint 2019/706), the one-round protocol from
Diffie-Hellman key agreement, on the prime-order group of edwards25519 (written additively, with
generator G). For each transfer, with the receiver's choice c:

    receiver  draws a and a random point r_(1-c); sends r_0, r_1 with r_c = a G - H_c(r_(1-c))
    sender    draws b, sends B = b G; seed j is K(b (r_j + H_j(r_(1-j)))), for j = 0, 1
    receiver  has seed c as K(a B)

r_0 and r_1 are uniform and independent whatever c is: the sender learns nothing about the choice,
unconditionally. The other seed is K(b r_(1-c) + b H_(1-c)(r_c)): to know it is to solve the
computational Diffie-Hellman problem for B and a point of the random oracle. The paper proves it for
parties that deviate as well, in the random oracle model ("endemic": such a party may choose its own
seeds); garbling needs honest ones only.

H is a hash to the group with the structure of RFC 9380, "encode twice and add": the sum of two maps
(`crypto_core_ed25519_from_uniform`, which clears the cofactor) of two halves of a BLAKE2b output.
A single map reaches only a part of the group. K is BLAKE2b over the session, all points of all
transfers, the number of the transfer, j and the shared point. Received points must be canonical and
in the prime-order group (PyNaCl 1.6.2 or later: CVE-2025-69277 let others pass).
"""

from __future__ import annotations

from hashlib import blake2b

from nacl import bindings as sodium
from nacl.exceptions import CryptoError

from helba.errors import DamagedData
from helba.garbling.confidential import Confidential
from helba.randomness import draw_bytes

TRANSFERS = 128
POINT_BYTES = 32
SEED_BYTES = 16


class BaseReceiver(Confidential):
    """The receiver of the base transfers: gets one of two seeds for each of its 128 choices."""

    def __init__(self, choices: list[int], *, session: bytes) -> None:
        self._choices, self._session = choices, session
        self._scalars = [_draw_scalar() for _ in choices]
        points = []
        for i, (choice, scalar) in enumerate(zip(choices, self._scalars, strict=True)):
            other = sodium.crypto_scalarmult_ed25519_base_noclamp(_draw_scalar())
            own = sodium.crypto_core_ed25519_sub(
                sodium.crypto_scalarmult_ed25519_base_noclamp(scalar),
                _hash_to_group(other, session=session, index=i, side=choice),
            )
            points += [other, own] if choice else [own, other]
        self.points = b"".join(points)

    def _describe(self) -> str:
        return f"{len(self._choices)} transfers"

    def receive(self, answer: bytes) -> list[bytes]:
        """Return the chosen seeds, given the sender's points."""
        answers = _read_points(answer, count=len(self._choices))
        transcript = _digest_points(self.points, answer, session=self._session)
        return [
            _derive_seed(_multiply(scalar, point), transcript=transcript, index=i, side=choice)
            for i, (choice, scalar, point) in enumerate(
                zip(self._choices, self._scalars, answers, strict=True)
            )
        ]


def send_seeds(points: bytes, *, session: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return the sender's points for the receiver, and both seeds of every transfer."""
    offered = _read_points(points, count=2 * TRANSFERS)
    scalars = [_draw_scalar() for _ in range(TRANSFERS)]
    answer = b"".join(sodium.crypto_scalarmult_ed25519_base_noclamp(b) for b in scalars)
    transcript = _digest_points(points, answer, session=session)
    seeds = []
    for i, scalar in enumerate(scalars):
        pair = offered[2 * i : 2 * i + 2]
        seed = []
        for side in (0, 1):
            hashed = _hash_to_group(pair[1 - side], session=session, index=i, side=side)
            shared = _multiply(scalar, sodium.crypto_core_ed25519_add(pair[side], hashed))
            seed.append(_derive_seed(shared, transcript=transcript, index=i, side=side))
        seeds.append((seed[0], seed[1]))
    return answer, seeds


def _draw_scalar() -> bytes:
    """Return a scalar, uniform modulo the order of the group but for 2^-259."""
    return sodium.crypto_core_ed25519_scalar_reduce(draw_bytes(64))


def _hash_to_group(point: bytes, *, session: bytes, index: int, side: int) -> bytes:
    text = session + bytes([index, side]) + point
    digest = blake2b(text, digest_size=64, person=b"helba base point").digest()
    return sodium.crypto_core_ed25519_add(
        sodium.crypto_core_ed25519_from_uniform(digest[:32]),
        sodium.crypto_core_ed25519_from_uniform(digest[32:]),
    )


def _digest_points(offered: bytes, answered: bytes, *, session: bytes) -> bytes:
    return blake2b(session + offered + answered, person=b"helba base all").digest()


def _derive_seed(shared: bytes, *, transcript: bytes, index: int, side: int) -> bytes:
    text = transcript + bytes([index, side]) + shared
    return blake2b(text, digest_size=SEED_BYTES, person=b"helba base seed").digest()


def _multiply(scalar: bytes, point: bytes) -> bytes:
    try:
        return sodium.crypto_scalarmult_ed25519_noclamp(scalar, point)
    except CryptoError as error:
        raise DamagedData("expected points of the group, got a pair that cancels out") from error


def _read_points(data: bytes, *, count: int) -> list[bytes]:
    if len(data) != count * POINT_BYTES:
        raise DamagedData(f"expected {count * POINT_BYTES} bytes of points, got {len(data)}")
    points = [data[i : i + POINT_BYTES] for i in range(0, len(data), POINT_BYTES)]
    for i, point in enumerate(points):
        if not sodium.crypto_core_ed25519_is_valid_point(point):
            raise DamagedData(f"expected points of the prime-order group, got another at place {i}")
    return points
