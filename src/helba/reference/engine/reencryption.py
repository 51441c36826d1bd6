"""What an engine does with a vector that leaves: re-encryption to somebody else, and flooding.

*Re-encryption.* A key switch from one secret key to another: digits of the ciphertext times the
key, divided by P. Seen together with the ciphertext, its error could tell the recipient about the
key (an attack on honest re-encryption; Cohen, ePrint 2017/785). The error is x/P, x the digits
times the key's errors, and what the division rounds off: d0 + d1 s. The remainders modulo P behind
d0 and d1 are uniform whatever x is, and the server's alone. They do not hide x by being larger:
OpenFHE divides prime by prime, so that for given remainders x changes the rounding of nearly every
other coefficient. But the distribution of the error does not depend on that. A prime p of P adds
floor(x_p/p - (r s)/p), r uniform modulo p: a sum of as many uniform numbers as s has coefficients
other than 0, h of them, rounded down on a grid that x_p shifts. Such a sum is smooth, and a shifted
grid shifts it, up to (2/pi)^h in a coefficient; all shifts together are x/P and a whole number. So
x shows as a shift by x/P: nothing near the last level, where digits are small against P, and
`planning.bounds.noise.NoiseModel.reencryption_trace` bounds it. (For all coefficients together this
is heuristic; and the remainders of many vectors under one key are uniform as far as ring learning
with rounding is hard.) What goes to somebody else should therefore go there with few levels left,
and be flooded after.

*Flooding.* A fresh encryption of noise is added: it re-randomises, so that the second polynomial
says nothing of where the vector came from, and covers what CKKS left in the low digits. Half of the
amount is uniform and independent in every slot. The other half is spread over all coefficients of
the polynomial, those included that no slot is read from, independent and uniform in each: 2s of
them meet in a slot.
"""

from __future__ import annotations

from helba.errors import require_positive
from helba.reference.engine.bookkeeping import Bookkeeping
from helba.reference.engine.chance import draw_uniform
from helba.reference.engine.keys import ReencryptionKey
from helba.reference.engine.primitives import Array
from helba.reference.engine.vector import Body, EncryptedVector


class Reencryption(Bookkeeping):
    """Vectors on their way to others."""

    def reencrypt(self, vector: EncryptedVector, *, key: ReencryptionKey) -> EncryptedVector:
        """Return the same value under the recipient's key; only the recipient's engine takes it."""
        self._require_own(vector)
        self._require_way(key, level=vector.level)
        body = self._settled(vector)
        self.tally.add("reencrypt", level=body.level)
        return EncryptedVector(
            Body(self._reencrypt(body, key), body.level),
            slots=vector.slots,
            parameters=self.parameters,
            tag=key.recipient_tag,
        )

    def flood(self, vector: EncryptedVector, *, amount: float) -> EncryptedVector:
        """Return the vector re-randomised, with noise of at most `amount` in every slot.

        OpenFHE's decryption adds more, which it estimates from the noise: in fewer than 8 slots a
        reader may be off by more than `amount`.
        """
        self._require_own(vector)
        require_positive("amount", amount)
        body = self._settled(vector)
        self.tally.add("flood", level=body.level)
        flooded = self._flood(body, vector.slots, amount)
        return self._vector(Body(flooded, body.level), slots=vector.slots)


def draw_slot_flood(slots: int, *, amount: float) -> Array:
    """Return the half of the noise that is uniform in every slot."""
    return draw_uniform(slots, bound=amount / 2.0)


def draw_coefficient_flood(count: int, *, slots: int, amount: float) -> Array:
    """Return `count` coefficients of the other half, in units of the scale."""
    return draw_uniform(count, bound=amount / (4.0 * slots))
