"""What a store tells of rounds, counts, the ledger and the past."""

from __future__ import annotations

from datetime import timedelta

import pytest

from helba.errors import InvalidInput, Refused
from helba.service.store import Counts, Store, UpdateRecord
from tests.service.store.contents import ANN, BOB, FINGERPRINT, NOW, answered, fill, ledger_of


def test_round_is_found_with_its_user_and_times(store: Store) -> None:
    fill(store)
    found = store.find_round("main", b"r1")
    assert found is not None
    assert (found.user, found.batch, found.seconds) == (ANN, 3, 0.5)
    assert (found.answered_at, found.reported_at) == (NOW, NOW + timedelta(seconds=1))
    assert not found.open
    assert store.find_round("main", b"nothing") is None
    assert store.find_round("other", b"r1") is None


def test_open_rounds_are_those_of_a_user_the_oldest_first(store: Store) -> None:
    store.commit("main", answered=answered(b"new"), at=NOW)
    store.commit("main", answered=answered(b"old", minutes_ago=5.0), at=NOW)
    store.commit("main", answered=answered(b"other", user=BOB), at=NOW)
    assert [each.round for each in store.open_rounds("main", ANN)] == [b"old", b"new"]
    store.commit("main", reported=[b"old"], dropped=[b"new"], at=NOW)
    assert store.open_rounds("main", ANN) == []


def test_reward_outweighs_a_round_that_was_dropped(store: Store) -> None:
    store.commit("main", answered=answered(b"r1", b"r2"), at=NOW)
    store.commit("main", dropped=[b"r1"], reported=[b"r2"], at=NOW)
    store.commit("main", reported=[b"r1"], dropped=[b"r2"], at=NOW)
    late, done = (store.find_round("main", name) for name in (b"r1", b"r2"))
    assert late is not None
    assert done is not None
    assert late.reported_at == NOW
    assert done.dropped_at is None


def test_counts_follow_from_the_rounds(store: Store) -> None:
    assert store.counts("main") == Counts(answered=0, reported=0, open=0)
    fill(store)
    assert store.counts("main") == Counts(answered=3, reported=1, open=1)


def test_ledger_returns_what_was_counted(store: Store) -> None:
    assert store.ledger("main") is None
    counts = ledger_of(7, a=3, b=4)
    store.commit("main", ledger=counts, at=NOW)
    assert store.ledger("main") == counts


def test_ledger_never_counts_down_under_one_key(store: Store) -> None:
    store.commit("main", ledger=ledger_of(7, a=3, b=4), at=NOW)
    store.commit("main", ledger=ledger_of(6, a=1, c=2), at=NOW)
    assert store.ledger("main") == ledger_of(7, a=3, b=4, c=2)
    store.commit("main", ledger=ledger_of(12, a=6, b=4, c=2), at=NOW)
    assert store.ledger("main") == ledger_of(12, a=6, b=4, c=2)


def test_ledger_of_another_key_starts_its_total_again(store: Store) -> None:
    store.commit("main", ledger=ledger_of(7, a=3, b=4), at=NOW)
    store.commit("main", ledger=ledger_of(0, key=b"new key", a=3, b=4), at=NOW)
    assert store.ledger("main") == ledger_of(0, key=b"new key", a=3, b=4)


def test_history_counts_by_step(store: Store) -> None:
    store.commit("main", answered=answered(b"r1", b"r2", minutes_ago=2.0), at=NOW)
    slow = answered(b"r3")[0]
    store.commit("main", answered=[slow], reported=[b"r1"], at=NOW)
    store.commit("main", updates=[UpdateRecord(number=1, at=NOW, samples=4)], at=NOW)
    store.commit("main", answered=answered(b"long ago", minutes_ago=90.0), at=NOW)
    points = store.history("main", minutes=3, step_seconds=60, now=NOW)
    start = NOW.replace(second=0, microsecond=0)
    assert [point.at for point in points] == [start - timedelta(minutes=m) for m in (2, 1, 0)]
    assert [(p.rounds, p.rewards, p.updates) for p in points] == [(2, 0, 0), (0, 0, 0), (1, 1, 1)]
    assert [point.seconds for point in points] == [0.5, None, 0.5]


def test_history_ends_with_the_present(store: Store) -> None:
    points = store.history("main", minutes=60, step_seconds=60)
    assert len(points) == 60
    assert all(point.rounds == 0 for point in points)
    with pytest.raises(InvalidInput, match="step_seconds"):
        store.history("main", minutes=60, step_seconds=0)


def test_tenant_of_another_deployment_is_refused(store: Store) -> None:
    store.open_tenant("main", fingerprint=FINGERPRINT)
    with pytest.raises(Refused, match="another deployment"):
        store.open_tenant("main", fingerprint="cd" * 32)
    assert store.tenants() == {"main": FINGERPRINT}


@pytest.mark.parametrize("name", ["", "a b", "../up", "-x", "a" * 65, "é"])
def test_tenant_name_that_is_no_name_is_refused(store: Store, name: str) -> None:
    with pytest.raises(InvalidInput, match="tenant"):
        store.open_tenant(name, fingerprint=FINGERPRINT)


def test_store_that_is_opened_again_has_everything(store_url: str) -> None:
    with Store(store_url) as store:
        store.open_tenant("main", fingerprint=FINGERPRINT)
        fill(store)
        before = store.load("main")
    with Store(store_url, create=False) as store:
        assert store.load("main") == before
        assert store.counts("main").answered == 3
