"""Residues in, OpenFHE's objects out: by templates of objects that were made in this process.

OpenFHE's Python module gives no access to polynomials but through serialised objects, and its
reader takes whatever structure it is given. So structure never comes from outside; see
`helba.ring.ckks.template`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import openfhe as fhe

from helba.errors import EngineError
from helba.ring.ckks.context import open_context, reason_of
from helba.ring.ckks.keymap import forget_keys
from helba.ring.ckks.process import require_own_randomness
from helba.ring.ckks.template import COEFFICIENTS, Template
from helba.ring.parameters import PRIMES, RingParameters
from helba.ring.sharing.integer import Residues


@dataclass(frozen=True, kw_only=True)
class Forms:
    """Templates of all objects of one ring; they were made with a key that was then forgotten.

    `ciphertexts` by the number of primes; `share` is one polynomial modulo two primes by its
    coefficients, `single` one by its evaluations.
    """

    ciphertexts: dict[int, Template]
    share: Template
    single: Template
    public: Template
    secret: Template
    switching: Template


@lru_cache(maxsize=16)
def forms_of(parameters: RingParameters) -> Forms:
    """Return the templates of this ring, made once."""
    require_own_randomness()
    context, ring_dim = open_context(parameters), parameters.ring_dim
    pair = context.KeyGen()

    def template(made: Any, rows: int, form: int = 0) -> Template:
        found = Template.of(fhe.Serialize(made, fhe.BINARY), ring_dim=ring_dim, form=form)
        if len(found.moduli) != rows:
            raise EngineError("OpenFHE writes its objects in another way than it did")
        return found

    def encrypt_zero(primes: int) -> Any:
        plaintext = context.MakeCKKSPackedPlaintext([0j], 1, PRIMES - primes, None, ring_dim // 2)
        return context.Encrypt(pair.publicKey, plaintext)

    pairs = {primes: encrypt_zero(primes) for primes in range(1, PRIMES + 1)}
    single = pairs[2].Clone()
    single.SetElements([single.GetElements()[0]])
    return Forms(
        ciphertexts={primes: template(made, 2 * primes) for primes, made in pairs.items()},
        share=template(context.IntBootDecrypt(pair.secretKey, pairs[2]), 2, COEFFICIENTS),
        single=template(single, 2),
        public=template(pair.publicKey, 2 * (PRIMES + 1)),
        secret=template(pair.secretKey, PRIMES),
        switching=template(
            context.KeySwitchGen(pair.secretKey, pair.secretKey), 2 * PRIMES * (PRIMES + 1)
        ),
    )


@lru_cache(maxsize=64)
def automorphism_template(parameters: RingParameters, exponent: int) -> tuple[Template, str]:
    """Return the template of the key of one automorphism, and the tag in it."""
    require_own_randomness()
    context = open_context(parameters)
    pair = context.KeyGen()
    tag = pair.publicKey.GetKeyTag()
    try:
        made = context.EvalAutomorphismKeyGen(pair.secretKey, [exponent])
        data = fhe.Serialize(made, fhe.BINARY)
    finally:
        forget_keys({tag})
    return Template.of(data, ring_dim=parameters.ring_dim), tag


def rows_of_object(made: Any, template: Template) -> Residues:
    """Return the residues of an object with the rows of this template."""
    return template.gather(fhe.Serialize(made, fhe.BINARY))


def read_object(reader: Any, template: Template, residues: Residues) -> Any:
    """Return OpenFHE's object with these residues, which are below their moduli."""
    return parse(reader, template.fill(residues))


def parse(reader: Any, data: bytes) -> Any:
    """Return what one of OpenFHE's readers makes of a filled template."""
    try:
        with _without_tables():
            return reader(data, fhe.BINARY)
    except RuntimeError as error:
        raise EngineError(f"OpenFHE cannot read its own form: {reason_of(error)}") from error


_readers = 0
_readers_lock = threading.Lock()


@contextmanager
def _without_tables() -> Iterator[None]:
    """Let readers, on however many threads, compute no tables of contexts.

    Every object brings its context along. The one that is open already gets used; its tables would
    be computed again for the other, which takes half the time.
    """
    global _readers
    with _readers_lock:
        _readers += 1
        if _readers == 1:
            fhe.DisablePrecomputeCRTTablesAfterDeserializaton()
    try:
        yield
    finally:
        with _readers_lock:
            _readers -= 1
            if not _readers:
                fhe.EnablePrecomputeCRTTablesAfterDeserializaton()
