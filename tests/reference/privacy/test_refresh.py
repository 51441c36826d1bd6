"""A refresh shows its helper what is uniform, and what others were shown does not help."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from helba.reference.protocol.serving.worker import MOST_HELPERS
from helba.reference.protocol.user import User
from tests.engines import BOTH
from tests.reference.privacy.views import plausible
from tests.reference.protocol.parties import TOY, Table, authority_of
from tests.reference.protocol.talking import CUT_TOY, TalkingTable
from tests.significance import SHOWN

both = pytest.mark.parametrize("scheme", BOTH)
COUNT = {"simulate": 120, "ckks": 10}
ROUNDS = 40  # of which each coefficient is a sample of its own

Share = tuple[NDArray[np.object_], NDArray[np.object_]]  # integers, and their moduli


class Asking(TalkingTable):
    """A user whose rounds are cut: it is asked to refresh the scores of its own arms.

    The server makes one request of a vector for it; a round for the same contexts is another.
    """

    def __init__(self, scheme: str, *, contexts: object = ((0.3, 0.8), (-0.9, 0.1))) -> None:
        super().__init__(authority_of(CUT_TOY, scheme=scheme), request=CUT_TOY)
        self.learn([0.9, -0.4], 0.7)
        self.contexts = np.array(contexts)

    def shares(self) -> Iterator[Share]:
        """What the user decrypts at the first refresh of round after round."""
        while True:
            assert self.server.receive(self.ask(self.contexts)) == ()
            task = self.round_tasks()[-1]
            yield raw_share(self.user, self.decode(task).parts[0])


class Waiting(Table):
    """A server that waits for the first refresh of an update, and more helpers than it remembers.

    So it makes a new request of one vector whenever the next of them fetches his task.
    """

    def __init__(self, scheme: str) -> None:
        super().__init__(authority_of(TOY, scheme=scheme))
        self.learn([0.9, -0.4], 0.7)
        played = self.play([[0.3, 0.8]])
        self.report(played.round, context=[0.3, 0.8], reward=0.2)
        self.helpers = [self.new_user() for _ in range(MOST_HELPERS + 1)]

    def shares(self) -> Iterator[Share]:
        """What helper after helper decrypts, in every coefficient."""
        while True:
            for helper in self.helpers:
                (task,) = self.server.tasks(helper.id)
                assert self.decode(task).work == "refresh"
                yield raw_share(helper, self.decode(task).parts[0])


of_both = pytest.mark.parametrize("kind", [Waiting, Asking], ids=["update", "round"])


def raw_share(helper: User, part: bytes) -> Share:
    """The share before it is encrypted again, by the helper's own key."""
    own: Any = helper._own
    request = own.request_from_bytes(part)
    if own.name == "simulate":
        return request.payload.integers.astype(object), np.array([1 << 64], dtype=object)
    share = own._context.IntBootDecrypt(helper._secret_key._payload, request.payload)
    form = own._form("share", request.slots, own.parameters.depth - 1)
    return form.gather(share).astype(object), np.array(own._last_moduli, dtype=object)[:, None]


def uniformity(shares: list[Share]) -> float:
    """p of the shares, as fractions of their moduli, being uniform: by KS, and by chi-square."""
    parts = np.concatenate([(values / moduli).astype(float).ravel() for values, moduli in shares])
    counts = np.bincount(np.minimum((parts * 32).astype(int), 31), minlength=32)
    return float(min(stats.kstest(parts, "uniform").pvalue, stats.chisquare(counts).pvalue))


def differences(shares: list[Share]) -> list[Share]:
    """What two helpers who compare notes see: the value cancels, and the masks do not."""
    return [
        ((one - other) % moduli, moduli)
        for (one, moduli), (other, _) in zip(shares[::2], shares[1::2], strict=True)
    ]


