"""Processes of a tenant: they get no secret, and what they say runs nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Collection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from helba.errors import DamagedData, InvalidInput, RunFailed, Unavailable
from helba.reference.protocol.wire.messages import Ask
from helba.service import readerlink
from helba.service.evaluator import Reply
from helba.service.failure import TooMany
from helba.service.protocol import child
from helba.service.protocol.child import ChildEnded, ChildProcess, ChildTooSlow, answer_calls
from helba.service.reader import Checked, NotYours
from helba.service.settings import Limits
from tests.service.tenants import Guest, open_house

ARMS = [[0.9, 0.1], [-0.3, 0.6]]


class Trap:
    """What makes a folder in whoever unpickles it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


class Odd(NotYours):
    """An error that only the child knows by its class."""


def fail(kind: str) -> None:
    if kind == "odd":
        raise Odd("of this child only")
    if kind == "value":
        raise InvalidInput("size", Path("a"), "a number")
    raise NotYours("of somebody else")


def run_child(pipe: Connection) -> None:
    answer_calls(
        pipe,
        {
            "trap": lambda path: (Trap(path),),
            "error": lambda path: child._send(pipe, (False, Trap(path))),
            "plain": lambda: {"a": [b"b", 1, None, 2.5, True, {"c"}], "d": (bytearray(3),)},
            "reply": lambda: Reply(kind="answer", subject=b"s", data=b"d"),
            "fail": fail,
            "environment": lambda: dict(os.environ),
            "initial": lambda: Path("/proc/self/environ").read_bytes(),
            "sleep": time.sleep,
        },
        what="child",
    )


def start(*, replies: Collection[type] | None = (), seconds: float | None = None) -> ChildProcess:
    return ChildProcess(run_child, what="child", replies=replies, seconds=seconds)


@pytest.mark.parametrize("call", ["trap", "error"])
@pytest.mark.parametrize("replies", [(), (Reply,)])
def test_reply_that_would_run_something_ends_the_child(
    tmp_path: Path, call: str, replies: tuple[type, ...]
) -> None:
    made = start(replies=replies)
    with pytest.raises(ChildEnded, match="misbehaved"):
        made.call(call, tmp_path / "made")
    assert not (tmp_path / "made").exists()
    made.process.join(10)
    assert not made.process.is_alive()
    made.close()


def test_last_words_that_would_run_something_are_not_heard(tmp_path: Path) -> None:
    made = start()
    child._send(made._pipe, ("trap", (tmp_path / "made",)))
    made.close()
    assert not (tmp_path / "made").exists()


def test_plain_replies_and_those_that_are_named_arrive() -> None:
    made = start(replies=(Reply,))
    assert made.call("plain") == {"a": [b"b", 1, None, 2.5, True, {"c"}], "d": (bytearray(3),)}
    assert made.call("reply") == Reply(kind="answer", subject=b"s", data=b"d")
    made.close()
    other = start()
    with pytest.raises(ChildEnded):
        other.call("reply")
    other.close()


def test_errors_of_a_child_arrive_as_what_they_are() -> None:
    made = start()
    with pytest.raises(NotYours, match="of somebody else"):
        made.call("fail", "yours")
    with pytest.raises(InvalidInput, match="size must be a number, got a"):
        made.call("fail", "value")
    with pytest.raises(Odd, match="of this child only"):
        made.call("fail", "odd")
    with pytest.raises(RunFailed, match="the child failed"):
        made.call("sleep", "long")
    made.close()
    names, values = child._describe_error(Odd("of this child only"))
    found = child._make_error((["elsewhere.Odd", *names[1:]], values))
    assert type(found) is NotYours


def test_children_do_not_get_the_secrets_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in child.SECRETS:
        monkeypatch.setenv(name, "a-secret-of-the-parent")
    monkeypatch.setenv("HELBA_CACHE_DIR", "a/folder")
    made = start()
    environment, initial = made.call("environment"), made.call("initial")
    made.close()
    assert not set(child.SECRETS) & set(environment)
    assert b"a-secret-of-the-parent" not in initial
    assert environment["HELBA_CACHE_DIR"] == "a/folder"
    assert all(os.environ[name] == "a-secret-of-the-parent" for name in child.SECRETS)


def test_call_that_takes_too_long_is_told_from_an_end() -> None:
    made = start(seconds=0.2)
    with pytest.raises(ChildTooSlow):
        made.call("sleep", 60)
    made.close()
    with pytest.raises(ChildEnded):
        made.call("plain")


def test_message_that_takes_the_reader_too_long_is_damaged(
    tmp_path: Path, file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_house(tmp_path / "s", url=file_url) as house:
        guest = house.enrol("a")
        reader = house.tenant._reader._reader
        assert reader is not None
        monkeypatch.setattr(reader, "_seconds", 0.2)
        os.kill(reader.process.pid, signal.SIGSTOP)  # too slow, on the fastest machine too
        with pytest.raises(DamagedData, match="cannot be read"):
            house.run(house.tenant._reader.check_keys("members", b"x" * 100))
        assert guest.choose(ARMS).arm in (0, 1)


def test_checks_that_wait_for_the_reader_are_limited(
    tmp_path: Path, file_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readerlink, "MOST_OF_ONE", 2)
    limits = Limits(most_waiting=3)
    with open_house(tmp_path / "s", url=file_url, limits=limits) as house:
        guest, other = house.enrol("a"), house.enrol("b")
        tenant, held = house.tenant, threading.Event()

        async def send(each: Guest, data: bytes) -> Any:
            return await tenant.check(data, kind=Ask, user=each.user.id)

        async def send_all(ask: bytes, theirs: bytes) -> list[Any]:
            tenant._reader._thread.submit(held.wait)
            sent = [(guest, ask)] * 3 + [(other, theirs)] * 2
            calls = [asyncio.ensure_future(send(*each)) for each in sent]
            await asyncio.wait(calls, timeout=0.2)
            held.set()
            return await asyncio.gather(*calls, return_exceptions=True)

        found = house.run(send_all(guest.make_ask(ARMS), other.make_ask(ARMS)))
        assert [type(each) for each in found] == [Checked, Checked, TooMany, Checked, Unavailable]
        assert guest.choose(ARMS).arm in (0, 1)
        assert not tenant._reader._waiting
