"""Independent operations side by side: the same results, and randomness of each thread's own."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from functools import partial
from queue import SimpleQueue

import numpy as np
import pytest

from helba.ring import insecure_parameters
from helba.ring.key import find_backend

PLACES = np.arange(4)
VALUES = np.array([1, -2, 3, 1 << 40])


@pytest.fixture
def thread():
    """The module, with two threads; a machine with one core has them as well."""
    pytest.importorskip("openfhe")
    from helba.ring.ckks import thread

    thread.set_threads("2")
    yield thread
    thread.set_threads(os.environ.get("OMP_NUM_THREADS"))


def meet():
    """A call that ends only if another one runs at the same time."""
    meeting = threading.Barrier(2, timeout=30)
    return meeting.wait


@pytest.mark.ckks
def test_calls_return_in_order_and_use_the_threads_there_are(thread):
    wait = meet()

    def call(number):
        if number < 2:
            wait()
        return number, threading.get_ident()

    found = thread.run_all([partial(call, number) for number in range(5)])
    assert [number for number, _ in found] == list(range(5))
    assert len({ident for _, ident in found}) == 2


@pytest.mark.ckks
@pytest.mark.parametrize("failing", [0, 1])
def test_call_that_fails_is_raised_when_all_that_began_have_ended(thread, failing):
    wait, ended = meet(), []

    def call(number):
        wait()
        if number == failing:
            raise ValueError("one of them")
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(ValueError, match="one of them"):
        thread.run_all([partial(call, 0), partial(call, 1)])
    assert ended == [1 - failing]


@pytest.mark.ckks
def test_first_of_two_failures_is_raised(thread):
    wait = meet()

    def fail(number):
        wait()
        raise ValueError(f"number {number}")

    for _ in range(20):
        with pytest.raises(ValueError, match="number 0"):
            thread.run_all([partial(fail, 0), partial(fail, 1)])


class Secret:
    """Something that a weak reference can follow."""


@pytest.mark.ckks
def test_nothing_of_a_call_is_kept_when_it_has_failed(thread):
    def fail(secret, wait):
        wait()
        raise ValueError("no" if secret else "never")

    secret, wait = Secret(), meet()
    seen = weakref.ref(secret)
    gc.disable()  # it is gone at once, not when cycles are looked for
    try:
        with contextlib.suppress(ValueError):
            thread.run_all([partial(fail, secret, wait), partial(fail, secret, wait)])
        del secret
        thread.run_all([meet_both := meet(), meet_both])  # the helper has taken other work since
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.ckks
def test_calls_within_calls_wait_for_no_helper(thread):
    inner = [lambda: 1, lambda: 2, lambda: 3]
    assert thread.run_all([lambda: thread.run_all(inner)] * 4) == [[1, 2, 3]] * 4


@pytest.mark.ckks
def test_caller_does_all_of_it_while_helpers_are_late(thread, monkeypatch):
    monkeypatch.setattr(thread, "_helpers", [])
    monkeypatch.setattr(thread, "_help", lambda offers: None)  # noqa: ARG005
    monkeypatch.setattr(thread, "_offers", SimpleQueue())
    assert thread.run_all([lambda: 1, lambda: 2]) == [1, 2]


@pytest.mark.ckks
def test_caller_does_all_of_it_where_no_thread_can_be_started(thread, monkeypatch):
    def refuse(_):
        raise RuntimeError("can't start new thread")

    offers = SimpleQueue()
    monkeypatch.setattr(thread, "_helpers", [])
    monkeypatch.setattr(thread, "_offers", offers)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    assert thread.run_all([lambda: 1, lambda: 2]) == [1, 2]
    assert offers.empty()


@pytest.mark.ckks
def test_interrupt_comes_through_when_helpers_have_ended(thread):
    wait, ended = meet(), []

    def helped():
        wait()
        time.sleep(0.3)
        ended.append(True)

    def call():
        if threading.current_thread() is threading.main_thread():
            wait()
            threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        else:
            helped()

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            thread.run_all([call, call])
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [True]


LEFT = """
import atexit, threading
import numpy as np
from helba.ring import insecure_parameters, Ring
from helba.ring.secret import Opener, make_keys
from helba.ring.ckks.thread import set_threads
keys = make_keys(insecure_parameters(9))
opener, ring = Opener(keys.secret, public_key=keys.public), Ring(keys.public)
made = ring.encrypt([5], places=[0], scale=1.0, peak=8.0)
def read():
    print(opener.decrypt(made, places=[0])[0] // 2**12)
set_threads("2")
read()
atexit.register(read)
def late():
    threading.main_thread().join()
    read()
threading.Thread(target=late).start()
"""


@pytest.mark.ckks
def test_threads_and_handlers_that_outlive_the_main_thread_can_compute():
    ran = subprocess.run(
        [sys.executable, "-c", LEFT], capture_output=True, text=True, check=True, timeout=60
    )
    assert len(ran.stdout.split()) == 3
    assert not ran.stderr


FORKED = """
import os, sys
from helba.errors import EngineError
from helba.ring import Move, Rearrangement, Ring, insecure_parameters
from helba.ring.secret import Opener, make_keys
from helba.ring.ckks.thread import set_threads
keys = make_keys(insecure_parameters(9))
opener, ring = Opener(keys.secret, public_key=keys.public), Ring(keys.public)
made = ring.drop(ring.encrypt([5], places=[0], scale=1.0, peak=8.0), primes=2)
opening, _ = ring.open(made, places=[0])
set_threads("2")
share = opener.receive(opening, places=[0])
moved = Rearrangement([Move([0], [0])], scale=1.0)
opener.reopen([(share, moved), (share, moved)])  # helpers have begun
child = os.fork()
if not child:
    opener.receive(opening, places=[0])
    try:
        opener.reopen([(share, moved), (share, moved)])
    except EngineError as error:
        os._exit(7 if "forked" in str(error) else 1)
    os._exit(2)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.ckks
def test_forked_child_is_told_so_and_does_not_wait_for_helpers():
    ran = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, check=True, timeout=60
    )
    assert ran.stdout.split() == ["7"]


