"""Sealed seeds and answers: bound to kind, deployment, key, task and circuit."""

from __future__ import annotations

import copy
import pickle

import nacl.public
import numpy as np
import pytest

from helba.errors import DamagedData
from helba.protocol.box import (
    BOX_BYTES,
    KINDS,
    open_answer,
    open_box,
    seal_answer,
    seal_seed,
    sealed_bytes,
)

DEPLOYMENT = bytes(range(16))
KEY = nacl.public.PrivateKey(bytes(range(32)))
PUBLIC = bytes(KEY.public_key)


@pytest.fixture
def sealed():
    return seal_seed(PUBLIC, kind="ask", deployment=DEPLOYMENT)


@pytest.mark.parametrize("kind", KINDS)
def test_box_gives_the_seed_back(kind):
    seed, box = seal_seed(PUBLIC, kind=kind, deployment=DEPLOYMENT)
    assert len(box) == BOX_BYTES
    assert open_box(box, key=KEY, kind=kind, deployment=DEPLOYMENT) == seed


def test_box_is_bound_to_kind_deployment_and_key(sealed):
    _, box = sealed
    wanted = {"key": KEY, "kind": "ask", "deployment": DEPLOYMENT}
    for other in (
        {"kind": "report"},
        {"deployment": bytes(16)},
        {"key": nacl.public.PrivateKey.generate()},
    ):
        with pytest.raises(DamagedData):
            open_box(box, **(wanted | other))


def test_box_that_was_changed_cut_or_extended_is_refused(sealed):
    _, box = sealed
    rng = np.random.default_rng(0)
    damaged = [box[:n] for n in range(0, BOX_BYTES, 7)] + [box + b"\0", b"", bytes(BOX_BYTES)]
    for bit in rng.choice(8 * BOX_BYTES, 200, replace=False):
        changed = bytearray(box)
        changed[bit // 8] ^= 1 << int(bit) % 8
        damaged.append(bytes(changed))
    # the highest bit of a point is no part of it, and still part of the box
    changed = bytearray(box)
    changed[31] ^= 0x80
    damaged.append(bytes(changed))
    for each in damaged:
        with pytest.raises(DamagedData):
            open_box(each, key=KEY, kind="ask", deployment=DEPLOYMENT)


def test_names_seeds_and_boxes_differ():
    made = [seal_seed(PUBLIC, kind="ask", deployment=DEPLOYMENT) for _ in range(50)]
    assert len({seed.name for seed, _ in made}) == 50
    assert len({seed.seed for seed, _ in made}) == 50
    assert len({box for _, box in made}) == 50


def test_pads_and_keys_depend_on_purpose_kind_deployment_and_name(sealed):
    seed, _ = sealed
    others = [
        type(seed)(
            **{"kind": "ask", "deployment": DEPLOYMENT, "name": seed.name, "seed": seed.seed} | o
        )
        for o in ({}, {"kind": "report"}, {"deployment": bytes(16)}, {"name": bytes(16)})
    ]
    pads = {tuple(each.expand(3)) for each in others}
    keys = {each.answer_key for each in others}
    assert len(pads) == len(keys) == 4
    assert others[0].answer_key == seed.answer_key
    contexts = {each.context(purpose) for each in others for purpose in (b"pad", b"answer")}
    assert len(contexts) == 8


def test_answer_is_read_by_its_user_alone(sealed):
    seed, _ = sealed
    bits = np.array([True, False, True, True, False, True, False, False, True])
    half = seal_answer(bits, seed=seed, task=b"t" * 16, circuit=b"c" * 32)
    assert len(half) == sealed_bytes(len(bits))
    told = {"count": 9, "seed": seed, "task": b"t" * 16, "circuit": b"c" * 32}
    assert np.array_equal(open_answer(half, **told), bits)
    stranger, _ = seal_seed(PUBLIC, kind="ask", deployment=DEPLOYMENT)
    for other in (
        {"task": b"u" * 16},
        {"circuit": b"d" * 32},
        {"seed": stranger},
        {"count": 17},
        {"count": 8},
    ):
        with pytest.raises(DamagedData):
            open_answer(half, **(told | other))


def test_answer_that_was_changed_is_refused(sealed):
    seed, _ = sealed
    told = {"count": 2, "seed": seed, "task": b"t" * 16, "circuit": b"c" * 32}
    half = seal_answer(
        np.array([True, False]), seed=seed, task=told["task"], circuit=told["circuit"]
    )
    for bit in range(8 * len(half)):
        changed = bytearray(half)
        changed[bit // 8] ^= 1 << bit % 8
        with pytest.raises(DamagedData):
            open_answer(bytes(changed), **told)
    for size in range(len(half)):
        with pytest.raises(DamagedData):
            open_answer(half[:size], **told)


def test_equal_answers_look_different(sealed):
    seed, _ = sealed
    halves = {
        seal_answer(np.array([True]), seed=seed, task=bytes(16), circuit=bytes(32))
        for _ in range(20)
    }
    assert len(halves) == 20


def test_seed_is_neither_printed_nor_pickled_nor_copied(sealed):
    seed, _ = sealed
    for text in (repr(seed), str(seed)):
        assert seed.seed.hex() not in text
        assert repr(seed.seed) not in text
        assert "seed=" not in text
    for action in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="secret"):
            action(seed)
