"""A new collective key changes nothing that users are told, and the old one opens nothing new."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from helba.errors import WrongVector
from tests.engines import BOTH
from tests.reference.privacy.views import record
from tests.reference.protocol.parties import TOY, authority_of, play_toy

both = pytest.mark.parametrize("scheme", BOTH)
ROUNDS = {"simulate": 14, "ckks": 4}
MODES = {
    "own": TOY,
    "switched": replace(TOY, keys="switched"),
    "shared": replace(TOY, keys="shared"),
}


@both
@pytest.mark.parametrize("mode", MODES)
def test_decisions_are_the_same_before_and_after(scheme: str, mode: str) -> None:
    rounds = ROUNDS[scheme]
    told = [
        play_toy(
            record(authority_of(MODES[mode], scheme=scheme)).bandit,
            rounds=rounds,
            rotate_after=after,
        )
        for after in (None, rounds // 2)
    ]
    assert told[0] == told[1]
    assert told[0][1]
    assert len(set(told[0][0])) == 2


@both
def test_old_key_opens_nothing_that_the_server_has_now(scheme: str) -> None:
    run = record(authority_of(TOY, scheme=scheme)).play(rounds=3, seed=1)
    old, server = run.authority._keys.secret, run.server
    before = server._engine.decrypt(server.design, secret_key=old)
    old_way = server.directory.line(run.bandit.user.id).recipient
    run.bandit.rotate_keys()
    with pytest.raises(WrongVector):
        server._engine.decrypt(server.design, secret_key=old)
    assert old_way is not None
    with pytest.raises(WrongVector):  # a copy of the re-encryption key leads from nowhere
        server._engine.reencrypt(server.design, key=old_way.key)
    after = server._engine.decrypt(server.design, secret_key=run.authority._keys.secret)
    assert np.abs(after - before).max() < 1e-5
