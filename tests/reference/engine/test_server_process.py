"""A process that has all but the secret keys computes and sends on, and cannot read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helba.reference.engine import get_scheme
from helba.reference.planning.parameters import insecure_parameters
from tests.reference.engine.processes import run_module

pytestmark = pytest.mark.ckks

insecure_small = insecure_parameters(ring_dim=1 << 11, depth=3, scale_bits=45)
SLOTS = 4


def test_server_computes_from_bytes_alone_and_cannot_decrypt(tmp_path: Path) -> None:
    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(insecure_small, rotations=(1,))
    owner = scheme.engine(keys.public)
    x, y = np.random.default_rng(0).uniform(-2, 2, (2, SLOTS))
    (tmp_path / "public").write_bytes(scheme.public_key_to_bytes(keys.public))
    (tmp_path / "evaluation").write_bytes(scheme.evaluation_key_to_bytes(keys.evaluation))
    pair = scheme.generate_pair(insecure_small)
    way = scheme.make_reencryption_key(keys.secret, recipient=pair.public, level=1)
    (tmp_path / "reencryption").write_bytes(scheme.reencryption_key_to_bytes(way))
    (tmp_path / "reader").write_bytes(scheme.public_key_to_bytes(pair.public))
    for name, values in (("left", x), ("right", y)):
        (tmp_path / name).write_bytes(owner.vector_to_bytes(owner.encrypt(values)))

    found = run_module("tests.reference.engine.serving", str(tmp_path))

    result = owner.vector_from_bytes((tmp_path / "result").read_bytes(), slots=SLOTS, level=1)
    made = owner.decrypt(result, secret_key=keys.secret)
    np.testing.assert_allclose(made, np.roll(x * y, -1), rtol=0, atol=1e-8)
    reader = scheme.engine(pair.public)
    answer = reader.vector_from_bytes((tmp_path / "answer").read_bytes(), slots=SLOTS, level=1)
    read = reader.decrypt(answer, secret_key=pair.secret)
    assert np.abs(read - np.roll(x * y, -1)).max() <= 1.001 * 2.0**-10
    assert found["secret_keys"] == 0
    attempts = found["attempts"]
    assert attempts["public key as secret key"] == "DamagedData"
    assert attempts["evaluation key as secret key"] == "DamagedData"
    assert attempts["re-encryption key as secret key"] == "DamagedData"
    assert attempts["own key"] == "WrongVector"
    # OpenFHE sees that the noise is too large; if it did not, the numbers would be noise.
    for name in ("", ", result", ", answer"):
        name = "own key, forged tag" + name
        assert attempts[name] == "EngineError" or is_far(attempts[name], from_=(x, x * y))


def is_far(text: str, *, from_: tuple[np.ndarray, ...]) -> bool:
    values = np.array([float(part) for part in text.removeprefix("read [").rstrip("]").split(",")])
    return all(np.abs(values - clear).max() > 100 for clear in from_)
