"""Evaluation keys stay in OpenFHE's maps as long as somebody uses them, and no longer."""

from __future__ import annotations

import gc
import struct
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from helba.errors import DamagedData, MissingKey
from helba.reference.engine import get_scheme
from helba.reference.planning.parameters import insecure_parameters
from tests.reference.engine.keeping import (
    CLOSE,
    SLOTS,
    frames,
    held,
    insecure_small,
    load_key,
    make_key,
    old_heap_apart,
    remove_unused,
    require_right,
)
from tests.reference.engine.tampering import open_sealed

pytestmark = [pytest.mark.ckks, pytest.mark.usefixtures("heap")]


@pytest.fixture(scope="module")
def heap() -> Iterator[None]:
    with old_heap_apart():
        yield


def test_evaluation_key_loaded_twice_stays_until_both_are_gone() -> None:
    keyed, data = make_key()
    tag = keyed.keys.public.tag
    copies = [load_key(data), load_key(data)]
    copies.pop()
    remove_unused()
    assert held(tag) == (1, 2)
    require_right(keyed)
    del keyed
    remove_unused()
    assert held(tag) == (1, 2)
    copies.clear()
    remove_unused()
    assert held(tag) == (0, 0)


def test_evaluation_key_of_one_owner_leaves_the_others_alone() -> None:
    first, _ = make_key((1, 2, 3))
    other, data = make_key()
    tag = other.keys.public.tag
    del other
    remove_unused()
    assert held(tag) == (0, 0)
    key = load_key(data)
    assert held(tag) == (1, 2)
    assert held(first.keys.public.tag) == (1, 3)
    del key
    remove_unused()
    assert held(tag) == (0, 0)
    assert held(first.keys.public.tag) == (1, 3)
    require_right(first)


def test_collecting_a_key_leaves_the_maps_alone_until_keys_are_made_or_loaded() -> None:
    keyed, data = make_key()
    tag = keyed.keys.public.tag
    del keyed
    gc.collect()  # at any time, while any thread computes
    assert held(tag) == (1, 2)
    other, _ = make_key()
    assert held(tag) == (0, 0)
    key = load_key(data)
    del key
    gc.collect()
    assert held(tag) == (1, 2)
    with pytest.raises(DamagedData):
        load_key(open_sealed(data, tag=b"0" * 31).seal())
    assert held(tag) == (0, 0)
    require_right(other)


def test_key_whose_last_other_owner_goes_while_it_is_loaded_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from helba.reference.engine.ckks import scheme

    keyed, data = make_key()
    public, secret = keyed.keys.public, keyed.keys.secret
    others = [keyed]
    del keyed
    load = scheme.load_evaluation_keys

    def load_and_lose(*arguments: Any, **named: Any) -> None:
        load(*arguments, **named)
        others.clear()
        gc.collect()

    monkeypatch.setattr(scheme, "load_evaluation_keys", load_and_lose)
    key = load_key(data)
    remove_unused()
    assert held(public.tag) == (1, 2)
    engine = get_scheme("ckks").engine(public, evaluation_key=key)
    x = engine.encrypt(np.arange(SLOTS))
    made = engine.decrypt(engine.multiply(x, x), secret_key=secret)
    np.testing.assert_allclose(made, np.arange(SLOTS) ** 2, **CLOSE)


def test_generation_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    import openfhe as fhe

    from helba.reference.engine.ckks import scheme

    class Failing:
        def __init__(self, context: Any) -> None:
            self.context = context

        def __getattr__(self, name: str) -> Any:
            return getattr(self.context, name)

        def EvalRotateKeyGen(self, *arguments: Any) -> None:
            self.context.EvalRotateKeyGen(*arguments)
            raise RuntimeError("no more memory")

    open_context = scheme.open_context
    keyed, _ = make_key()
    before = set(fhe.CryptoContext.GetAllEvalMultKeys())
    monkeypatch.setattr(
        scheme, "open_context", lambda parameters: Failing(open_context(parameters))
    )
    with pytest.raises(RuntimeError, match="no more memory"):
        get_scheme("ckks").generate_keys(insecure_small, rotations=(1,))
    assert set(fhe.CryptoContext.GetAllEvalMultKeys()) == before
    assert set(fhe.CryptoContext.GetAllEvalAutomorphismKeys()) <= before
    require_right(keyed)


