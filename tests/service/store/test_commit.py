"""What a commit writes: all of it or nothing, once, and only after what is stored."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import func, select

from helba.errors import DamagedData, InvalidInput, RunFailed
from helba.service.checkpoint import Checkpoint
from helba.service.store import Store, UpdateRecord
from helba.service.store import commit as writing
from helba.service.store.table import part
from tests.service.store.contents import (
    ANN,
    BOB,
    FINGERPRINT,
    KEY,
    NOW,
    answered,
    checkpoint_of,
    digest,
    fill,
    ledger_of,
    rows_of,
)


def test_load_returns_what_was_committed_last(store: Store) -> None:
    assert store.load("main") is None
    fill(store)
    saved = store.load("main")
    assert saved is not None
    assert (saved.number, saved.key, saved.head) == (2, KEY, b"head 2")
    assert saved.parts == (b"second", b"third")
    assert saved.rounds == {b"r2": ANN}


def test_parts_keep_their_order_and_may_repeat(store: Store) -> None:
    one, two = b"one", b"two"
    digests = (digest(two), digest(one), digest(two))
    parts = {digest(one): one, digest(two): two}
    checkpoint = Checkpoint(number=1, follows=0, key=KEY, head=b"", digests=digests, parts=parts)
    store.commit("main", checkpoint=checkpoint, at=NOW)
    saved = store.load("main")
    assert saved is not None
    assert saved.parts == (two, one, two)


def test_checkpoint_of_no_parts_is_one(store: Store) -> None:
    store.commit("main", checkpoint=checkpoint_of(1, b"part"), at=NOW)
    store.commit("main", checkpoint=checkpoint_of(2), at=NOW)
    saved = store.load("main")
    assert saved is not None
    assert saved.parts == ()


def test_parts_that_are_no_longer_referred_to_are_deleted(store: Store) -> None:
    fill(store)
    with store.read() as connection:
        stored = set(connection.scalars(select(part.c.digest)))
    assert stored == {digest(b"second"), digest(b"third")}


def test_commit_that_is_repeated_counts_once(store: Store) -> None:
    fill(store)
    before = rows_of(store)
    again = {
        "checkpoint": checkpoint_of(2, b"third", kept=(b"second",)),
        "answered": answered(b"r1", b"r2"),
        "reported": [b"r1"],
        "dropped": [b"r3"],
        "ledger": ledger_of(7, a=3, b=4),
        "updates": [UpdateRecord(number=1, at=NOW, samples=40)],
    }
    store.commit("main", **again, at=NOW + timedelta(hours=1))  # type: ignore[arg-type]
    assert rows_of(store) == before


@pytest.mark.parametrize("number", [1, 2])
def test_checkpoint_that_does_not_follow_is_refused(store: Store, number: int) -> None:
    fill(store)
    before = rows_of(store)
    with pytest.raises(RunFailed, match="another server"):
        store.commit(
            "main", checkpoint=checkpoint_of(number, b"other"), answered=answered(b"r9"), at=NOW
        )
    assert rows_of(store) == before


def test_server_that_did_not_see_the_last_checkpoint_cannot_write(store: Store) -> None:
    """Two servers at one store: the second one's next number is free, and still does not follow."""
    fill(store)
    before = rows_of(store)
    late = checkpoint_of(3, b"sums without the first server's", follows=1)
    with pytest.raises(RunFailed, match="another server"):
        store.commit("main", checkpoint=late, answered=answered(b"r9"), at=NOW)
    assert rows_of(store) == before


def test_checkpoint_may_skip_numbers(store: Store) -> None:
    fill(store)
    store.commit("main", checkpoint=checkpoint_of(9, b"ninth", follows=2), at=NOW)
    saved = store.load("main")
    assert saved is not None
    assert saved.number == 9


def test_checkpoint_that_lacks_a_part_is_refused(store: Store) -> None:
    fill(store)
    before = rows_of(store)
    with pytest.raises(RunFailed, match="lacks a part"):
        store.commit("main", checkpoint=checkpoint_of(3, kept=(b"first",)), at=NOW)
    assert rows_of(store) == before


def test_part_that_is_not_what_its_digest_says_is_refused(store: Store) -> None:
    wrong = Checkpoint(
        number=1,
        follows=0,
        key=KEY,
        head=b"",
        digests=(digest(b"a"),),
        parts={digest(b"a"): b"b"},
    )
    with pytest.raises(DamagedData, match="digest"):
        store.commit("main", checkpoint=wrong, at=NOW)
    assert store.load("main") is None


