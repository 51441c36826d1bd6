"""Play scenarios: `python -m tests.simulation --messages 1000000`, or `--replay SEED` for one.

A scenario that fails is made smaller and printed as one line. With `--keep` it is added to
`failures.jsonl`, which the tests play from then on.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import nullcontext
from multiprocessing import get_context

from tests.simulation.planted import BUGS, planted
from tests.simulation.scenario import FAILURES, Scenario, draw_scenario, shrink
from tests.simulation.simulation import Simulation

REASON = 40  # characters of what is wrong that a smaller scenario has to share
CHUNK = 25  # scenarios that a process plays at a time


def play(scenario: Scenario, *, bug: str = "") -> tuple[int, str]:
    """How many messages were delivered, and what is wrong, if anything is."""
    messages = 0
    try:
        with planted(bug) if bug else nullcontext():
            simulation = Simulation(scenario)
            try:
                simulation.play()
            finally:
                messages = simulation.messages
    except Exception as error:
        return messages, f"{type(error).__name__}: {error}"
    return messages, ""


def play_chunk(told: tuple[int, str]) -> list[tuple[int, int, str]]:
    """The same for the seeds of a chunk."""
    first, bug = told
    return [(seed, *play(draw_scenario(seed), bug=bug)) for seed in range(first, first + CHUNK)]


def play_seeds(first: int, *, workers: int, bug: str = "") -> Iterator[tuple[int, int, str]]:
    """Play one seed after the other, for ever."""
    chunks = ((start, bug) for start in range(first, 1 << 62, CHUNK))
    if workers == 1:
        for chunk in chunks:
            yield from play_chunk(chunk)
    with get_context("spawn").Pool(workers) as pool:
        queued = [pool.apply_async(play_chunk, (next(chunks),)) for _ in range(2 * workers)]
        while True:
            done = queued.pop(0).get()
            queued.append(pool.apply_async(play_chunk, (next(chunks),)))
            yield from done


def main(arguments: list[str] | None = None) -> int:
    """Return 0 if all invariants held."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000, help="to deliver at least")
    parser.add_argument("--minutes", type=float, default=60.0, help="to stop after")
    parser.add_argument("--first", type=int, default=0, help="seed to begin with")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--plant", choices=BUGS, default="", help="a bug that has to be found")
    parser.add_argument("--replay", help="one seed, or one line of JSON")
    parser.add_argument("--keep", action="store_true", help="add what fails to failures.jsonl")
    told = parser.parse_args(arguments)
    if told.replay:
        return replay(told.replay, bug=told.plant)
    began, messages, scenarios = time.monotonic(), 0, 0
    for seed, delivered, wrong in play_seeds(told.first, workers=told.workers, bug=told.plant):
        messages, scenarios = messages + delivered, scenarios + 1
        spent = time.monotonic() - began
        if wrong:
            print(f"seed {seed}: {wrong}", file=sys.stderr)
            return report(draw_scenario(seed), bug=told.plant, keep=told.keep)
        if scenarios % 500 == 0:
            rate = 60.0 * scenarios / spent
            print(f"{scenarios} scenarios, {messages} messages, {rate:.0f} a minute", flush=True)
        if messages >= told.messages or spent > 60.0 * told.minutes:
            break
    spent = time.monotonic() - began
    rate = 60.0 * scenarios / spent
    print(f"{scenarios} scenarios, {messages} messages in {spent:.0f} s, {rate:.0f} a minute: held")
    return 0


def replay(told: str, *, bug: str) -> int:
    """Play one scenario and show what is wrong with it."""
    scenario = draw_scenario(int(told)) if told.lstrip("-").isdigit() else Scenario.load(told)
    with planted(bug) if bug else nullcontext():
        simulation = Simulation(scenario)
        try:
            simulation.play()
        except Exception:
            traceback.print_exc()
            return 1
    print(f"{simulation.messages} messages in {simulation.now:.0f} simulated seconds: held")
    return 0


def report(scenario: Scenario, *, bug: str, keep: bool) -> int:
    """Make a failing scenario smaller, print it, and keep it if that is wanted and no plant."""
    wrong = play(scenario, bug=bug)[1]

    def fails(candidate: Scenario) -> bool:
        return play(candidate, bug=bug)[1][:REASON] == wrong[:REASON]

    small = shrink(scenario, fails)
    plant = f"--plant '{bug}' " if bug else ""
    print(f"{wrong}\nreplay it: python -m tests.simulation {plant}--replay '{small.dump()}'")
    if keep and not bug:
        with FAILURES.open("a") as file:
            file.write(small.dump() + "\n")
    return 1