def test_damaged_evaluation_key_leaves_nothing_behind() -> None:
    keyed, data = make_key()
    tag = keyed.keys.public.tag
    del keyed
    remove_unused()
    opened = open_sealed(data)
    parts = frames(opened.payload)
    assert len(parts) == 3
    two = b"".join(parts[:2])
    for payload in (
        two,
        opened.payload + parts[0],
        opened.payload[:-1],
        opened.payload + b"x",
        two + struct.pack("<Q", 1 << 60),
        two + struct.pack("<Q", 20) + bytes(20),
        two + struct.pack("<Q", len(parts[2]) - 8) + bytes(len(parts[2]) - 8),
        b"",
    ):
        opened.payload = payload
        with pytest.raises(DamagedData):
            load_key(opened.seal())
        assert held(tag) == (0, 0)


def test_evaluation_key_that_openfhe_lost_is_not_written() -> None:
    from helba.ring.ckks.process import forget_keys

    keyed, _ = make_key()
    forget_keys({keyed.keys.public.tag})
    with pytest.raises(MissingKey):
        get_scheme("ckks").evaluation_key_to_bytes(keyed.keys.evaluation)


def test_keys_are_not_removed_while_others_are_put_in() -> None:
    """The maps are emptied and filled again: what is put in meanwhile would be lost."""
    from helba.reference.engine.ckks.ownership import changing_maps
    from helba.ring.ckks.process import forget_keys

    removed = threading.Event()

    def remove() -> None:
        forget_keys({"nobody's"})
        removed.set()

    thread = threading.Thread(target=remove)
    with changing_maps():
        thread.start()
        assert not removed.wait(0.3)
    thread.join(timeout=10)
    assert removed.is_set()


def test_keys_made_as_samples_leave_nothing_in_the_maps() -> None:
    import openfhe as fhe

    scheme = get_scheme("ckks")
    keys = scheme.generate_keys(insecure_parameters(ring_dim=1 << 10, depth=3), rotations=(1,))
    owners = set(fhe.CryptoContext.GetAllEvalAutomorphismKeys())
    assert keys.public.tag in owners
    scheme.evaluation_key_to_bytes(keys.evaluation)
    assert set(fhe.CryptoContext.GetAllEvalAutomorphismKeys()) == owners


# -- bootstrapping


@pytest.mark.slow
def test_bootstrapping_keys_survive() -> None:
    scheme = get_scheme("ckks")
    parameters = insecure_parameters(
        ring_dim=1 << 10, depth=18, scale_bits=50, digits=4, secret="sparse"
    )
    keys = scheme.generate_keys(parameters, rotations=(1,), bootstrap_slots=SLOTS)
    data = scheme.evaluation_key_to_bytes(keys.evaluation)
    public, secret = keys.public, keys.secret
    same = scheme.evaluation_key_from_bytes(data, parameters=parameters, bootstrap_slots=SLOTS)
    assert same.rotations == {1}
    del keys, same
    remove_unused()
    assert held(public.tag) == (0, 0)
    key = scheme.evaluation_key_from_bytes(data, parameters=parameters)
    assert key.bootstrap_slots == SLOTS
    engine = scheme.engine(public, evaluation_key=key)
    x = np.linspace(-1, 1, SLOTS)
    fresh = engine.rotate(engine.bootstrap(engine.encrypt(x, level=parameters.depth - 1)), 1)
    assert fresh.levels_left > 1
    np.testing.assert_allclose(
        engine.decrypt(fresh, secret_key=secret), np.roll(x, -1), rtol=0, atol=1e-3
    )
    assert scheme.evaluation_key_to_bytes(key) == data
