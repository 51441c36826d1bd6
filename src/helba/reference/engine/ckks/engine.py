"""The primitives of `Engine` on OpenFHE's ciphertexts.

Every ciphertext here has the canonical scale of its level (S_l, or S_l^2 while a product is
pending), so sums need no further care. Three things are done by hand because OpenFHE's automatic
modes would repeat them: rescaling (`Compress`, once for each value instead of once for each use),
relinearisation (once for each sum of products), and bringing a value down several levels, where one
product with the right number replaces a product and two rescalings.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from helba.errors import EngineError
from helba.reference.engine.ckks.context import open_context
from helba.reference.engine.ckks.correction import DivisionCorrection
from helba.reference.engine.ckks.exchanges import CkksExchanges
from helba.reference.engine.ckks.polynomial import encoder_of
from helba.reference.engine.ckks.residue import pack_residues, read_residues
from helba.reference.engine.ckks.wire import LIBRARY, CiphertextForm
from helba.reference.engine.engine import Engine
from helba.reference.engine.keys import EvaluationKey, PublicKey, ReencryptionKey, SecretKey
from helba.reference.engine.primitives import Array
from helba.reference.engine.reencryption import draw_coefficient_flood, draw_slot_flood
from helba.reference.engine.vector import Body
from helba.ring.ckks.context import reason_of
from helba.ring.ckks.process import require_own_randomness
from helba.ring.ckks.template import COEFFICIENTS, EVALUATIONS

PLAINTEXT_CACHE_BYTES = 1 << 30
# What ciphertexts of a kind look like: a fresh encryption, one at the scale of the top, or a share,
# the single polynomial that decrypting such a one leaves.
FORMS = {
    "vector": "fresh",
    "refresh request": "masked",
    "refresh reply": "fresh",
    "opening request": "masked",
    "pending refresh": "share",
}

# What OpenFHE says of numbers that are below half a unit of the scale.
TOO_SMALL = "Scaling factor too small"


class CkksEngine(CkksExchanges, Engine):
    """Computes on CKKS ciphertexts. Without an evaluation key it only encrypts."""

    name = "ckks"
    library = LIBRARY

    def __init__(self, public_key: PublicKey, *, evaluation_key: EvaluationKey | None) -> None:
        super().__init__(public_key, evaluation_key=evaluation_key)
        self._context = open_context(self.parameters)
        self._towers = self.parameters.depth + 1
        self._scales = [self._context.GetScalingFactorReal(i) for i in range(self._towers)]
        self._plaintext_lock = Lock()  # several threads may compute with one engine
        self._plaintext_bytes = 0
        self._plaintexts: OrderedDict[tuple[bytes, int, int], Any] = OrderedDict()
        self._forms: dict[tuple[str, int, int], CiphertextForm] = {}
        self._correction: DivisionCorrection | None = None  # made at the first rotation
        self._throw_away: Any = None  # made when needed, see `_own_key`

    def _encrypt(self, clear: Array, level: int) -> Any:
        require_own_randomness()
        plaintext = self._encode(clear, level=level, degree=1, slots=len(clear))
        return self._timed("encrypt", self._context.Encrypt, self.public_key._payload, plaintext)

    def _decrypt(self, body: Body, secret_key: SecretKey, slots: int) -> Array:
        """The numbers. OpenFHE adds noise to them, and cannot estimate it from a single slot."""
        require_own_randomness()
        ciphertext = body.payload
        counted = ciphertext.GetLevel() + ciphertext.GetNoiseScaleDeg() - 1
        if counted != body.level:
            raise EngineError(f"OpenFHE counts level {counted} where {body.level} is due")
        if slots == 1:
            ciphertext = self._repeat(body, 2)
        try:
            found = self._timed("decrypt", self._context.Decrypt, ciphertext, secret_key._payload)
        except RuntimeError as error:
            raise EngineError(f"the vector cannot be decrypted: {reason_of(error)}") from error
        found.SetLength(slots)
        values = np.array(found.GetRealPackedValue(), dtype=np.float64)
        self._require_range(float(np.abs(values).max()), level=body.level)
        return values

    def _add(self, left: Body, right: Body) -> Any:
        return self._timed("add", self._context.EvalAdd, left.payload, right.payload)

    def _subtract(self, left: Body, right: Body) -> Any:
        return self._timed("add", self._context.EvalSub, left.payload, right.payload)

    def _add_plain(self, body: Body, clear: Array) -> Any:
        if clear.ndim == 0:
            return self._timed("add_plain", self._context.EvalAdd, body.payload, float(clear))
        plaintext = self._plaintext(clear, level=body.level, degree=body.degree)
        return self._timed("add_plain", self._context.EvalAdd, body.payload, plaintext)

    def _multiply(self, left: Body, right: Body) -> Any:
        return self._timed("multiply", self._context.EvalMultNoRelin, left.payload, right.payload)

    def _multiply_plain(self, body: Body, clear: Array) -> Any:
        plaintext = self._plaintext(clear, level=body.level, degree=1)
        return self._timed("multiply_plain", self._context.EvalMult, body.payload, plaintext)

    def _multiply_scalar(self, body: Body, factor: float, level: int) -> Any:
        """Drop to `level` and multiply by the number that also corrects the scale to S_l^2."""
        ciphertext = body.payload
        if level > body.level:
            ciphertext = self._timed(
                "multiply_scalar", self._context.Compress, ciphertext, self._towers - level
            )
        correction = self._scales[level] / ciphertext.GetScalingFactor()
        product = self._timed(
            "multiply_scalar", self._context.EvalMult, ciphertext, factor * correction
        )
        product.SetScalingFactor(self._scales[level] ** 2)
        return product

    def _relinearise(self, body: Body) -> Any:
        return self._timed("relinearise", self._context.Relinearize, body.payload)

    def _rescale(self, body: Body) -> Any:
        return self._timed(
            "rescale", self._context.Compress, body.payload, self._towers - body.level - 1
        )

    def _rotate(self, body: Body, key: int) -> Any:
        rotated = self._timed("rotate", self._context.EvalRotate, body.payload, key)
        return self._corrected(rotated, "rotate", degree=body.degree)

    def _hoist(self, body: Body) -> Any:
        return self._timed("hoist", self._context.EvalFastRotationPrecompute, body.payload)

    def _rotate_hoisted(self, body: Body, digits: Any, key: int) -> Any:
        order = 2 * self.parameters.ring_dim
        rotated = self._timed(
            "rotate_hoisted", self._context.EvalFastRotation, body.payload, key, order, digits
        )
        return self._corrected(rotated, "rotate_hoisted", degree=body.degree)

    def _sum_rotations(self, body: Body, keys: Sequence[int]) -> Any:
        """Sum in the basis of Q P, and divide by P once."""
        digits = self._hoist(body)
        total: Any = None
        for key in keys:
            part = self._timed(
                "rotate_extended",
                self._context.EvalFastRotationExt,
                body.payload,
                key,
                digits,
                True,
            )
            total = (
                part
                if total is None
                else self._timed("rotate_extended", self._context.EvalAdd, total, part)
            )
        divided = self._timed("shrink", self._context.KeySwitchDown, total)
        return self._corrected(divided, "shrink", degree=body.degree)

    def _corrected(self, ciphertext: Any, kind: str, *, degree: int) -> Any:
        """Without the bias of the division by P; a pending product need not care."""
        if degree == 2:
            return ciphertext
        if self._correction is None:
            self._correction = DivisionCorrection(
                parameters=self.parameters, tag=self.public_key.tag
            )
        missing = self._correction.at_level(ciphertext.GetLevel())
        return self._timed(kind, self._context.EvalAdd, ciphertext, missing)

    def _fold(self, body: Body, slots: int) -> Any:
        narrower = self._timed("repeat", body.payload.Clone)
        narrower.SetSlots(slots)
        return narrower

    def _repeat(self, body: Body, times: int) -> Any:
        wider = self._timed("repeat", body.payload.Clone)
        wider.SetSlots(body.payload.GetSlots() * times)
        return wider

    # -- leaving

    def _reencrypt(self, body: Body, key: ReencryptionKey) -> Any:
        moved = self._timed("reencrypt", self._context.KeySwitch, body.payload, key._payload)
        corrected = self._corrected(moved, "reencrypt", degree=body.degree)
        corrected.SetKeyTag(key.recipient_tag)
        return corrected

    def _flood(self, body: Body, slots: int, amount: float) -> Any:
        """A fresh encryption of zero, and one polynomial with both halves of the noise."""
        require_own_randomness()
        level, context, encoder = body.level, self._context, encoder_of(self.parameters)
        zero = self._plaintext(np.zeros(slots), level=level, degree=1)
        fresh = self._timed("flood", context.Encrypt, self.public_key._payload, zero)
        uniform = draw_slot_flood(slots, amount=amount)
        spread = draw_coefficient_flood(self.parameters.ring_dim, slots=slots, amount=amount)
        noise = self._timed(
            "flood", encoder.plaintext, spread * self._scales[level], slots=uniform, level=level
        )
        self._timed("flood", context.EvalAddInPlace, fresh, body.payload)
        self._timed("flood", context.EvalAddInPlace, fresh, noise)
        return fresh

    # -- bootstrapping; exchanges with a helper are in `CkksExchanges`

    def _bootstrap(self, body: Body) -> Body:
        require_own_randomness()
        fresh = self._timed("bootstrap", self._context.EvalBootstrap, body.payload)
        if fresh.GetNoiseScaleDeg() == 2:
            fresh = self._timed(
                "bootstrap", self._context.Compress, fresh, self._towers - fresh.GetLevel() - 1
            )
        return Body(fresh, fresh.GetLevel())

    # -- bytes

    def _dump(self, payload: Any, *, kind: str, slots: int, level: int) -> bytes:
        if kind in ("opening reply", "pending opening"):
            return pack_residues(payload)
        return self._form(FORMS[kind], slots, level).dump(payload)

    def _load(self, data: memoryview, *, kind: str, slots: int, level: int) -> Any:
        if kind in ("opening reply", "pending opening"):
            return read_residues(data, ring_dim=2 * slots, moduli=self._last_moduli)
        return self._form(FORMS[kind], slots, level).load(data)

    def _form(self, form: str, slots: int, level: int) -> CiphertextForm:
        """What ciphertexts of one shape have in common, from a fresh one; made once for each."""
        key = (form, slots, level)
        if key not in self._forms:

            def make() -> Any:
                sample = self._encrypt(np.zeros(slots), level)
                if form != "fresh":  # at the scale of the top, see `_at_two_towers`
                    sample.SetScalingFactor(self._scales[0])
                if form == "share":
                    return self._context.IntBootDecrypt(self._own_key(), sample)
                return sample

            residues = COEFFICIENTS if form == "share" else EVALUATIONS
            self._forms[key] = CiphertextForm.of(make, parameters=self.parameters, form=residues)
        return self._forms[key]

    def _own_key(self) -> Any:
        """A secret key that decrypts nothing: it brings polynomials of our own to their form."""
        if self._throw_away is None:
            require_own_randomness()
            self._throw_away = self._timed("refresh", self._context.KeyGen).secretKey
        return self._throw_away

    # -- plaintexts

    def _plaintext(self, clear: Array, *, level: int, degree: int) -> Any:
        """The encoded values; masks come back in every circuit, so the last ones are kept."""
        key = (clear.tobytes(), level, degree)
        with self._plaintext_lock:
            found = self._plaintexts.pop(key, None)
            if found is None:
                found = self._encode(clear, level=level, degree=degree, slots=len(clear))
                self._plaintext_bytes += self._bytes_at(level)
            self._plaintexts[key] = found
            while self._plaintext_bytes > PLAINTEXT_CACHE_BYTES:
                (_, dropped, _), _ = self._plaintexts.popitem(last=False)
                self._plaintext_bytes -= self._bytes_at(dropped)
        return found

    def _bytes_at(self, level: int) -> int:
        """Bytes of a polynomial at `level`."""
        return 8 * self.parameters.ring_dim * (self._towers - level)

    def _encode(self, clear: Array, *, level: int, degree: int, slots: int) -> Any:
        make = self._context.MakeCKKSPackedPlaintext
        self.tally.encodings += 1
        try:
            return self._timed("encode", make, clear, degree, level, None, slots)
        except RuntimeError as error:
            if TOO_SMALL in str(error):  # every coefficient would be rounded to 0: so be it
                return make(np.zeros_like(clear), degree, level, None, slots)
            raise EngineError(f"the values cannot be encoded: {reason_of(error)}") from error

    def _timed(
        self, kind: str, operation: Callable[..., Any], *arguments: Any, **options: Any
    ) -> Any:
        start = time.perf_counter()
        result = operation(*arguments, **options)
        self.tally.spend(kind, seconds=time.perf_counter() - start)
        return result
