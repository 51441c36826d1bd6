"""What a user finds in an answer to somebody else: noise, unless all share one key."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from helba.errors import EngineError
from helba.reference.engine import EncryptedVector
from helba.reference.planning.request import PlanRequest
from helba.reference.protocol.user import User
from tests.engines import BOTH
from tests.reference.engine.reading import read_polynomial
from tests.reference.engine.tampering import open_sealed
from tests.reference.privacy.views import decrypted
from tests.reference.protocol.parties import TOY, Table, authority_of
from tests.significance import PLAUSIBLE_ANEW

ARMS = [[1.0, 0.2], [-0.5, 0.6]]


def table_of(scheme: str, *, request: PlanRequest = TOY) -> Table:
    return Table(authority_of(request, scheme=scheme, ring_dim=1 << 11))


def answer_to(table: Table, user: User) -> bytes:
    (answer,) = table.server.receive(table.ask(ARMS, user=user))
    return answer


def renamed(table: Table, answer: bytes, *, to: User) -> EncryptedVector:
    """The ciphertext of an answer in bytes that call it this user's own."""
    tag = open_sealed(to._own.vector_to_bytes(to._own.encrypt([0.0]))).header["tag"]
    forged = open_sealed(table.decode(answer).parts[0], tag=tag).seal()
    return to._own.vector_from_bytes(forged, slots=to.profile.answer_slots)


@pytest.mark.ckks
def test_answer_of_another_user_is_noise_under_a_forged_name() -> None:
    table = table_of("ckks")
    me, half = table.user, 2.0 ** (table.deployment.parameters.first_bits - 1)
    own = answer_to(table, me)
    vector, true = renamed(table, own, to=me), decrypted(table, own, user=me)
    mine = me._own.decrypt(vector, secret_key=me._secret_key)
    assert np.abs(mine - true).max() < table.deployment.flood / 4  # OpenFHE's own noise
    read = read_polynomial(me._own, vector, secret_key=me._secret_key) / half
    assert np.abs(read).max() < 0.5
    for friend in (table.new_user(), table.new_user()):
        vector = renamed(table, answer_to(table, friend), to=me)
        with suppress(EngineError):  # OpenFHE may notice
            assert np.abs(me._own.decrypt(vector, secret_key=me._secret_key)).mean() > 100.0
        read = read_polynomial(me._own, vector, secret_key=me._secret_key) / half
        assert stats.kstest(read, "uniform", args=(-1, 2)).pvalue > PLAUSIBLE_ANEW


@pytest.mark.parametrize("scheme", BOTH)
def test_shared_key_opens_the_answers_of_all(scheme: str) -> None:
    """What is conceded in that mode: whoever gets an answer reads it."""
    table = table_of(scheme, request=replace(TOY, keys="shared"))
    friend = table.authority.make_user()
    answer = answer_to(table, friend)
    theirs, mine = (decrypted(table, answer, user=user) for user in (friend, table.user))
    assert np.abs(theirs).max() > 0.5
    assert np.abs(mine - theirs).max() < table.deployment.flood / 4
