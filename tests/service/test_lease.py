"""What is lent comes back, or ends by itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from helba.service.lease import HelpLease, SlotLeases

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


def test_lowest_free_slots_are_lent_first() -> None:
    leases = SlotLeases(4)
    assert [leases.lend(user, now=0.0) for user in (A, B, C)] == [0, 1, 2]
    leases.use(A, slot=0)
    assert leases.lend(A, now=1.0) == 0


def test_user_who_has_not_asked_keeps_its_slots() -> None:
    leases = SlotLeases(4)
    assert leases.lend(A, now=0.0) == leases.lend(A, now=1.0) == 0
    assert leases.outstanding(now=1.0) == 1


def test_user_cannot_hold_slots_by_fetching_terms_again() -> None:
    leases = SlotLeases(4, seconds=10.0)
    leases.lend(A, now=0.0)
    leases.lend(A, now=9.0)
    assert leases.outstanding(now=10.0) == 0


def test_lease_that_is_not_used_ends() -> None:
    leases = SlotLeases(4, seconds=10.0)
    leases.lend(A, now=0.0)
    assert leases.outstanding(now=9.9) == 1
    assert leases.outstanding(now=10.0) == 0
    assert leases.lend(B, now=10.0) == 0


def test_first_that_was_lent_is_lent_again_where_all_are() -> None:
    leases = SlotLeases(2)
    leases.lend(A, now=0.0)
    leases.lend(B, now=1.0)
    assert leases.lend(C, now=2.0) == 0


def test_slots_of_another_user_are_not_taken_back() -> None:
    leases = SlotLeases(2)
    leases.lend(A, now=0.0)
    leases.use(B, slot=0)
    assert leases.outstanding(now=1.0) == 1


@given(st.integers(1, 6), st.lists(st.tuples(st.integers(0, 8), st.booleans()), max_size=40))
def test_slots_are_those_of_the_layout_and_distinct_while_there_are_enough(
    slots: int, calls: list[tuple[int, bool]]
) -> None:
    leases, held = SlotLeases(slots), {}
    for now, (user, asks) in enumerate(calls):
        name = bytes([user]) * 16
        slot = leases.lend(name, now=0.001 * now)
        assert 0 <= slot < slots
        if len({*held, name}) <= slots:
            assert slot not in [other for each, other in held.items() if each != name]
        held = {each: other for each, other in held.items() if other != slot}
        held[name] = slot
        if asks:
            leases.use(name, slot=slot)
            del held[name]


def test_one_helper_at_a_time_until_its_lease_ends() -> None:
    lease = HelpLease(seconds=5.0)
    assert lease.is_free(now=0.0)
    assert lease.take(A, now=0.0)
    assert not lease.take(B, now=4.9)
    lease.extend(A, now=4.9)  # a share has come
    assert not lease.take(B, now=9.8)
    assert lease.take(B, now=9.9)


def test_helper_who_only_looks_keeps_nothing() -> None:
    lease = HelpLease(seconds=5.0)
    assert lease.take(A, now=0.0)
    assert lease.take(A, now=4.9)
    assert not lease.take(A, now=5.0)  # passed over, so that somebody else may help
    assert lease.take(B, now=5.1)


def test_only_user_may_help_again_after_a_while() -> None:
    lease = HelpLease(seconds=5.0)
    lease.take(A, now=0.0)
    assert lease.take(A, now=10.0)


def test_share_of_somebody_else_extends_nothing() -> None:
    lease = HelpLease(seconds=5.0)
    lease.take(A, now=0.0)
    lease.extend(B, now=4.0)
    assert lease.take(B, now=5.0)


def test_help_that_is_over_is_free_at_once() -> None:
    lease = HelpLease()
    lease.take(A, now=0.0)
    lease.end()
    assert lease.is_free(now=0.0)
