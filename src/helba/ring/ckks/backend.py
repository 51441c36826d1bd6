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
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import openfhe as fhe

from helba.errors import DamagedData
from helba.ring.backend import KEY_ID_BYTES, Backend
from helba.ring.ckks.context import open_context
from helba.ring.ckks.form import automorphism_template, make_forms, read_object, rows_of_object
from helba.ring.ckks.process import map_lock, require_own_randomness
from helba.ring.ckks.thread import run_all
from helba.ring.parameters import PRIMES, RingParameters
from helba.ring.sharing.integer import Integers, Places, Residues, residues_of
from helba.ring.sharing.packing import pack_rows, unpack_rows

_READERS = {
    "ciphertext": fhe.DeserializeCiphertextString,
    "share": fhe.DeserializeCiphertextString,
    "polynomial": fhe.DeserializeCiphertextString,
    "public key": fhe.DeserializePublicKeyString,
    "secret key": fhe.DeserializePrivateKeyString,
    "evaluation key": fhe.DeserializeEvalKeyString,
    "re-encryption key": fhe.DeserializeEvalKeyString,
}


class CkksBackend(Backend):
    """OpenFHE's ciphertexts of `parameters`."""

    name = "openfhe"
    run_all = staticmethod(run_all)

    def __init__(self, parameters: RingParameters) -> None:
        super().__init__(parameters)
        self.context = open_context(parameters)
        require_own_randomness()
        pair, fields = self.context.KeyGen(), range(1, PRIMES + 1)
        make_zero = partial(self.context.MakeCKKSPackedPlaintext, [0j], 1)
        self._zeros = {
            primes: make_zero(PRIMES - primes, None, parameters.ring_dim // 2) for primes in fields
        }
        fresh = {
            primes: self.context.Encrypt(pair.publicKey, zero)
            for primes, zero in self._zeros.items()
        }
        # Ciphertexts whose polynomials are 0; what is read is added to one.
        self._nothing = {primes: self.context.EvalSub(each, each) for primes, each in fresh.items()}
        self._forms = make_forms(self.context, pair, fresh, ring_dim=parameters.ring_dim)
        ones = np.ones((PRIMES, parameters.ring_dim), dtype=np.uint64)
        self._one = self._read("secret key", PRIMES, ones)

    # -- keys

    def make_keys(self, *, automorphism: int | None) -> tuple[bytes, Any, Any, Any]:
        """Draw a key pair; its id becomes OpenFHE's tag."""
        require_own_randomness()
        pair = self.context.KeyGen()
        key_id = self._identify(rows_of_object(pair.publicKey, self._forms["public key", PRIMES]))
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

    def product(self, first: Any, second: Any, *, primes: int) -> Any:
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
        rows = rows_of_object(body, self._forms["ciphertext", primes])
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
        polynomial = self._read("polynomial", 2, pair)
        folded = rows_of_object(
            self.context.IntBootDecrypt(key, polynomial), self._forms["share", 2]
        )
        # The other prime's residue is 0, or that of Q/2 where the fold added it.
        modulus = self.parameters.moduli[index]
        back = np.uint64(modulus - self.parameters.share_modulus // 2 % modulus)
        unfolded = (folded[index] + back) % np.uint64(modulus)
        return np.where(folded[1 - index] == 0, folded[index], unfolded)

    # -- wire

    def dump(self, kind: str, payload: Any, *, primes: int, automorphism: int | None) -> bytes:
        """Return packed residues."""
        if kind != "evaluation key":
            template = self._forms[kind, primes]
            return pack_rows(rows_of_object(payload, template), template.moduli)
        maps: Any = fhe.CryptoContext
        template = self._forms[kind, PRIMES]
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
        tag = key_id.hex()
        if kind == "evaluation key":
            with map_lock:
                return self._load_evaluation(data, tag=tag, automorphism=automorphism)
        rows = self._unpack(data, self._forms[kind, primes].moduli)
        if kind == "public key" and self._identify(rows) != key_id:
            raise DamagedData("the public key does not have the name that it claims")
        made = self._read(kind, primes, rows)
        if kind == "ciphertext":
            # One that OpenFHE's Python module read is copied by that module's own code, a number at
            # a time, and so is all that is computed from it. A sum is in the library's own memory.
            nothing = self._nothing[primes]
            made.SetKeyTag(nothing.GetKeyTag())
            made = self.context.EvalAdd(nothing, made)
        made.SetKeyTag(tag)
        return made

    def _load_evaluation(self, data: memoryview, *, tag: str, automorphism: int | None) -> str:
        """Put the keys into OpenFHE's maps; if they are there already, they must be these."""
        maps: Any = fhe.CryptoContext
        if tag in maps.GetAllEvalMultKeys():
            turned = tag in maps.GetAllEvalAutomorphismKeys()
            indices = list(maps.GetExistingEvalAutomorphismKeyIndices(tag)) if turned else []
            if automorphism is not None and indices != [automorphism]:
                raise DamagedData(
                    "an evaluation key of this name has another automorphism, or none"
                )
            held = self.dump("evaluation key", tag, primes=PRIMES, automorphism=automorphism)
            if held != data:
                raise DamagedData("an evaluation key of this name is in use, and it is another one")
            return tag
        moduli, turning = self._forms["evaluation key", PRIMES].moduli, None
        if automorphism is not None:
            turning, old = automorphism_template(self.parameters, automorphism)
            turning = turning.with_tag(tag, old=old)
        rows = self._unpack(data, moduli + (turning.moduli if turning else ()))
        product = self._read("evaluation key", PRIMES, rows[: len(moduli)])
        product.SetKeyTag(tag)
        if turning:
            turn = read_object(fhe.DeserializeEvalKeyMapString, turning, rows[len(moduli) :])
            maps.InsertEvalAutomorphismKey(turn, tag)
        maps.InsertEvalMultKey([product], tag)
        return tag

    # -- parts

    def _share(self, values: Integers, places: Places) -> Any:
        """A polynomial with these coefficients modulo the first two primes."""
        moduli = self.parameters.moduli[:2]
        rows = np.zeros((2, self.parameters.ring_dim), dtype=np.uint64)
        rows[:, places] = residues_of(values, moduli)
        return self._read("share", 2, rows)

    def _read(self, kind: str, primes: int, rows: Residues) -> Any:
        return read_object(_READERS[kind], self._forms[kind, primes], rows)

    def _unpack(self, data: memoryview, moduli: Sequence[int]) -> Residues:
        rows = unpack_rows(data, moduli, count=self.parameters.ring_dim)
        if not rows.any(axis=1).all():
            raise DamagedData("a row of residues is all zeros: that hides nothing")
        return rows

    def _identify(self, rows: Residues) -> bytes:
        digest = hashlib.blake2b(self.parameters.fingerprint, digest_size=KEY_ID_BYTES)
        digest.update(np.ascontiguousarray(rows).tobytes())
        return digest.digest()
