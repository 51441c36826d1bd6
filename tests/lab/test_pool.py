from __future__ import annotations

import os

import pytest

from helba.errors import RunFailed
from helba.lab.pool import Workers, check_stop


def square(job: int) -> int:
    if job == 13:
        raise ValueError("unlucky")
    return job * job


def report_environment(job: int) -> tuple[int, str | None]:
    check_stop()
    return job, os.environ.get("OMP_NUM_THREADS")


def die(job: int) -> None:
    os._exit(job)


@pytest.mark.parametrize("count", [1, 2])
def test_workers_hand_every_result_back(count):
    found = {}
    with Workers(count) as workers:
        workers.run(square, range(10), on_result=found.__setitem__)
        workers.run(square, range(14, 17), on_result=found.__setitem__)
    assert found == {job: job * job for job in [*range(10), *range(14, 17)]}


@pytest.mark.parametrize("count", [1, 2])
def test_workers_name_the_job_that_failed(count):
    found = {}
    with pytest.raises(RunFailed, match=r"^13 failed: unlucky$"), Workers(count) as workers:
        workers.run(square, range(10, 16), on_result=found.__setitem__)
    assert 13 not in found
    assert 10 in found


def test_workers_have_one_thread_and_leave_the_environment_alone():
    before = dict(os.environ)
    threads = {}
    with Workers(2) as workers:
        workers.run(
            report_environment, [0, 1], on_result=lambda job, found: threads.update({job: found})
        )
    assert threads == {0: (0, "1"), 1: (1, "1")}
    assert dict(os.environ) == before


def test_workers_that_die_are_one_clear_failure():
    with pytest.raises(RunFailed, match="worker process ended"), Workers(2) as workers:
        workers.run(die, [3, 4], on_result=lambda *_: None)


def test_workers_keep_what_was_finished_when_interrupted():
    found = []

    def interrupt(job: int, result: int) -> None:
        found.append((job, result))
        if len(found) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Workers(2) as workers:
        workers.run(square, range(5), on_result=interrupt)
    assert all(result == job * job for job, result in found)
