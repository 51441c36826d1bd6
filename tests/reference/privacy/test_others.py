"""In a batch of users with own keys nobody learns of the others: neither alone nor together.

A user sees its answer, all of it: the slots of others, and on ciphertexts every coefficient of the
polynomial. There it finds the flood, which depends on nothing. The residue is held against the law
of the flood, against that of a batch whose other users asked for something else, and against what
the others were told.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from helba.errors import DamagedData, EngineError, WrongVector
from helba.reference.circuits.batch import Clearing
from helba.reference.engine import EncryptedVector
from helba.reference.engine.whole import split_whole
from helba.reference.planning.clearing import answer_unit
from helba.reference.protocol.user import User
from tests.engines import BOTH
from tests.reference.engine.reading import read_polynomial
from tests.reference.engine.tampering import open_sealed
from tests.reference.privacy.views import Array, answers_of, decrypted, plausible
from tests.reference.protocol.parties import MILD, Table, authority_of, draw_contexts
from tests.significance import SHOWN

USERS = 8
ME, FRIEND = 3, 5
CROWD = replace(MILD, users=USERS)
SHARED = replace(CROWD, keys="shared")
both = pytest.mark.parametrize("scheme", BOTH)


class Batch:
    """One evaluation for all users: what each of them got, and could decrypt."""

    def __init__(self, hall: Hall, *, seed: int) -> None:
        generator, mine = np.random.default_rng(seed), np.random.default_rng(7)
        contexts = [draw_contexts(generator, hall.settings) for _ in range(USERS)]
        contexts[ME] = draw_contexts(mine, hall.settings)  # the same in every batch
        asks = [
            hall.ask(x, user=user, slot=slot)
            for slot, (user, x) in enumerate(zip(hall.users, contexts, strict=True))
        ]
        self.answers = answers_of(hall, asks)
        self.parts = [hall.decode(answer).parts[0] for answer in self.answers]
        self.read = [
            decrypted(hall, answer, user=user) / hall.unit
            for answer, user in zip(self.answers, hall.users, strict=True)
        ]
        self.told = np.zeros(len(self.read[0]))  # every slot, by the user it belongs to
        for slot, values in enumerate(self.read):
            own = hall.slots_of(slot)
            self.told[own] = values[own]


class Hall(Table):
    """Users who are all served at once."""

    def __init__(self, scheme: str, *, request: Any = CROWD) -> None:
        super().__init__(authority_of(request, scheme=scheme, ring_dim=1 << 11))
        self.scheme = scheme
        self.users = [self.new_user() for _ in range(USERS)]

    @property
    def unit(self) -> float:
        """What entries of an answer are multiplied by."""
        return answer_unit(self.deployment.scores, parameters=self.deployment.parameters)

    def slots_of(self, *users: int) -> Any:
        layout = self.deployment.scores
        own = [layout.slots_of(user, among=layout.compare_slots) for user in users]
        return np.any(own, axis=0)

    def flood_alone(self, user: User) -> EncryptedVector:
        """What flooding makes of zeros, under the user's key."""
        zeros = np.zeros(self.deployment.scores.compare_slots)
        fresh = user._own.encrypt(zeros, level=self.deployment.parameters.depth)
        return user._own.flood(fresh, amount=self.deployment.flood * self.unit)


class Law:
    """The law of the flood, from samples that were drawn before anything was taken away."""

    def __init__(self, hall: Hall) -> None:
        user = hall.users[ME]
        floods = [hall.flood_alone(user) for _ in range(4)]
        key = user._secret_key
        opened = [user._own.decrypt(each, secret_key=key) for each in floods]
        self.slots = np.concatenate(opened) / hall.unit
        if hall.scheme == "ckks":
            raw = [read_polynomial(user._own, each, secret_key=key) for each in floods]
            self.differences = np.concatenate([raw[0] - raw[1], raw[2] - raw[3]])


def correlation(one: Array, other: Array) -> float:
    """p of two samples having nothing to do with one another; 1 if one of them never changes."""
    if np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return 1.0
    return float(stats.pearsonr(one, other).pvalue)


