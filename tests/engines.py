"""Engines for tests: keys are made once for each set of parameters and rotations."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from helba.reference.engine import EncryptedVector, Engine, KeySet, get_scheme
from helba.reference.planning.parameters import Parameters

# use as @pytest.mark.parametrize("scheme", BOTH)
BOTH = ["simulate", pytest.param("ckks", marks=pytest.mark.ckks)]


@dataclass(frozen=True)
class Keyed:
    """An engine with all its keys, in one place as only a test may have them."""

    engine: Engine
    keys: KeySet

    def open(self, vector: EncryptedVector) -> NDArray[np.float64]:
        return self.engine.decrypt(vector, secret_key=self.keys.secret)


def open_keyed(scheme: str, *, parameters: Parameters, rotations: object = ()) -> Keyed:
    return _keyed(scheme, parameters, tuple(sorted(set(rotations))))  # type: ignore[call-overload]


@lru_cache(maxsize=16)
def _keyed(scheme: str, parameters: Parameters, rotations: tuple[int, ...]) -> Keyed:
    return new_keyed(scheme, parameters=parameters, rotations=rotations)


def new_keyed(scheme: str, *, parameters: Parameters, rotations: tuple[int, ...] = ()) -> Keyed:
    chosen = get_scheme(scheme)
    keys = chosen.generate_keys(parameters, rotations=rotations)
    return Keyed(engine=chosen.engine(keys.public, evaluation_key=keys.evaluation), keys=keys)
