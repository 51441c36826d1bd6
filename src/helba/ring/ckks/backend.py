"""The ring on OpenFHE's CKKS: polynomials by residues, everything that hides something by OpenFHE.

Messages are integer polynomials. They enter as residues of their coefficients (`IntBootEncrypt`,
`IntBootAdd`, which lift residues of two primes, centred, to all three) and leave as residues:
`IntBootDecrypt` multiplies by a secret key and changes to coefficients, but then folds the result
modulo half of Q. One prime at a time beside a row of zeros, the fold shows in that row and is
undone, so residues come out exactly. With the public key 1 instead of a secret it turns evaluations
into coefficients, and nothing else.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeVar

import numpy as np
import openfhe as fhe

from helba.errors import DamagedData
from helba.ring.backend import Backend
from helba.ring.ckks.context import open_context
from helba.ring.ckks.form import automorphism_template, forms_of, read_object, rows_of_object
from helba.ring.ckks.keymap import map_lock
from helba.ring.ckks.process import require_own_randomness
from helba.ring.ckks.template import Template
from helba.ring.ckks.thread import run_all
from helba.ring.key import KEY_ID_BYTES
from helba.ring.parameters import PRIMES, RingParameters
from helba.ring.sharing.integer import Integers, Residues, residues_of
from helba.ring.sharing.packing import pack_rows, unpack_rows
from helba.ring.sharing.place import Places

_Result = TypeVar("_Result")


class CkksBackend(Backend):
    """OpenFHE's ciphertexts of `parameters`."""

    name = "openfhe"

    def __init__(self, parameters: RingParameters) -> None:
        super().__init__(parameters)
        self.context = open_context(parameters)
        self._forms = forms_of(parameters)
        ring_dim = parameters.ring_dim
        ones = np.ones((PRIMES, ring_dim), dtype=np.uint64)
        self._one = read_object(fhe.DeserializePrivateKeyString, self._forms.secret, ones)
        self._half = parameters.share_modulus // 2
        self._zeros = {
            primes: self.context.MakeCKKSPackedPlaintext(
                [0j], 1, PRIMES - primes, None, ring_dim // 2
            )
            for primes in range(1, PRIMES + 1)
        }
        self._nothing = {primes: self._make_nothing(primes) for primes in range(1, PRIMES + 1)}

    def run_all(self, calls: Sequence[Callable[[], _Result]]) -> list[_Result]:
        """Run them side by side on the threads that there are."""
        return run_all(calls)

    # -- keys

    def make_keys(self, *, automorphism: int | None) -> tuple[bytes, Any, Any, Any]:
        """Draw a key pair; its id becomes OpenFHE's tag."""
        require_own_randomness()
        pair = self.context.KeyGen()
        key_id = self._identify(rows_of_object(pair.publicKey, self._forms.public))
        tag = key_id.hex()
        pair.publicKey.SetKeyTag(tag)
        pair.secretKey.SetKeyTag(tag)
        with map_lock:
            self.context.EvalMultKeyGen(pair.secretKey)
            if automorphism is not None:
                self.context.EvalAutomorphismKeyGen(pair.secretKey, [automorphism])
        return key_id, pair.secretKey, pair.publicKey, tag

    def is_pair(self, secret: Any, public: Any) -> bool:
        """Decrypt an encryption of 0 by OpenFHE: what is not 0 is as large as the modulus."""
        zero = self.encrypt_zero(public, primes=PRIMES)
        try:
            found = self.context.Decrypt(secret, zero).GetCKKSPackedValue()
        except RuntimeError:  # OpenFHE's own estimate of the error is past all bounds
            return False
        return bool(np.abs(np.array(found)).max() < 1.0)

    def make_reencryption(self, secret: Any, public: Any) -> Any:
        """Encrypt the secret key to the recipient, as key switching does."""
        require_own_randomness()
        return self.context.ReKeyGen(secret, public)

    # -- encryption

    def encrypt(self, public: Any, values: Integers, places: Places) -> Any:
        """Encrypt by `IntBootEncrypt`."""
        require_own_randomness()
        return self.context.IntBootEncrypt(public, self._share(values, places))

    def encrypt_zero(self, public: Any, *, primes: int) -> Any:
        """Encrypt the plaintext 0."""
        require_own_randomness()
        return self.context.Encrypt(public, self._zeros[primes])

    def add_values(self, body: Any, values: Integers, places: Places, *, primes: int) -> Any:
        """Add by `IntBootAdd`, to all primes, and drop what is not there."""
        share = self._share(values, places)
        if primes == PRIMES:
            return self.context.IntBootAdd(body, share)
        lifted = self.context.IntBootAdd(self._nothing[PRIMES], share)
        lifted = self.context.Compress(lifted, primes)
        lifted.SetKeyTag(body.GetKeyTag())
        return self.context.EvalAdd(body, lifted)

    # -- arithmetic

    def sum(self, bodies: Sequence[Any]) -> Any:
        """Add in place, to a copy of the first."""
        total = bodies[0].Clone()
        for body in bodies[1:]:
            self.context.EvalAddInPlace(total, body)
        return total

    def negate(self, body: Any) -> Any:
        """Negate."""
        return self.context.EvalNegate(body)

    def product(self, first: Any, second: Any, *, evaluation: Any, primes: int) -> Any:
        """Multiply, relinearise with the key that OpenFHE's maps hold, and rescale."""
        return self.context.Rescale(self.context.EvalMult(first, second))

    def automorphism(self, body: Any, *, evaluation: Any, exponent: int) -> Any:
        """Apply it, with the key that OpenFHE's maps hold."""
        maps: Any = fhe.CryptoContext
        return self.context.EvalAutomorphism(
            body, exponent, maps.GetEvalAutomorphismKeyMap(evaluation)
        )

    def drop(self, body: Any, *, primes: int) -> Any:
        """Drop residues."""
        return self.context.Compress(body, primes)

    def reencrypt(self, body: Any, key: Any, *, recipient_id: bytes) -> Any:
        """Switch keys."""
        switched = self.context.ReEncrypt(body, key)
        switched.SetKeyTag(recipient_id.hex())
        return switched

    # -- opening

    def split(self, body: Any, places: Places, *, primes: int) -> tuple[Residues, Residues]:
        """Read both polynomials, and change the first to coefficients."""
        rows = rows_of_object(body, self._forms.ciphertexts[primes])
        return self._coefficients(rows[:primes], self._one)[:, places], rows[primes:]

    def open_second(self, second: Residues, secret: Any, places: Places) -> Residues:
        """Multiply by the secret key and change to coefficients."""
        return self._coefficients(second, secret)[:, places]

    def _coefficients(self, rows: Residues, key: Any) -> Residues:
        """The coefficients of an evaluated polynomial times a key, modulo one or two primes."""
        calls = [partial(self._row_coefficients, row, index, key) for index, row in enumerate(rows)]
        return np.stack(self.run_all(calls))

    def _row_coefficients(self, row: Residues, index: int, key: Any) -> Residues:
        """The same modulo one prime, the first or the second."""
        pair = np.zeros((2, len(row)), dtype=np.uint64)
        pair[index] = row
        single = read_object(fhe.DeserializeCiphertextString, self._forms.single, pair)
        folded = rows_of_object(self.context.IntBootDecrypt(key, single), self._forms.share)
        # The other prime's residue is 0, or that of Q/2 where the fold added it.
        modulus = self.parameters.moduli[index]
        back = np.uint64(modulus - self._half % modulus)
        unfolded = (folded[index] + back) % np.uint64(modulus)
        return np.where(folded[1 - index] == 0, folded[index], unfolded)

    # -- wire

    def dump(self, kind: str, payload: Any, *, primes: int, automorphism: int | None) -> bytes:
        """Return packed residues."""
        if kind != "evaluation key":
            template = self._template(kind, primes)
            return pack_rows(rows_of_object(payload, template), template.moduli)
        maps: Any = fhe.CryptoContext
        template = self._forms.switching
        product = rows_of_object(maps.GetEvalMultKeyVector(payload)[0], template)
        packed = pack_rows(product, template.moduli)
        if automorphism is not None:
            template, _ = automorphism_template(self.parameters, automorphism)
            rows = rows_of_object(maps.GetEvalAutomorphismKeyMap(payload), template)
            packed += pack_rows(rows, template.moduli)
        return packed

    def load(
        self, kind: str, data: memoryview, *, primes: int, key_id: bytes, automorphism: int | None
    ) -> Any:
        """Return OpenFHE's object with these residues, or raise `DamagedData`."""
        ring_dim, tag = self.parameters.ring_dim, key_id.hex()
        if kind == "evaluation key":
            with map_lock:
                return self._load_evaluation(data, tag=tag, automorphism=automorphism)
        template = self._template(kind, primes)
        rows = unpack_rows(data, template.moduli, count=ring_dim)
        _require_hiding(rows)
        if kind == "ciphertext":
            return self._adopt(
                read_object(fhe.DeserializeCiphertextString, template, rows), tag, primes
            )
        if kind == "public key":
            if self._identify(rows) != key_id:
                raise DamagedData("the public key does not have the name that it claims")
            key = read_object(fhe.DeserializePublicKeyString, template, rows)
        elif kind == "secret key":
            key = read_object(fhe.DeserializePrivateKeyString, template, rows)
        else:
            key = read_object(fhe.DeserializeEvalKeyString, template, rows)
        key.SetKeyTag(tag)
        return key

    def _load_evaluation(self, data: memoryview, *, tag: str, automorphism: int | None) -> str:
        """Put the keys into OpenFHE's maps, unless they are there already."""
        maps: Any = fhe.CryptoContext
        ring_dim, template = self.parameters.ring_dim, self._forms.switching
        moduli = template.moduli
        if automorphism is not None:
            turning, old = automorphism_template(self.parameters, automorphism)
            moduli += turning.moduli
        rows = unpack_rows(data, moduli, count=ring_dim)
        _require_hiding(rows)
        half = len(template.moduli)
        present = _automorphisms_of(tag)
        if automorphism is not None and present not in ([], [automorphism]):
            raise DamagedData("an evaluation key of this name has another automorphism")
        if tag in maps.GetAllEvalMultKeys():
            self._require_same(rows[:half], maps.GetEvalMultKeyVector(tag)[0], template)
        else:
            product = read_object(fhe.DeserializeEvalKeyString, template, rows[:half])
            product.SetKeyTag(tag)
            maps.InsertEvalMultKey([product], tag)
        if automorphism is None:
            return tag
        if present:
            self._require_same(rows[half:], maps.GetEvalAutomorphismKeyMap(tag), turning)
        else:
            turn = read_object(
                fhe.DeserializeEvalKeyMapString, turning.with_tag(tag, old=old), rows[half:]
            )
            maps.InsertEvalAutomorphismKey(turn, tag)
        return tag

    def _require_same(self, rows: Residues, held: Any, template: Template) -> None:
        """Raise `DamagedData` unless the key that OpenFHE holds is this one."""
        if not np.array_equal(rows, rows_of_object(held, template)):
            raise DamagedData("an evaluation key of this name is in use, and it is another one")

    # -- parts

    def _share(self, values: Integers, places: Places) -> Any:
        """A polynomial with these coefficients modulo the first two primes."""
        moduli = self.parameters.moduli[:2]
        rows = np.zeros((2, self.parameters.ring_dim), dtype=np.uint64)
        rows[:, places] = residues_of(values, moduli)
        return read_object(fhe.DeserializeCiphertextString, self._forms.share, rows)

    def _make_nothing(self, primes: int) -> Any:
        """A ciphertext whose polynomials are 0; what is read is added to it."""
        require_own_randomness()
        fresh = self.context.Encrypt(self.context.KeyGen().publicKey, self._zeros[primes])
        return self.context.EvalSub(fresh, fresh)

    def _adopt(self, read: Any, tag: str, primes: int) -> Any:
        """The ciphertext in the library's own memory.

        One that OpenFHE's Python module read is copied by that module's own code, a number at a
        time, and so is all that is computed from it.
        """
        nothing = self._nothing[primes]
        read.SetKeyTag(nothing.GetKeyTag())
        adopted = self.context.EvalAdd(nothing, read)
        adopted.SetKeyTag(tag)
        return adopted

    def _template(self, kind: str, primes: int) -> Template:
        forms = self._forms
        if kind == "ciphertext":
            return forms.ciphertexts[primes]
        return {
            "public key": forms.public,
            "secret key": forms.secret,
            "re-encryption key": forms.switching,
        }[kind]

    def _identify(self, rows: Residues) -> bytes:
        digest = hashlib.blake2b(self.parameters.fingerprint, digest_size=KEY_ID_BYTES)
        digest.update(np.ascontiguousarray(rows).tobytes())
        return digest.digest()


def _automorphisms_of(tag: str) -> list[int]:
    """The automorphisms that OpenFHE's maps have keys for."""
    maps: Any = fhe.CryptoContext
    if tag not in maps.GetAllEvalAutomorphismKeys():
        return []
    return list(maps.GetExistingEvalAutomorphismKeyIndices(tag))


def _require_hiding(rows: Residues) -> None:
    """Raise `DamagedData` for a row of zeros: that hides nothing."""
    if not rows.any(axis=1).all():
        raise DamagedData("a row of residues is all zeros: that hides nothing")
