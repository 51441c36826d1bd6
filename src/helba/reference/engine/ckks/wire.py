"""Ciphertexts and single keys as packed residues.

OpenFHE sees what this process wrote, with checked residues in it; see `template`. A ciphertext of
an engine has degree 1, two polynomials and the scale of its level, so shape and kind say everything
but the residues.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import openfhe as fhe

from helba.errors import DamagedData, EngineError
from helba.reference.engine.ckks.context import open_context
from helba.reference.engine.ckks.residue import pack_residues, read_rows
from helba.reference.planning.parameters import Parameters
from helba.ring.ckks.form import parse
from helba.ring.ckks.process import require_own_randomness
from helba.ring.ckks.template import EVALUATIONS, Template
from helba.ring.sharing.integer import Residues

LIBRARY = "openfhe " + ".".join(fhe.__version__.split(".")[:3])
SCALE_TOLERANCE = 1e-12  # scales are computed in several ways, and differ in their last bits
_TAG_DIGITS = 32


@dataclass(frozen=True, kw_only=True)
class CiphertextForm:
    """What all ciphertexts of one kind, level, slots and key share; `make` makes one of them."""

    template: Template
    shape: tuple[Any, ...]
    scale: float
    make: Callable[[], Any]

    @classmethod
    def of(
        cls, make: Callable[[], Any], *, parameters: Parameters, form: int = EVALUATIONS
    ) -> CiphertextForm:
        """Return the form of fresh encryptions, or of what the owner's decryption leaves of them.

        `make` returns such a one whenever it is asked.
        """
        sample = make()
        data = fhe.Serialize(sample, fhe.BINARY)
        template = Template.of(data, ring_dim=parameters.ring_dim, form=form)
        towers = parameters.depth + 1 - sample.GetLevel()
        if len(template.moduli) != sample.NumberCiphertextElements() * towers:
            raise EngineError("OpenFHE writes ciphertexts in another way than it did")
        return cls(
            template=template,
            shape=_shape(sample),
            scale=sample.GetScalingFactor(),
            make=make,
        )

    @cached_property
    def zero(self) -> Any:
        """One whose polynomials are 0, to which what is read is added.

        A ciphertext that OpenFHE's Python module deserialised is copied by that module's own code,
        a number at a time, and so is all that is computed from it: sums then take 9 times as long,
        relinearisations up to twice. The sum with one that the library made belongs to the library
        again (`sum_ratio` of `helba bench kernels`).
        """
        fresh = self.make()
        return fresh.GetCryptoContext().EvalSub(fresh, fresh)

    def dump(self, ciphertext: Any) -> bytes:
        """Return the packed residues; `EngineError` if the ciphertext has another form."""
        return pack_residues(self.gather(ciphertext))

    def gather(self, ciphertext: Any) -> Residues:
        """Return the residues; `EngineError` if the ciphertext has another form."""
        alike = math.isclose(ciphertext.GetScalingFactor(), self.scale, rel_tol=SCALE_TOLERANCE)
        if _shape(ciphertext) != self.shape or not alike:
            raise EngineError("a ciphertext does not have the form of its kind, level and slots")
        return self.template.gather(fhe.Serialize(ciphertext, fhe.BINARY))

    def load(self, packed: memoryview) -> Any:
        """Return the ciphertext with these residues, or raise `DamagedData`."""
        return self.fill(read_rows(packed, template=self.template))

    def fill(self, residues: Residues) -> Any:
        """Return the ciphertext with these residues, which are known to be sound."""
        read = parse(fhe.DeserializeCiphertextString, self.template.fill(residues))
        return self.zero.GetCryptoContext().EvalAdd(self.zero, read)


def dump_public_key(key: Any, *, parameters: Parameters) -> bytes:
    """Return the packed residues of a public key."""
    return pack_residues(_samples(parameters).public.gather(fhe.Serialize(key, fhe.BINARY)))


def dump_secret_key(key: Any, *, parameters: Parameters) -> bytes:
    """Return the packed residues of a secret key: who has them can decrypt everything."""
    return pack_residues(_samples(parameters).secret.gather(fhe.Serialize(key, fhe.BINARY)))


def load_public_key(packed: memoryview, *, parameters: Parameters, tag: str) -> tuple[Any, str]:
    """Return the public key with these residues and its identity, or raise `DamagedData`."""
    samples = _samples(parameters)
    template = samples.public.with_tag(require_tag(tag), old=samples.tag)
    residues = read_rows(packed, template=template)
    key = parse(fhe.DeserializePublicKeyString, template.fill(residues))
    return key, _identity(residues, parameters=parameters, tag=tag)


def load_secret_key(packed: memoryview, *, parameters: Parameters, tag: str) -> Any:
    """Return the secret key with these residues, or raise `DamagedData`."""
    samples = _samples(parameters)
    template = samples.secret.with_tag(require_tag(tag), old=samples.tag)
    return parse(
        fhe.DeserializePrivateKeyString, template.fill(read_rows(packed, template=template))
    )


def identify(key: Any, *, parameters: Parameters) -> str:
    """Return the identity of a public key: the digest of its parameters, tag and residues."""
    residues = _samples(parameters).public.gather(fhe.Serialize(key, fhe.BINARY))
    return _identity(residues, parameters=parameters, tag=key.GetKeyTag())


def _identity(residues: Residues, *, parameters: Parameters, tag: str) -> str:
    digest = hashlib.blake2b(f"{parameters.fingerprint} {tag} ".encode(), digest_size=32)
    digest.update(residues.data.cast("B"))
    return digest.hexdigest()


def require_tag(tag: str) -> str:
    """Return a key tag of OpenFHE's form, or raise `DamagedData`."""
    if len(tag) != _TAG_DIGITS or not set(tag) <= set("0123456789abcdef"):
        raise DamagedData("the key's tag is not one of OpenFHE")
    return tag


@dataclass(frozen=True, kw_only=True)
class _Samples:
    """Templates of a key pair that was made for this purpose and forgotten; its tag is `tag`."""

    public: Template
    secret: Template
    tag: str


@lru_cache(maxsize=16)
def _samples(parameters: Parameters) -> _Samples:
    require_own_randomness()
    pair = open_context(parameters).KeyGen()
    public, secret = (
        Template.of(fhe.Serialize(key, fhe.BINARY), ring_dim=parameters.ring_dim)
        for key in (pair.publicKey, pair.secretKey)
    )
    towers, extended = parameters.depth + 1, len(public.moduli) // 2
    # a public key is one modulo Q P: re-encryption keys are made with it
    most = towers + parameters.auxiliary_primes
    if len(secret.moduli) != towers or not towers < extended <= most:
        raise EngineError("OpenFHE writes keys in another way than it did")
    return _Samples(public=public, secret=secret, tag=pair.publicKey.GetKeyTag())


def _shape(ciphertext: Any) -> tuple[Any, ...]:
    return (
        ciphertext.NumberCiphertextElements(),
        ciphertext.GetLevel(),
        ciphertext.GetNoiseScaleDeg(),
        ciphertext.GetSlots(),
        ciphertext.GetKeyTag(),
        ciphertext.GetEncodingType(),
    )
