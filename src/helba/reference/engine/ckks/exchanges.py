"""The primitives of masked refresh and masked opening on OpenFHE's ciphertexts."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from helba.errors import DamagedData
from helba.reference.engine.ckks.share import decode_coefficients, flood_shares, join_shares
from helba.reference.engine.ckks.wire import CiphertextForm
from helba.reference.engine.exchanges.masking import Masking
from helba.reference.engine.keys import PublicKey, Recipient, SecretKey
from helba.reference.engine.primitives import Array
from helba.reference.engine.vector import Body
from helba.ring.ckks.process import require_own_randomness
from helba.ring.sharing.integer import Residues


class CkksExchanges(Masking):
    """What `CkksEngine` does together with a helper."""

    _context: Any
    _scales: list[float]

    @abstractmethod
    def _timed(self, kind: str, operation: Any, *arguments: Any, **options: Any) -> Any:
        """Call OpenFHE, and count the time."""

    @abstractmethod
    def _form(self, form: str, slots: int, level: int) -> CiphertextForm:
        """What ciphertexts of one shape have in common."""

    @abstractmethod
    def _own_key(self) -> Any:
        """A secret key that decrypts nothing."""

    # -- refresh

    def _begin_refresh(self, body: Body, to: Recipient | None) -> tuple[Any, Any]:
        """Mask with a uniform polynomial, re-randomise; keep the mask rounded like a share."""
        require_own_randomness()
        context, timed = self._context, self._timed
        own = self.public_key
        low = self._at_two_towers(body, to)
        low = timed("refresh", context.EvalAdd, low, self._zero_like(low, to))
        nothing = timed("refresh", context.EvalSub, low, low)
        uniform = timed("refresh", context.IntMPBootRandomElementGen, low).GetElements()[0]
        mask = nothing.Clone()
        mask.SetElements([uniform, nothing.GetElements()[0]])
        sent = timed("refresh", context.EvalAdd, low, mask)
        negated = timed("refresh", context.EvalNegate, mask)
        negated.SetKeyTag(own.tag)  # what comes back is under our own key
        kept = timed("refresh", context.IntBootDecrypt, self._own_key(), negated)
        return sent, kept

    def _answer_refresh(self, request: Any, secret_key: SecretKey, under: PublicKey) -> Any:
        require_own_randomness()
        share = self._timed("refresh", self._context.IntBootDecrypt, secret_key._payload, request)
        share = self._timed("refresh", self._narrowed, share)
        share.SetKeyTag(under.tag)
        return self._timed("refresh", self._context.IntBootEncrypt, under._payload, share)

    def _finish_refresh(self, reply: Any, mask: Any) -> Any:
        narrow = self._timed("refresh", self._narrowed, mask)
        return self._timed("refresh", self._context.IntBootAdd, reply, narrow)

    def _narrowed(self, share: Any) -> Any:
        """The share without the coefficients that its slots are not read from.

        These carry noise by which the copies of a repeated vector differ. Circuits that rely on the
        period multiply one copy with another, so that an iteration which contracts the error of its
        value may enlarge that of the differences: Newton's inverse doubles it in every step.
        """
        slots = share.GetSlots()
        gap = self.parameters.ring_dim // (2 * slots)
        if gap == 1:
            return share
        form = self._form("share", slots, self.parameters.depth - 1)
        residues = form.gather(share)
        narrow = np.zeros_like(residues)
        narrow[:, ::gap] = residues[:, ::gap]
        return form.fill(narrow)

    # -- opening

    def _begin_opening(self, body: Body, slots: int, to: Recipient | None) -> tuple[Any, Any]:
        request, mask = self._begin_refresh(body, to)
        return request, self._readable(mask, slots=slots)

    def _answer_opening(self, request: Any, secret_key: SecretKey, slots: int, flood: float) -> Any:
        share = self._timed("opening", self._context.IntBootDecrypt, secret_key._payload, request)
        bound = flood * self._scales[0] / (2 * slots)
        return flood_shares(
            self._readable(share, slots=slots), moduli=self._last_moduli, bound=bound
        )

    def _finish_opening(self, reply: Any, mask: Any) -> Array:
        coefficients = join_shares(reply, mask, moduli=self._last_moduli)
        if not float(np.abs(coefficients).max()) <= self.most_masked * self._scales[0]:
            raise DamagedData("the reply does not fit its mask")
        return decode_coefficients(coefficients, scale=self._scales[0])

    def _readable(self, share: Any, *, slots: int) -> Residues:
        """The coefficients of a share that `slots` slots are read from."""
        residues = self._form("share", slots, self.parameters.depth - 1).gather(share)
        return np.ascontiguousarray(residues[:, :: self.parameters.ring_dim // (2 * slots)])

    @property
    def _last_moduli(self) -> tuple[int, ...]:
        return self._form("share", 1, self.parameters.depth - 1).template.moduli

    def _at_two_towers(self, body: Body, to: Recipient | None) -> Any:
        """The value on the last two towers at the scale of the top, where it will come back.

        It changes keys while a product is pending: the scale is there twice, and the error of the
        switch goes with the rescaling.

        IntBootAdjustScale does this too, but is off by the distance of the primes from a power of
        two: a relative error of 1e-5 at 40 bits.
        """
        last = self.parameters.depth - 1
        factor = self._scales[0] / self._scales[last]
        product = self._multiply_scalar(body, factor, last - 1)
        if to is not None:
            product = self._reencrypt(Body(product, last - 1, degree=2), to.key)
        low = self._timed("refresh", self._context.Compress, product, 2)
        low.SetScalingFactor(self._scales[0])
        return low

    def _zero_like(self, ciphertext: Any, to: Recipient | None) -> Any:
        """A fresh encryption of zero that can be added to `ciphertext`, under the same key."""
        public = self.public_key if to is None else to.public_key
        slots = ciphertext.GetSlots()
        plaintext = self._timed(
            "refresh",
            self._context.MakeCKKSPackedPlaintext,
            [0.0] * slots,
            ciphertext.GetNoiseScaleDeg(),
            ciphertext.GetLevel(),
            None,
            slots,
        )
        zero = self._timed("refresh", self._context.Encrypt, public._payload, plaintext)
        zero.SetScalingFactor(ciphertext.GetScalingFactor())
        return zero
