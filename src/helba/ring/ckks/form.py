"""Residues in, OpenFHE's objects out: by templates of objects that were made in this process.

OpenFHE's Python module gives no access to polynomials but through serialised objects, and its
reader takes whatever structure it is given. So structure never comes from outside; see
`helba.ring.ckks.template`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import openfhe as fhe

from helba.errors import EngineError
from helba.ring.ckks.context import open_context, reason_of
from helba.ring.ckks.process import forget_keys, require_own_randomness
from helba.ring.ckks.template import COEFFICIENTS, EVALUATIONS, Template
from helba.ring.parameters import PRIMES, RingParameters
from helba.ring.sharing.integer import Residues

Forms = dict[tuple[str, int], Template]


def make_forms(context: Any, pair: Any, encryptions: Mapping[int, Any], *, ring_dim: int) -> Forms:
    """Return templates of all objects of one ring, by kind and number of primes.

    They are made of a key pair that is then forgotten, and its `encryptions` by their primes. Kinds
    are those of the wire, and a "share", one polynomial modulo two primes by its coefficients, and
    a "polynomial", the same by its evaluations.
    """
    secret = pair.secretKey
    polynomial = encryptions[2].Clone()
    polynomial.SetElements([polynomial.GetElements()[0]])
    switching, digits = context.KeySwitchGen(secret, secret), 2 * PRIMES * (PRIMES + 1)
    samples = {
        **{("ciphertext", primes): (made, 2 * primes) for primes, made in encryptions.items()},
        ("share", 2): (context.IntBootDecrypt(secret, encryptions[2]), 2),
        ("polynomial", 2): (polynomial, 2),
        ("public key", PRIMES): (pair.publicKey, 2 * (PRIMES + 1)),
        ("secret key", PRIMES): (secret, PRIMES),
        ("evaluation key", PRIMES): (switching, digits),
        ("re-encryption key", PRIMES): (switching, digits),
    }
    forms = {}
    for (kind, primes), (made, rows) in samples.items():
        form = COEFFICIENTS if kind == "share" else EVALUATIONS
        found = Template.of(fhe.Serialize(made, fhe.BINARY), ring_dim=ring_dim, form=form)
        if len(found.moduli) != rows:
            raise EngineError("OpenFHE writes its objects in another way than it did")
        forms[kind, primes] = found
    return forms


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