def same_law(one: Array, other: Array) -> float:
    return float(stats.ks_2samp(one, other).pvalue)


def slots_show(hall: Hall, law: Law) -> float:
    """The least p of all that a user may find in the slots of others, in two batches."""
    first, second = Batch(hall, seed=1), Batch(hall, seed=2)
    others = ~hall.slots_of(ME)
    assert np.abs(first.told[others] - second.told[others]).max() > 0.5
    found = []
    for batch in (first, second):
        left = batch.read[ME][others]
        found += [same_law(left, law.slots), correlation(left, batch.told[others])]
    found.append(same_law(first.read[ME][others], second.read[ME][others]))
    change = first.read[ME][others] - second.read[ME][others]
    found.append(correlation(change, first.told[others] - second.told[others]))
    return min(found)


def coefficients_show(hall: Hall, law: Law) -> float:
    """The same for all coefficients: own entries cancel between two batches, and others' do not."""
    first, second = Batch(hall, seed=1), Batch(hall, seed=2)
    user, others = hall.users[ME], ~hall.slots_of(ME)
    raw = [
        read_polynomial(
            user._own, user._own.vector_from_bytes(batch.parts[ME]), secret_key=user._secret_key
        )
        for batch in (first, second)
    ]
    change = raw[0] - raw[1]
    depth = hall.deployment.parameters.depth
    theirs = np.where(others, first.told - second.told, 0.0)
    engine = hall.server._engine
    expected = read_polynomial(
        engine, engine.encrypt(theirs, level=depth), secret_key=hall.authority._keys.secret
    )
    return min(same_law(change, law.differences), correlation(change, expected))


def together_show(hall: Hall) -> float:
    """The least p of what two users find who put their answers together."""
    batch, strangers = Batch(hall, seed=1), ~hall.slots_of(ME, FRIEND)
    mine, theirs = (batch.read[user][strangers] for user in (ME, FRIEND))
    told = batch.told[strangers]
    return min(
        correlation(mine, theirs),
        correlation(mine + theirs, told),
        correlation(mine - theirs, told),
    )


def leave_clearing_out(patch: pytest.MonkeyPatch) -> None:
    def keep_all(clearing: Clearing, user: int, part: EncryptedVector) -> Any:  # noqa: ARG001
        ones = split_whole(np.ones(1), bits=clearing.split.bits)
        return [
            clearing.engine.encode_whole(each, slots=part.slots, level=part.level) for each in ones
        ]

    patch.setattr(Clearing, "_mask", keep_all)


def leave_flood_out(hall: Hall, patch: pytest.MonkeyPatch) -> None:
    def dry(engine: Any, body: Any, slots: int, amount: float) -> Any:  # noqa: ARG001
        return body.payload

    patch.setattr(type(hall.server._engine), "_flood", dry)


def repeat_flood(hall: Hall, patch: pytest.MonkeyPatch) -> None:
    """The same noise for everybody."""
    module = "simulator" if hall.scheme == "simulate" else "ckks.engine"

    def drawn(count: int, *, amount: float, **_: object) -> Array:
        return np.random.default_rng(0).uniform(-amount / 2, amount / 2, count)

    patch.setattr(f"helba.reference.engine.{module}.draw_slot_flood", drawn)


# -- one user


@both
def test_slots_of_others_hold_the_flood_and_nothing_else(scheme: str) -> None:
    hall = Hall(scheme)
    assert slots_show(hall, Law(hall)) > plausible(scheme)


