"""A decryption that fails is reported to the server like one that succeeds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from helba.errors import EngineError
from helba.reference.protocol.wire.messages import Answer, TestReply
from tests.reference.privacy.transcript import SERVER, Shape
from tests.reference.privacy.views import (
    PUBLIC,
    UPDATES,
    Array,
    Run,
    record,
    without_length_of_keys,
)
from tests.reference.protocol.parties import MILD, authority_of
from tests.significance import PLAUSIBLE, SHOWN


def explode(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A polynomial that left its range: OpenFHE finds too much noise."""

    def fails(*_: Any, **__: Any) -> Array:
        raise EngineError("the vector cannot be decrypted")

    monkeypatch.setattr(run.bandit.user._own, "decrypt", fails)


def overshoot(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries far outside their range."""
    user = run.bandit.user
    decrypt = user._own.decrypt

    def large(vector: Any, *, secret_key: Any) -> Array:
        return 1e6 + decrypt(vector, secret_key=secret_key)

    monkeypatch.setattr(user._own, "decrypt", large)


def no_number(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that are none."""
    user = run.bandit.user

    def empty(vector: Any, **_: Any) -> Array:
        return np.full(vector.slots, np.nan)

    monkeypatch.setattr(user._own, "decrypt", empty)


Spoil = Callable[[Run, pytest.MonkeyPatch], None]


def play_spoilt(
    spoil: Spoil | None, monkeypatch: pytest.MonkeyPatch, *, request: Any, rounds: int = 2
) -> Run:
    """A run whose answers cannot be read; updates would need a user who reads checks."""
    with monkeypatch.context() as patch:
        run = record(authority_of(request, scheme="simulate"))
        if spoil is not None:
            spoil(run, patch)
            patch.setattr(run.bandit.user, "_read_signs", honest_signs(run))
        run.play(rounds=rounds, seed=1)
    assert run.bandit.user.overflows == (0 if spoil is None else rounds)
    return run


def honest_signs(run: Run) -> Callable[[bytes], str]:
    """The signs of a check: of a user whose decryption fails in answers only."""
    user = run.bandit.user
    engine: Any = user._own

    def read(part: bytes) -> str:
        vector = engine.vector_from_bytes(part)
        values = type(engine).decrypt(engine, vector, secret_key=user._secret_key)
        return "".join("+" if value > 0.0 else "-" for value in values[:64])

    return read


def dialogue(run: Run) -> list[Shape]:
    """Everything but what belongs to updates; tests and their replies stay in."""
    entries = [
        entry for entry in run.transcript.view_of(SERVER) if entry.kind.split()[0] not in UPDATES
    ]
    return without_length_of_keys(run.transcript.shapes(entries))


def test_replied(run: Run) -> bool:
    """Whether every answer with a test, and no other, is followed by one reply to it."""
    kinds: list[tuple[str, bytes | None]] = []
    for entry in run.transcript.view_of(SERVER):
        if entry.kind in ("Answer", "TestReply"):
            message = run.transcript.decode(entry)
            assert isinstance(message, Answer | TestReply)
            kinds.append((entry.kind, message.test))
    expected = [
        pair
        for kind, test in kinds
        if kind == "Answer"
        for pair in ([(kind, test)] if test is None else [(kind, test), ("TestReply", test)])
    ]
    return kinds == expected


test_replied.__test__ = False  # type: ignore[attr-defined]
spoils = pytest.mark.parametrize("spoil", [explode, overshoot, no_number])
# A test rides on the second answer.
CALM = replace(MILD, growth=3.0, trace_threshold=2.0, horizon=100)


@spoils
@pytest.mark.parametrize("request_", [PUBLIC, CALM], ids=["public", "trace"])
def test_failed_decryption_is_reported_like_any_other(
    spoil: Spoil, request_: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = play_spoilt(None, monkeypatch, request=request_)
    spoilt = play_spoilt(spoil, monkeypatch, request=request_)
    assert dialogue(spoilt) == dialogue(usual)
    assert test_replied(spoilt)
    assert test_replied(usual)
    asked = any(entry.kind == "TestReply" for entry in usual.transcript.entries)
    assert asked == (request_ is CALM)


@spoils
def test_bit_of_a_failed_decryption_is_a_fair_coin(
    spoil: Spoil, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = record(authority_of(CALM, scheme="simulate")).play(rounds=1, seed=1)
    user, server = run.bandit.user, run.server
    spoil(run, monkeypatch)
    bits = []
    for _ in range(100):
        (answer,) = server.receive(user.ask([[0.2, 0.1]], terms=server.terms))
        reply = user.read(answer).reply
        assert reply is not None
        message = run.transcript.codec.decode(reply)
        assert isinstance(message, TestReply)
        bits.append(message.positive)
    assert stats.binomtest(sum(bits), len(bits)).pvalue > PLAUSIBLE


def test_user_who_kept_silent_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One who does not reply to a test that it could not read."""
    usual = play_spoilt(None, monkeypatch, request=CALM)

    def silent(run: Run, patch: pytest.MonkeyPatch) -> None:
        explode(run, patch)
        user = run.bandit.user
        read = user.read
        patch.setattr(user, "read", lambda answer: replace(read(answer), reply=None))

    spoilt = play_spoilt(silent, monkeypatch, request=CALM)
    assert dialogue(spoilt) != dialogue(usual)
    assert not test_replied(spoilt)


def test_user_who_always_said_no_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    run = record(authority_of(CALM, scheme="simulate")).play(rounds=1, seed=1)
    user, server = run.bandit.user, run.server
    explode(run, monkeypatch)
    monkeypatch.setattr("helba.reference.protocol.user.secrets.randbelow", lambda _: 0)
    bits = []
    for _ in range(100):
        (answer,) = server.receive(user.ask([[0.2, 0.1]], terms=server.terms))
        message = run.transcript.codec.decode(user.read(answer).reply or b"")
        assert isinstance(message, TestReply)
        bits.append(message.positive)
    assert stats.binomtest(sum(bits), len(bits)).pvalue < SHOWN