@pytest.mark.ckks
def test_threads_encrypt_with_randomness_of_their_own() -> None:
    """Two generators that began alike would make the same second polynomial at the same count."""
    from helba.ring.ckks.form import rows_of_object

    backend = find_backend("openfhe", insecure_parameters(9))
    _, secret, public, _ = backend.make_keys(automorphism=None)
    rows: dict[int, list[bytes]] = {number: [] for number in range(4)}

    def encrypt(number: int) -> None:
        for _ in range(50):
            body = backend.encrypt(public, VALUES, PLACES)
            found = rows_of_object(body, backend._forms["ciphertext", 3])
            rows[number].append(found[3:].tobytes())
            first, second = backend.split(backend.drop(body, primes=2), PLACES, primes=2)
            opened = backend.open_second(second, secret, PLACES)
            modulus = backend.parameters.moduli[0]
            message = (first[0].astype(object) + opened[0] - VALUES) % modulus
            assert max(min(int(e), modulus - int(e)) for e in message) < 1 << 12

    threads = [threading.Thread(target=encrypt, args=(number,)) for number in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    made = [each for found in rows.values() for each in found]
    assert len(made) == 200
    assert len(set(made)) == 200


@pytest.mark.ckks
@pytest.mark.parametrize(("wanted", "threads"), [("1", 1), ("2", 2), ("64", 4)])
def test_threads_are_those_of_the_environment_and_openfhe_gets_one(wanted, threads):
    asked = subprocess.run(
        [
            sys.executable,
            "-c",
            "import ctypes, os, helba.ring.ckks.backend, helba.ring.ckks.thread as thread;"
            "openmp = ctypes.CDLL('libgomp.so.1', mode=os.RTLD_NOLOAD | os.RTLD_NOW);"
            "print(thread._threads, openmp.omp_get_max_threads(), os.environ['OMP_NUM_THREADS'])",
        ],
        env={**os.environ, "OMP_NUM_THREADS": wanted},
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout.split() == [str(threads), "1", wanted]  # children get what was wanted
