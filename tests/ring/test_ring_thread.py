"""Independent operations side by side: the same results, and randomness of each thread's own."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from helba.ring import insecure_parameters

PLACES = np.arange(4)
VALUES = np.array([1, -2, 3, 1 << 40])


@pytest.mark.ckks
def test_calls_return_in_order_and_use_the_threads_there_are() -> None:
    from helba.ring.ckks.thread import run_all, set_threads

    set_threads("2")
    try:
        meeting = threading.Barrier(2, timeout=30)  # passed only if two calls run at once

        def call(number: int) -> tuple[int, str]:
            if number < 2:
                meeting.wait()
            return number, threading.current_thread().name

        found = run_all([lambda number=number: call(number) for number in range(5)])
    finally:
        set_threads(None)
    assert [number for number, _ in found] == list(range(5))
    assert len({name for _, name in found}) == 2


@pytest.mark.ckks
def test_call_that_fails_is_raised_when_all_others_have_ended() -> None:
    from helba.ring.ckks.thread import run_all, set_threads

    ended: list[int] = []

    def fail() -> None:
        raise ValueError("one of them")

    for calls in ([fail, lambda: ended.append(1)], [lambda: ended.append(1), fail]):
        set_threads("2")
        try:
            with pytest.raises(ValueError, match="one of them"):
                run_all(calls)
        finally:
            set_threads(None)
    assert ended == [1, 1]


@pytest.mark.ckks
def test_helpers_do_not_wait_for_each_other() -> None:
    from helba.ring.ckks.thread import run_all, set_threads

    set_threads("2")
    try:
        inner = [lambda: 1, lambda: 2, lambda: 3]
        assert run_all([lambda: run_all(inner)] * 4) == [[1, 2, 3]] * 4
    finally:
        set_threads(None)


@pytest.mark.ckks
def test_threads_encrypt_with_randomness_of_their_own() -> None:
    """Two generators that began alike would make the same second polynomial at the same count."""
    from helba.ring.ckks.backend import open_backend
    from helba.ring.ckks.form import rows_of_object

    backend = open_backend(insecure_parameters(9))
    _, secret, public, _ = backend.make_keys(automorphism=None)
    rows: dict[int, list[bytes]] = {number: [] for number in range(4)}

    def encrypt(number: int) -> None:
        for _ in range(50):
            body = backend.encrypt(public, VALUES, PLACES)
            found = rows_of_object(body, backend._forms.ciphertexts[3])
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
def test_threads_are_those_of_the_environment_and_openfhe_gets_one(
    wanted: str, threads: int
) -> None:
    asked = subprocess.run(
        [
            sys.executable,
            "-c",
            "import os, helba.ring.ckks.backend, helba.ring.ckks.thread as thread;"
            "print(thread._threads, os.environ['OMP_NUM_THREADS'])",
        ],
        env={**os.environ, "OMP_NUM_THREADS": wanted},
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout.split() == [str(threads), "1"]
