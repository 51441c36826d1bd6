"""A checkpoint holds the whole state and only what is new of it."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from helba.service.checkpoint import CheckpointWriter
from helba.service.protocol.snapshot import join_state, restore_server
from tests.reference.protocol.parties import MILD, Table, authority_of

ENGINES = ["simulate", pytest.param("ckks", marks=pytest.mark.ckks)]
ARMS = [[0.6, 0.1], [-0.3, 0.6], [0.1, 0.1]]


def _models_of(head: bytes) -> list[int]:
    """The parts of the first model."""
    model = json.loads(head)["models"][0]
    return [model["inverse"], model["scoring"]]


def play(table: Table, rounds: int) -> None:
    for number in range(rounds):
        table.learn(ARMS[number % 3], 0.1 * number)


@pytest.mark.parametrize("scheme", ENGINES)
def test_checkpoints_add_up_to_a_state_that_opens(scheme: str) -> None:
    table = Table(authority_of(MILD, scheme=scheme))
    writer, parts = CheckpointWriter(table.server, number=0), {}
    for _ in range(4):
        play(table, 2)
        checkpoint = writer.write()
        assert checkpoint is not None
        parts |= checkpoint.parts
    assert all(hashlib.sha256(data).digest() == digest for digest, data in parts.items())
    state = join_state(checkpoint.head, [parts[digest] for digest in checkpoint.digests])
    server = table.server
    copy = restore_server(
        state, deployment=table.deployment, engine=server._engine, directory=server.directory
    )
    assert (copy.samples, copy.updates) == (server.samples, server.updates)
    np.testing.assert_allclose(table.open(copy.design), table.open(server.design), atol=1e-9)
    np.testing.assert_allclose(
        table.open(copy.model.scoring), table.open(server.model.scoring), atol=1e-9
    )


def test_state_that_has_not_changed_is_not_written_again() -> None:
    table = Table(authority_of(MILD, scheme="simulate"))
    writer = CheckpointWriter(table.server, number=7)
    first = writer.write()
    assert first is not None
    assert first.number == 8
    assert writer.write() is None


def test_models_are_written_once() -> None:
    table = Table(authority_of(MILD, scheme="simulate"))
    writer = CheckpointWriter(table.server, number=0)
    first = writer.write()
    play(table, 1)
    second = writer.write()
    assert first is not None
    assert second is not None
    models = {first.digests[number] for number in _models_of(first.head)}
    assert models <= set(second.digests)
    assert not set(first.parts) & set(second.parts)


def test_rounds_under_way_are_left_out() -> None:
    table = Table(authority_of(MILD, scheme="simulate"))
    table.play(ARMS)
    head = CheckpointWriter(table.server, number=0).write().head
    assert b'"rounds":{}' in head
    assert b'"answers":[]' in head
    assert b'"work":[]' in head