@pytest.mark.parametrize("step", ["_write_parts", "mark_reported", "write_ledger", "write_updates"])
def test_failure_in_the_middle_leaves_the_old_state(
    store: Store, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    fill(store)
    before = rows_of(store)
    whole = getattr(writing, step)

    def fail(*arguments: object, **options: object) -> None:
        whole(*arguments, **options)
        raise RuntimeError("in the middle")

    monkeypatch.setattr(writing, step, fail)
    changes = {
        "checkpoint": checkpoint_of(3, b"fourth", kept=(b"third",)),
        "answered": answered(b"r4"),
        "reported": [b"r2"],
        "ledger": ledger_of(9, a=5, b=4),
        "updates": [UpdateRecord(number=2, at=NOW, samples=80)],
    }
    with pytest.raises(RuntimeError, match="in the middle"):
        store.commit("main", **changes, at=NOW)  # type: ignore[arg-type]
    assert rows_of(store) == before
    monkeypatch.undo()
    store.commit("main", **changes, at=NOW)  # type: ignore[arg-type]
    saved = store.load("main")
    assert saved is not None
    assert (saved.number, saved.parts, saved.rounds) == (3, (b"third", b"fourth"), {b"r4": ANN})


def test_reward_of_a_round_that_was_never_answered_is_refused(store: Store) -> None:
    fill(store)
    before = rows_of(store)
    with pytest.raises(RunFailed, match="does not have"):
        store.commit("main", reported=[b"r2", b"unknown"], at=NOW)
    assert rows_of(store) == before


def test_round_of_another_user_is_refused(store: Store) -> None:
    fill(store)
    with pytest.raises(RunFailed, match="another user"):
        store.commit("main", answered=answered(b"r2", user=BOB), at=NOW)


def test_many_rounds_fit_into_one_commit(store: Store) -> None:
    names = [b"%08d" % number for number in range(2500)]
    store.commit("main", answered=answered(*names), at=NOW)
    store.commit("main", reported=names[:2400], at=NOW)
    assert store.counts("main").reported == 2400


def test_unknown_tenant_is_refused(store: Store) -> None:
    with pytest.raises(RunFailed, match="no tenant 'other'"):
        store.commit("other", answered=answered(b"r1"), at=NOW)


def test_times_without_a_zone_are_refused(store: Store) -> None:
    with pytest.raises(InvalidInput, match="zone"):
        store.commit("main", at=datetime(2024, 5, 17))
    with pytest.raises(InvalidInput, match="zone"):
        UpdateRecord(number=1, at=datetime(2024, 5, 17), samples=1)


def test_times_come_back_in_utc(store: Store) -> None:
    there = timezone(timedelta(hours=5))
    moment = NOW.astimezone(there)
    store.commit("main", answered=answered(b"r1"), at=moment)
    store.commit("main", reported=[b"r1"], at=moment)
    found = store.find_round("main", b"r1")
    assert found is not None
    assert found.reported_at == NOW
    assert found.reported_at is not None
    assert found.reported_at.utcoffset() == timedelta(0)


def test_tenants_do_not_see_each_other(store: Store) -> None:
    store.open_tenant("other", fingerprint=FINGERPRINT)
    fill(store)
    fill(store, tenant="other")
    store.commit("other", checkpoint=checkpoint_of(3, b"third"), reported=[b"r2"], at=NOW)
    saved = store.load("main")
    assert saved is not None
    assert (saved.parts, saved.rounds) == ((b"second", b"third"), {b"r2": ANN})


def test_two_threads_commit_in_turns(store: Store) -> None:
    store.open_tenant("other", fingerprint=FINGERPRINT)
    failures: list[Exception] = []

    def work(tenant: str, user: bytes) -> None:
        try:
            for number in range(1, 16):
                name = b"%d" % number
                store.commit(
                    tenant,
                    checkpoint=checkpoint_of(number, user * 1000 + name),
                    answered=answered(name, user=user),
                    at=NOW,
                )
                store.commit(tenant, reported=[name], at=NOW)
                assert store.find_round(tenant, name) is not None
        except Exception as error:
            failures.append(error)

    threads = [
        threading.Thread(target=work, args=arguments)
        for arguments in (("main", ANN), ("other", BOB))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert failures == []
    assert [store.counts(name).reported for name in ("main", "other")] == [15, 15]


def test_two_threads_with_the_same_number_cannot_both_write(store_url: str) -> None:
    with Store(store_url) as one, Store(store_url) as two:
        one.open_tenant("main", fingerprint=FINGERPRINT)
        outcomes: list[str] = []
        meeting = threading.Barrier(2)

        def work(store: Store, data: bytes) -> None:
            meeting.wait(timeout=30)
            try:
                store.commit("main", checkpoint=checkpoint_of(1, data), at=NOW)
                outcomes.append("written")
            except RunFailed as error:
                outcomes.append("refused" if "another server" in str(error) else str(error))

        threads = [
            threading.Thread(target=work, args=arguments)
            for arguments in ((one, b"from one"), (two, b"from two"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=60)
        if not one.tenants():
            raise AssertionError("the tenant is gone")
        with one.read() as connection:
            assert connection.scalar(select(func.count()).select_from(part)) == 1
        assert sorted(outcomes) == ["refused", "written"]
