"""The units that are still missing, done: light ones side by side, ciphertext ones alone.

Every finished unit is on disk before the next is counted, so that a process that is killed loses
no more than what was running. An interrupt ends the run with one line that says what is kept.
"""

from __future__ import annotations

import contextlib
import io
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from helba.errors import Interrupted, RunFailed
from helba.lab.pool import Workers
from helba.lab.progress import WorkProgress, describe_seconds, note
from helba.lab.reproduction.estimate import Estimate
from helba.lab.reproduction.process import run_alone
from helba.lab.reproduction.result import SavedResults
from helba.lab.reproduction.unit import Unit


def distinct(units: Sequence[Unit]) -> list[Unit]:
    """Return the units, each once; two of one name must be the same work."""
    found: dict[str, Unit] = {}
    for unit in units:
        same = found.setdefault(unit.name, unit)
        if (same.work, same.arguments, same.kind) != (unit.work, unit.arguments, unit.kind):
            raise ValueError(f"two different units are called {unit.name}")
    return list(found.values())


def run_missing(units: Sequence[Unit], *, kept: SavedResults, processes: int) -> None:
    """Do the units that `kept` does not hold.

    `RunFailed` when one fails, `Interrupted` when they are interrupted.
    """
    missing = [unit for unit in units if unit.name not in kept.results]
    if kept.damaged:
        note(f"{kept.damaged} of {len(units)} units are damaged and are done again")
    if len(missing) < len(units):
        note(f"{len(units) - len(missing)} of {len(units)} units were finished before")
    if not missing:
        return
    estimate = Estimate(missing, processes=processes)
    try:
        with WorkProgress(
            "helba paper", total=len(missing), unit="units", estimate=estimate.left
        ) as progress:
            _Run(kept=kept, estimate=estimate, progress=progress).do(missing, processes=processes)
    except (KeyboardInterrupt, RunFailed) as error:
        if isinstance(error, RunFailed) and not _came_from_an_interrupt(error):
            raise
        done = f"{len(kept.results)} of {len(units)} units are finished and kept"
        raise Interrupted(f"interrupted: {done}; the same command resumes") from None


@dataclass(frozen=True, kw_only=True)
class _LightJob:
    unit: Unit

    def __str__(self) -> str:
        return self.unit.title


@dataclass(frozen=True, kw_only=True)
class _Run:
    kept: SavedResults
    estimate: Estimate
    progress: WorkProgress

    def do(self, missing: Sequence[Unit], *, processes: int) -> None:
        light = [unit for unit in missing if unit.kind == "light"]
        if light:
            self.progress.start(f"{len(light)} units side by side")
            with Workers(min(processes, len(light))) as workers:
                jobs = [_LightJob(unit=unit) for unit in light]
                workers.run(_do_quietly, jobs, on_result=self._take_light)
        for unit in missing:
            if unit.kind != "light":
                self.estimate.start(unit)
                self.progress.start(unit.title)
                began = time.perf_counter()
                result = run_alone(unit, say=self.progress.say, tick=self.progress.tick)
                self._take(unit, result=result, seconds=time.perf_counter() - began)

    def _take_light(self, job: _LightJob, answer: tuple[dict[str, Any], float]) -> None:
        # A result may be handed on twice when the run is interrupted.
        if job.unit.name not in self.kept.results:
            self._take(job.unit, result=answer[0], seconds=answer[1])

    def _take(self, unit: Unit, *, result: dict[str, Any], seconds: float) -> None:
        self.kept.record(unit, result=result, seconds=seconds)
        self.estimate.finish(unit, seconds=seconds)
        self.progress.finish(f"{unit.title} took {describe_seconds(seconds)}")


def _do_quietly(job: _LightJob) -> tuple[dict[str, Any], float]:
    """Do the work and say nothing: several at a time would talk across each other."""
    began = time.perf_counter()
    with contextlib.redirect_stderr(io.StringIO()):
        result = job.unit.work(**job.unit.arguments)
    return result, time.perf_counter() - began


def _came_from_an_interrupt(error: BaseException | None) -> bool:
    """Return True if an interrupt made it: a run here turns one into an error of its own."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
