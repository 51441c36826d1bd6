"""Work on several threads: results in order, and one core for each."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from helba.errors import InvalidInput
from helba.reference.engine.parallel import run_parallel
from helba.reference.planning.parameters import insecure_parameters
from tests.engines import open_desk


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_the_order_of_the_items(threads: int) -> None:
    assert run_parallel(lambda x: x * x, range(20), threads=threads) == [x * x for x in range(20)]


def test_several_threads_work_at_once() -> None:
    together = threading.Barrier(3)
    met = run_parallel(lambda _: together.wait(timeout=60), range(3), threads=3)
    assert sorted(met) == [0, 1, 2]


def test_errors_reach_the_caller() -> None:
    with pytest.raises(ZeroDivisionError):
        run_parallel(lambda x: 1 // x, [1, 0], threads=2)
    with pytest.raises(InvalidInput, match="threads"):
        run_parallel(lambda x: x, [1], threads=0)


@pytest.mark.ckks
def test_openfhe_stays_on_the_core_of_its_thread() -> None:
    """Otherwise a good part of the process's time would be that of OpenMP's threads."""
    parameters = insecure_parameters(ring_dim=1 << 14, depth=8)
    desk = open_desk("ckks", parameters=parameters)
    vector = desk.engine.encrypt(np.zeros(1 << 10))

    def own_share(_: int) -> float:
        process, thread = time.process_time(), time.thread_time()
        for _ in range(5):
            desk.engine.lower(desk.engine.multiply(vector, vector), 1)
        return (time.thread_time() - thread) / (time.process_time() - process)

    # the second worker has nothing to do
    assert run_parallel(own_share, [0], threads=2)[0] > 0.75
