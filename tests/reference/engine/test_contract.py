"""What every engine promises: one suite, both schemes."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helba.errors import (
    EngineError,
    InvalidInput,
    LevelsExhausted,
    MissingKey,
    OutOfRange,
    WrongVector,
)
from helba.reference.engine import get_scheme
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import BOTH, Keyed, open_keyed

insecure_small = insecure_parameters(ring_dim=1 << 11, depth=6, scale_bits=45)
SLOTS = 8
ROTATIONS = (1, 2, 3, 4)
CLOSE = {"rtol": 0.0, "atol": 1e-8}

pytestmark = pytest.mark.parametrize("scheme", BOTH)


@pytest.fixture
def keyed(scheme: str) -> Keyed:
    return open_keyed(scheme, parameters=insecure_small, rotations=ROTATIONS)


def numbers(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, SLOTS)


def test_encryption_is_undone_by_decryption_at_every_level(keyed: Keyed) -> None:
    x = numbers()
    for level in range(insecure_small.depth + 1):
        vector = keyed.engine.encrypt(x, level=level)
        assert (vector.level, vector.slots) == (level, SLOTS)
        np.testing.assert_allclose(keyed.open(vector), x, **CLOSE)


def test_arrays_may_be_changed_once_they_were_given(keyed: Keyed) -> None:
    x, y = numbers(1), numbers(2)
    given, factor, offset = x.copy(), y.copy(), y.copy()
    vector = keyed.engine.encrypt(given)
    given[:] = 7.0
    product = keyed.engine.multiply_plain(vector, factor)
    total = keyed.engine.add_plain(vector, offset)
    factor[:], offset[:] = 7.0, 7.0
    np.testing.assert_allclose(keyed.open(vector), x, **CLOSE)
    np.testing.assert_allclose(keyed.open(product), x * y, **CLOSE)
    np.testing.assert_allclose(keyed.open(total), x + y, **CLOSE)
    opened = keyed.open(vector)
    opened[:] = 7.0
    np.testing.assert_allclose(keyed.open(vector), x, **CLOSE)


def test_sums_and_integer_multiples_cost_no_level(keyed: Keyed) -> None:
    x, y = numbers(1), numbers(2)
    a, b = keyed.engine.encrypt(x), keyed.engine.encrypt(y)
    made = keyed.engine.combine([(a, 3.0), (b, -2.0), (a, 0.0)], constant=0.5)
    assert made.level == 0
    np.testing.assert_allclose(keyed.open(made), 3 * x - 2 * y + 0.5, **CLOSE)
    np.testing.assert_allclose(keyed.open(keyed.engine.subtract(a, b)), x - y, **CLOSE)
    plain = keyed.engine.add_plain(keyed.engine.add(a, b), y)
    assert plain.level == 0
    np.testing.assert_allclose(keyed.open(plain), x + 2 * y, **CLOSE)


def test_negative_multiples_of_one_vector_are_right(keyed: Keyed) -> None:
    x = numbers(3)
    a = keyed.engine.encrypt(x)
    for factor in (-4, -3, -1, 0, 2, 4):
        made = keyed.engine.multiply_scalar(a, factor)
        assert made.level == 0
        np.testing.assert_allclose(keyed.open(made), factor * x, **CLOSE)


def test_every_kind_of_product_costs_one_level(keyed: Keyed) -> None:
    x, y = numbers(1), numbers(2)
    a, b = keyed.engine.encrypt(x), keyed.engine.encrypt(y, level=2)
    cases = {
        "vectors": (keyed.engine.multiply(a, b), x * y, 3),
        "square": (keyed.engine.multiply(a, a), x * x, 1),
        "plain": (keyed.engine.multiply_plain(a, y), x * y, 1),
        "scalar": (keyed.engine.multiply_scalar(b, -0.3), -0.3 * y, 3),
        "one number": (keyed.engine.multiply_plain(a, 0.7), 0.7 * x, 1),
    }
    for name, (vector, expected, level) in cases.items():
        assert vector.level == level, name
        np.testing.assert_allclose(keyed.open(vector), expected, **CLOSE, err_msg=name)


def test_sums_of_products_relinearise_and_rescale_once(keyed: Keyed) -> None:
    x = [numbers(i) for i in range(4)]
    v = [keyed.engine.encrypt(values) for values in x]
    with keyed.engine.count() as tally:
        total = keyed.engine.add(
            keyed.engine.multiply(v[0], v[1]), keyed.engine.multiply(v[2], v[3])
        )
        again = keyed.engine.multiply(total, total)
        keyed.engine.multiply(total, v[0])
    assert tally.products == 4
    assert (tally.of("relinearise"), tally.of("rescale")) == (1, 2)  # total; v[0] one level down
    np.testing.assert_allclose(keyed.open(again), (x[0] * x[1] + x[2] * x[3]) ** 2, **CLOSE)


def test_values_of_different_levels_combine_at_the_deeper_one(keyed: Keyed) -> None:
    x, y = numbers(1), numbers(2)
    deep = keyed.engine.multiply_scalar(
        keyed.engine.multiply_scalar(keyed.engine.encrypt(x), 0.5), 0.5
    )
    made = keyed.engine.combine([(deep, 1.0), (keyed.engine.encrypt(y), 0.3)])
    assert (deep.level, made.level) == (2, 2)
    np.testing.assert_allclose(keyed.open(made), 0.25 * x + 0.3 * y, **CLOSE)
    lower = keyed.engine.combine([(keyed.engine.encrypt(x), 0.5)], level=4)
    assert lower.level == 4
    np.testing.assert_allclose(keyed.open(lower), 0.5 * x, **CLOSE)
    np.testing.assert_allclose(keyed.open(keyed.engine.lower(deep, 6)), 0.25 * x, **CLOSE)


def test_all_levels_can_be_used_and_no_more(keyed: Keyed) -> None:
    x = numbers(4)
    vector = keyed.engine.encrypt(x)
    for _ in range(insecure_small.depth):
        vector = keyed.engine.multiply_scalar(vector, 0.5)
    assert vector.levels_left == 0
    np.testing.assert_allclose(keyed.open(vector), x * 0.5**6, **CLOSE)
    for attempt in (
        lambda: keyed.engine.multiply(vector, vector),
        lambda: keyed.engine.multiply_plain(vector, x),
        lambda: keyed.engine.multiply_scalar(vector, 0.5),
        lambda: keyed.engine.combine([(vector, 1.0)], level=7),
        lambda: keyed.engine.begin_refresh(vector),
    ):
        with pytest.raises(LevelsExhausted):
            attempt()


def test_rotation_is_cyclic_and_to_the_left(keyed: Keyed) -> None:
    x = numbers(5)
    vector = keyed.engine.encrypt(x)
    np.testing.assert_allclose(keyed.open(keyed.engine.rotate(vector, 3)), np.roll(x, -3), **CLOSE)
    many = keyed.engine.rotate_many(vector, [0, 1, 2, 1])
    for steps, rotated in zip([0, 1, 2, 1], many, strict=True):
        np.testing.assert_allclose(keyed.open(rotated), np.roll(x, -steps), **CLOSE)
    total = keyed.engine.sum_rotations(vector, [0, 1, 2, 3])
    assert total.level == 0
    expected = sum(np.roll(x, -steps) for steps in range(4))
    np.testing.assert_allclose(keyed.open(total), expected, **CLOSE)


def test_a_pending_product_is_rotated_before_it_is_rescaled(keyed: Keyed) -> None:
    x = numbers(5)
    vector = keyed.engine.encrypt(x)
    with keyed.engine.count() as tally:
        product = keyed.engine.multiply(vector, vector)
        moved = keyed.engine.rotate(product, 1)
        total = keyed.engine.sum_rotations(product, [0, 1, 2])
        both = keyed.engine.add(moved, total)
    assert (tally.of("relinearise"), tally.of("rescale")) == (1, 0)
    assert moved.level == total.level == both.level == 1
    expected = sum(np.roll(x * x, -s) for s in (0, 1, 1, 2))
    np.testing.assert_allclose(keyed.open(both), expected, **CLOSE)


def test_a_rotation_uses_any_key_that_moves_the_slots_alike(keyed: Keyed) -> None:
    # 4 slots: one to the right is three to the left, and three is a key
    x = numbers(5)[:4]
    back = keyed.engine.rotate(keyed.engine.encrypt(x), -1)
    np.testing.assert_allclose(keyed.open(back), np.roll(x, 1), **CLOSE)


def test_a_rotation_without_its_key_is_refused(keyed: Keyed) -> None:
    vector = keyed.engine.encrypt(numbers())
    with pytest.raises(MissingKey, match="8 slots by 5"):
        keyed.engine.rotate(vector, 5)


def test_repeating_fills_more_slots_for_free(keyed: Keyed) -> None:
    x = numbers(6)
    with keyed.engine.count() as tally:
        wide = keyed.engine.repeat(keyed.engine.encrypt(x), 32)
    assert (wide.slots, wide.level, tally.products + tally.rotations) == (32, 0, 0)
    np.testing.assert_allclose(keyed.open(wide), np.tile(x, 4), **CLOSE)
    np.testing.assert_allclose(
        keyed.open(keyed.engine.rotate(wide, 4)), np.roll(np.tile(x, 4), -4), **CLOSE
    )
    with pytest.raises(WrongVector):
        keyed.engine.repeat(wide, 8)


def test_folding_undoes_repeating(keyed: Keyed) -> None:
    x = numbers(6)
    wide = keyed.engine.repeat(keyed.engine.encrypt(x), 32)
    folded = keyed.engine.fold(keyed.engine.multiply(wide, wide), 8)
    assert (folded.slots, folded.level) == (8, 1)
    np.testing.assert_allclose(keyed.open(folded), x * x, **CLOSE)
    # and it goes on computing: products and rotations of the narrow vector
    onward = keyed.engine.rotate(keyed.engine.multiply(folded, keyed.engine.encrypt(x)), 1)
    np.testing.assert_allclose(keyed.open(onward), np.roll(x**3, -1), **CLOSE)
    with pytest.raises(WrongVector):
        keyed.engine.fold(folded, 16)


def test_the_simulator_refuses_to_fold_what_does_not_repeat(keyed: Keyed, scheme: str) -> None:
    vector = keyed.engine.encrypt(numbers(6))
    if scheme == "simulate":
        with pytest.raises(WrongVector, match="does not repeat"):
            keyed.engine.fold(vector, 4)
    else:  # CKKS cannot tell: what comes out is the mean of the copies
        folded = keyed.open(keyed.engine.fold(vector, 4))
        np.testing.assert_allclose(folded, numbers(6).reshape(2, 4).mean(axis=0), **CLOSE)


def test_refresh_gives_all_levels_back(keyed: Keyed) -> None:
    x = 4 * numbers(7)
    deep = keyed.engine.multiply_scalar(keyed.engine.encrypt(x, level=3), 0.25)
    assert deep.level == 4
    fresh = keyed.engine.refresh(deep, secret_key=keyed.keys.secret)
    assert fresh.level == 0
    np.testing.assert_allclose(keyed.open(fresh), x / 4, rtol=0, atol=1e-7)
    # and the fresh value computes: its scale is the one its level promises
    product = keyed.engine.multiply(fresh, keyed.engine.encrypt(x))
    np.testing.assert_allclose(keyed.open(product), x * x / 4, rtol=0, atol=1e-6)


def test_a_mask_serves_once(keyed: Keyed) -> None:
    request, pending = keyed.engine.begin_refresh(keyed.engine.encrypt(numbers()))
    reply = keyed.engine.answer_refresh(request, secret_key=keyed.keys.secret)
    keyed.engine.finish_refresh(reply, pending)
    with pytest.raises(EngineError, match="twice"):
        keyed.engine.finish_refresh(reply, pending)


def test_a_reply_to_another_refresh_is_refused(keyed: Keyed) -> None:
    request, _ = keyed.engine.begin_refresh(keyed.engine.encrypt(numbers(8)))
    _, other = keyed.engine.begin_refresh(keyed.engine.encrypt(numbers(8)))
    reply = keyed.engine.answer_refresh(request, secret_key=keyed.keys.secret)
    with pytest.raises(WrongVector, match="another refresh"):
        keyed.engine.finish_refresh(reply, other)


@pytest.mark.parametrize("slots", [1, 8])
def test_a_reply_under_a_false_name_gives_garbage_not_the_message(keyed: Keyed, slots: int) -> None:
    x = numbers(8)[:slots]
    for _ in range(4):
        request, _ = keyed.engine.begin_refresh(keyed.engine.encrypt(x))
        _, other = keyed.engine.begin_refresh(keyed.engine.encrypt(x))
        reply = keyed.engine.answer_refresh(request, secret_key=keyed.keys.secret)
        wrong = keyed.engine.finish_refresh(replace(reply, id=other.id), other)
        try:
            seen = keyed.open(wrong)
        except EngineError:
            continue  # CKKS finds it unreadable
        assert np.abs(seen - x).max() > 1.0


def test_a_refresh_needs_two_primes_with_room(scheme: str) -> None:
    narrow = insecure_parameters(ring_dim=1 << 10, depth=4, scale_bits=30, first_bits=50)
    keyed = open_keyed(scheme, parameters=narrow)
    with pytest.raises(EngineError, match="95 bits"):
        keyed.engine.begin_refresh(keyed.engine.encrypt([1.0, 2.0]))


def test_operands_must_match(keyed: Keyed, scheme: str) -> None:
    vector = keyed.engine.encrypt(numbers())
    short = keyed.engine.encrypt([1.0, 2.0])
    other = open_keyed(scheme, parameters=insecure_small, rotations=(1,))
    foreign = other.engine.encrypt(numbers())
    for attempt in (
        lambda: keyed.engine.add(vector, short),
        lambda: keyed.engine.multiply(vector, short),
        lambda: keyed.engine.multiply_plain(vector, [1.0, 2.0]),
        lambda: keyed.engine.add(vector, foreign),
        lambda: keyed.engine.multiply(vector, foreign),
        lambda: keyed.engine.rotate(foreign, 1),
        lambda: keyed.engine.decrypt(foreign, secret_key=keyed.keys.secret),
        lambda: keyed.engine.decrypt(vector, secret_key=other.keys.secret),
        lambda: get_scheme(scheme).engine(keyed.keys.public, evaluation_key=other.keys.evaluation),
    ):
        with pytest.raises(WrongVector):
            attempt()


def test_input_that_is_no_vector_is_refused(keyed: Keyed) -> None:
    for values in ([1.0, np.nan], [[1.0, 2.0]], [], 3.0, [1.0, np.inf]):
        with pytest.raises(InvalidInput):
            keyed.engine.encrypt(values)
    with pytest.raises(WrongVector):
        keyed.engine.encrypt([1.0, 2.0, 3.0])
    with pytest.raises(WrongVector):
        keyed.engine.encrypt(np.zeros(2 * insecure_small.max_slots))
    with pytest.raises(InvalidInput):
        keyed.engine.encrypt([1.0, 2.0], level=7)
    vector = keyed.engine.encrypt([1.0, 2.0])
    with pytest.raises(InvalidInput):
        keyed.engine.multiply_scalar(vector, float("nan"))
    for constant in (float("nan"), float("inf")):
        with pytest.raises(InvalidInput):
            keyed.engine.combine([(vector, 1.0)], constant=constant)
        with pytest.raises(InvalidInput):
            keyed.engine.add_plain(vector, constant)
    with pytest.raises(InvalidInput):
        keyed.engine.combine([])
    with pytest.raises(InvalidInput):
        keyed.engine.lower(keyed.engine.encrypt([1.0], level=2), 1)


def test_a_value_past_the_modulus_is_refused_at_encryption(keyed: Keyed) -> None:
    with pytest.raises(OutOfRange):
        keyed.engine.encrypt([2.0**14], level=6)
    assert keyed.open(keyed.engine.encrypt([2.0**12], level=6))[0] == pytest.approx(2.0**12)


def test_an_engine_without_evaluation_keys_only_encrypts(keyed: Keyed, scheme: str) -> None:
    user = get_scheme(scheme).engine(keyed.keys.public)
    vector = user.encrypt(numbers())
    with pytest.raises(MissingKey):
        user.multiply(vector, vector)
    with pytest.raises(MissingKey):
        user.rotate(vector, 1)
    assert keyed.engine.multiply(vector, vector).level == 1


def test_bootstrapping_without_its_keys_is_refused(keyed: Keyed) -> None:
    with pytest.raises(MissingKey):
        keyed.engine.bootstrap(keyed.engine.encrypt(numbers()))
    with pytest.raises(InvalidInput, match="sparse"):
        get_scheme(keyed.engine.name).generate_keys(insecure_small, bootstrap_slots=8)


def test_nothing_prints_or_pickles_a_secret(keyed: Keyed) -> None:
    vector = keyed.engine.encrypt([123.456, 0.0])
    _, pending = keyed.engine.begin_refresh(vector)
    for thing in (vector, pending, keyed.keys.secret, keyed.keys.evaluation, keyed.keys.public):
        assert "123" not in repr(thing)
        for duplicate in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError):
                duplicate(thing)
    assert repr(vector) == "<EncryptedVector slots=2 level=0/6 log2_scale=45>"


def test_operations_leave_their_operands_alone(keyed: Keyed) -> None:
    x = numbers(9)
    vector = keyed.engine.encrypt(x)
    product = keyed.engine.multiply(vector, vector)
    keyed.engine.add(product, vector)
    keyed.engine.add_plain(product, 1.0)
    keyed.engine.rotate(product, 1)
    keyed.engine.lower(vector, 3)
    np.testing.assert_allclose(keyed.open(vector), x, **CLOSE)
    np.testing.assert_allclose(keyed.open(product), x * x, **CLOSE)
    assert (vector.level, product.level) == (0, 1)


PROGRAM = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 3)), max_size=8)


@settings(max_examples=25)
@given(program=PROGRAM, seed=st.integers(0, 1000))
def test_random_programs_compute_what_numpy_computes(
    scheme: str, program: list[tuple[int, int, int]], seed: int
) -> None:
    keyed = open_keyed(scheme, parameters=insecure_small, rotations=ROTATIONS)
    engine, rng = keyed.engine, np.random.default_rng(seed)
    clear = [rng.uniform(-1, 1, SLOTS) for _ in range(4)]
    held = [engine.encrypt(x, level=i % 2) for i, x in enumerate(clear)]
    for kind, i, j in program:
        if max(held[i].level, held[j].level) == insecure_small.depth:
            continue
        if kind == 0:
            made, value = engine.add(held[i], held[j]), clear[i] + clear[j]
        elif kind == 1:
            made, value = engine.subtract(held[i], held[j]), clear[i] - clear[j]
        elif kind == 2:
            made, value = engine.multiply(held[i], held[j]), clear[i] * clear[j]
        elif kind == 3:
            made, value = engine.rotate(held[i], j), np.roll(clear[i], -j)
        elif kind == 4:
            made, value = engine.multiply_scalar(held[i], 0.5 * j), 0.5 * j * clear[i]
        elif kind == 5:
            made, value = engine.multiply_plain(held[i], clear[j]), clear[i] * clear[j]
        else:
            made, value = (
                engine.sum_rotations(held[i], [0, 1, 3]),
                sum(np.roll(clear[i], -s) for s in (0, 1, 3)),
            )
        held[i], clear[i] = made, value
    for vector, x in zip(held, clear, strict=True):
        np.testing.assert_allclose(keyed.open(vector), x, rtol=1e-7, atol=1e-7)