def leave_mask_out(table: Waiting | Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = table.server._engine
    begin = engine._begin_refresh

    def bare(body: Any, to: Any) -> Any:
        if engine.name == "ckks":
            return engine._at_two_towers(body, to), None
        request, mask = begin(body, to)
        return replace(request, integers=request.integers - mask), mask

    monkeypatch.setattr(engine, "_begin_refresh", bare)


def reuse_mask(table: Waiting, monkeypatch: pytest.MonkeyPatch) -> None:
    engine: Any = table.server._engine
    if engine.name == "ckks":
        monkeypatch.setattr(engine, "_context", OneMask(engine._context))
        return
    begin, first = engine._begin_refresh, []

    def again(body: Any, to: Any) -> Any:
        request, mask = begin(body, to)
        first.append(mask)
        return replace(request, integers=request.integers - mask + first[0]), first[0]

    monkeypatch.setattr(engine, "_begin_refresh", again)


class OneMask:
    """OpenFHE's context, but the random polynomial is always the first."""

    def __init__(self, context: Any) -> None:
        self._context = context
        self._first: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def IntMPBootRandomElementGen(self, like: Any) -> Any:
        if self._first is None:
            self._first = self._context.IntMPBootRandomElementGen(like)
        return self._first


@both
@of_both
def test_helper_sees_what_is_uniform(scheme: str, kind: type[Waiting | Asking]) -> None:
    table = kind(scheme)
    assert uniformity(list(islice(table.shares(), COUNT[scheme]))) > plausible(scheme)


@both
@of_both
def test_helper_would_see_the_vector_without_the_mask(
    scheme: str, kind: type[Waiting | Asking], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = kind(scheme)
    leave_mask_out(table, monkeypatch)
    assert uniformity(list(islice(table.shares(), COUNT[scheme]))) < SHOWN


@both
def test_user_sees_nothing_of_its_scores_in_its_own_round(scheme: str) -> None:
    """Whichever arm wins, and by however much, shares are distributed alike."""
    assert likeness(*shares_of_two_rounds(scheme)) > plausible(scheme)


@both
def test_user_would_see_its_scores_without_the_mask(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert likeness(*shares_of_two_rounds(scheme, monkeypatch)) < SHOWN


def shares_of_two_rounds(
    scheme: str, monkeypatch: pytest.MonkeyPatch | None = None
) -> tuple[list[Share], list[Share]]:
    """Shares of rounds that one arm wins by far, and of those that the other one wins."""
    found = []
    for contexts in (((5.0, 0.5), (0.1, -0.2)), ((0.1, -0.2), (5.0, 0.5))):
        table = Asking(scheme, contexts=contexts)
        if monkeypatch is not None:
            leave_mask_out(table, monkeypatch)
        found.append(list(islice(table.shares(), ROUNDS)))
    return found[0], found[1]


def likeness(one: list[Share], other: list[Share]) -> float:
    """p of each number having one distribution in both lots, corrected for how many they are."""
    lots = [
        np.stack([(values / moduli).astype(float).ravel() for values, moduli in shares])
        for shares in (one, other)
    ]
    lots = [(lot + 0.5) % 1.0 for lot in lots]  # what is near 0 from either side stays together
    numbers = lots[0].shape[1]
    least = min(stats.ks_2samp(lots[0][:, k], lots[1][:, k]).pvalue for k in range(numbers))
    return float(min(1.0, numbers * least))


@both
def test_helpers_who_compare_notes_see_what_is_uniform(scheme: str) -> None:
    table = Waiting(scheme)
    assert uniformity(differences(list(islice(table.shares(), COUNT[scheme])))) > plausible(scheme)


@both
def test_helpers_would_see_that_a_mask_was_used_twice(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each share alone is still uniform; the differences are those of the noise."""
    table = Waiting(scheme)
    reuse_mask(table, monkeypatch)
    shares = list(islice(table.shares(), COUNT[scheme]))
    assert uniformity(shares[:1]) > plausible(scheme)
    assert uniformity(differences(shares)) < SHOWN


@both
def test_every_request_of_a_run_has_a_mask_of_its_own(scheme: str) -> None:
    """All refreshes of an update, by one helper: no share says anything of another."""
    table, shares = Waiting(scheme), []
    while tasks := table.tasks():
        for task in tasks:
            if table.decode(task).work == "refresh":
                shares.append(raw_share(table.user, table.decode(task).parts[0]))
            table.server.receive(table.user.help(task))
    assert len(shares) >= 2
    assert uniformity(shares) > plausible(scheme)
    for one, other in pairwise(shares):
        if one[0].shape == other[0].shape:
            assert uniformity(differences([one, other])) > plausible(scheme)
