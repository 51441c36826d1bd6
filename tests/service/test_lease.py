"""What is lent comes back, or ends by itself."""

from __future__ import annotations

from helba.service.lease import HelpLease

A, B, C = b"a" * 16, b"b" * 16, b"c" * 16


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
