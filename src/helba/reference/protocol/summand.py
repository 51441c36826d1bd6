"""Contexts that arrive together and are needed as their sum only.

Under the collective key they are added as they travel (`engine.collecting`), which is quicker than
one ciphertext object each; what is switched on arrival is an encrypted vector already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from helba.errors import WrongVector
from helba.reference.engine import EncryptedVector, Engine
from helba.reference.engine.collecting import ReadVector
from helba.reference.protocol.directory import Line

__all__ = ["Summand", "add_summands", "read_summand"]

Summand: TypeAlias = ReadVector | EncryptedVector


def read_summand(data: bytes, *, line: Line, collective: Engine, slots: int, level: int) -> Summand:
    """Return what a user sent, checked, under the collective key."""
    if line.inward is None:
        return collective.collect(slots=slots, level=level).read(data)
    return line.read(data, collective=collective, slots=slots, level=level)


def add_summands(engine: Engine, summands: Sequence[Summand]) -> EncryptedVector:
    """Return the sum of at least one of them, all of one shape."""
    switched = [each for each in summands if isinstance(each, EncryptedVector)]
    arrived = [each for each in summands if isinstance(each, ReadVector)]
    if switched and arrived:
        raise WrongVector("vectors under different keys meet")
    if switched:
        return engine.combine([(vector, 1.0) for vector in switched])
    _, slots, level = arrived[0].shape
    total = engine.collect(slots=slots, level=level)
    total.add(arrived)
    return total.total()