@both
def test_slots_of_others_would_show_them_without_clearing(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = Hall(scheme)
    leave_clearing_out(monkeypatch)
    assert slots_show(hall, Law(hall)) < SHOWN


@both
def test_slots_of_others_would_be_bare_without_the_flood(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = Hall(scheme)
    law = Law(hall)
    leave_flood_out(hall, monkeypatch)
    assert slots_show(hall, law) < SHOWN


@pytest.mark.ckks
def test_coefficients_hold_the_flood_and_nothing_of_others() -> None:
    hall = Hall("ckks")
    assert coefficients_show(hall, Law(hall)) > plausible("ckks")


@pytest.mark.ckks
def test_coefficients_would_show_others_without_clearing(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall("ckks")
    law = Law(hall)
    leave_clearing_out(monkeypatch)
    assert coefficients_show(hall, law) < SHOWN


@pytest.mark.ckks
def test_coefficients_would_be_bare_without_the_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    hall = Hall("ckks")
    law = Law(hall)
    leave_flood_out(hall, monkeypatch)
    assert coefficients_show(hall, law) < SHOWN


@both
def test_own_entries_do_not_depend_on_others(scheme: str) -> None:
    hall = Hall(scheme)
    first, second = Batch(hall, seed=1), Batch(hall, seed=2)
    own, deployment = hall.slots_of(ME), hall.deployment
    allowed = 2.0 * (deployment.flood + deployment.comparison_noise)
    assert np.abs(first.read[ME][own] - second.read[ME][own]).max() <= allowed
    assert np.abs(first.read[ME][own]).max() > 0.5


# -- several users


@both
def test_two_users_together_see_nothing_of_a_third(scheme: str) -> None:
    assert together_show(Hall(scheme)) > plausible(scheme)


@both
def test_two_users_together_would_see_a_flood_that_repeats(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = Hall(scheme)
    repeat_flood(hall, monkeypatch)
    assert together_show(hall) < SHOWN


@both
def test_two_users_together_would_see_a_third_without_clearing(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hall = Hall(scheme)
    leave_clearing_out(monkeypatch)
    assert together_show(hall) < SHOWN


# -- answers of others


@both
def test_answer_of_another_user_is_refused(scheme: str) -> None:
    hall = Hall(scheme)
    batch, me = Batch(hall, seed=1), hall.users[ME]
    for slot, part in enumerate(batch.parts):
        if slot == ME:
            continue
        with pytest.raises(DamagedData, match="belongs to another key"):
            me._own.vector_from_bytes(part)
        vector = hall.users[slot]._own.vector_from_bytes(part)
        with pytest.raises(WrongVector):
            hall.users[slot]._own.decrypt(vector, secret_key=me._secret_key)


def forged(hall: Hall, part: bytes, *, to: User) -> Array | None:
    """What a user reads in bytes that it renames to be its own; None if OpenFHE finds noise."""
    tag = open_sealed(to._own.vector_to_bytes(to._own.encrypt([0.0]))).header["tag"]
    renamed = open_sealed(part, tag=tag).seal()
    try:
        vector = to._own.vector_from_bytes(renamed, slots=hall.deployment.scores.compare_slots)
        return to._own.decrypt(vector, secret_key=to._secret_key) / hall.unit
    except EngineError:
        return None


@pytest.mark.ckks
def test_answer_of_another_user_is_noise_under_a_forged_name() -> None:
    hall = Hall("ckks")
    batch, me = Batch(hall, seed=1), hall.users[ME]
    mine = forged(hall, batch.parts[ME], to=me)
    assert mine is not None
    assert np.abs(mine - batch.read[ME]).max() < hall.deployment.flood / 4  # OpenFHE's own noise
    for slot in {FRIEND, 0}:
        found = forged(hall, batch.parts[slot], to=me)
        if found is not None:
            assert np.abs(found).mean() > 100.0
            assert correlation(found, batch.read[slot]) > plausible("ckks")


@both
def test_shared_key_opens_the_answers_of_all_and_each_holds_its_own_only(scheme: str) -> None:
    """What holds in that mode: an answer has nothing of others, and whoever gets it reads it."""
    hall = Hall(scheme, request=SHARED)
    batch, me = Batch(hall, seed=1), hall.users[ME]
    others, theirs = ~hall.slots_of(ME), hall.slots_of(FRIEND)
    left = batch.read[ME][others]
    assert np.abs(left).max() <= hall.deployment.flood
    assert correlation(left, batch.told[others]) > plausible(scheme)
    vector = me._own.vector_from_bytes(batch.parts[FRIEND])
    read = me._own.decrypt(vector, secret_key=me._secret_key) / hall.unit
    assert np.abs(read[theirs] - batch.told[theirs]).max() < hall.deployment.flood / 4
