"""Load on a deployment: many users at once, in processes of their own, for a given time.

    request = LoadRequest(authority="http://127.0.0.1:8701", users=64, seconds=300.0)
    report = run_load(request)

All users enrol first (an authority that enrols by invitation only refuses them). With
`alone_seconds` one user at a time plays before, and the report compares the throughputs. Nothing of
the users is kept but, in `out`, the rewards that were acknowledged: they are synthetic.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty
from typing import Any

from helba.errors import HelbaError, RunFailed, require_at_least, require_positive, require_whole
from helba.service.client.account import Account
from helba.service.client.crowd import Crowd, Signals, join_crowd
from helba.service.client.figure import Metrics, Tally, read_metrics
from helba.service.client.registry import Registry
from helba.service.client.transport import Patience, Transport, check_url

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
SHOW_SECONDS = 0.5
SAMPLE_SECONDS = 5.0
METRIC_SECONDS = 2.0
ACKNOWLEDGED, REPORT = "acknowledged.jsonl", "report.json"
MOST_USERS, MOST_PROCESSES = 4096, 64


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """What to run; `alone_seconds` None leaves the comparison with one user at a time out."""

    authority: str
    users: int = 64
    seconds: float = 300.0
    processes: int = 2
    problem: str = "toy"
    seed: int = 0
    alone_seconds: float | None = None
    out: Path | None = None
    ca: Path | None = None
    allow_plain_http: bool = False
    allow_insecure: bool = False
    patience: Patience = field(default_factory=lambda: Patience(deadline_seconds=60.0))

    def __post_init__(self) -> None:
        require_whole("users", self.users, least=1, most=MOST_USERS)
        require_whole("processes", self.processes, least=1, most=MOST_PROCESSES)
        require_positive("seconds", self.seconds)
        if self.alone_seconds is not None:
            require_at_least("alone_seconds", self.alone_seconds, 0.0)
        check_url(self.authority, allow_plain_http=self.allow_plain_http)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """How a run stands; `metrics` is what the server said last, None where it says nothing."""

    phase: str
    seconds: float
    enrolled: int
    tally: Tally
    metrics: Metrics | None


def run_load(
    request: LoadRequest, *, show: Callable[[Moment], None] | None = None
) -> dict[str, Any]:
    """Run, and return the report; `show` is told twice a second how it stands.

    An interrupt ends the run at once, with a report of what was done.
    """
    account = Account(
        authority=check_url(request.authority, allow_plain_http=request.allow_plain_http),
        name="load",
        server="",
        tenant="",
        ca=None if request.ca is None else str(request.ca),
        allow_plain_http=request.allow_plain_http,
    )
    with Registry(account, patience=request.patience) as registry:
        home = registry.home()
        account = Account(**{**vars(account), "server": home.url, "tenant": home.tenant})
        crowd = {
            "account": account,
            "deployment": registry.deployment(),
            "collective_key": registry.public_key(),
        }
    if request.out is not None:
        _prepare_folder(request.out)
    with account.connect(account.server, patience=request.patience) as transport:
        run = _Run(request, crowd=crowd, server=transport, show=show)
        report = run.execute()
    report = {**_describe(request, server=home.url, tenant=home.tenant), **report}
    if request.out is not None:
        _merge(request.out)
        (request.out / REPORT).write_text(json.dumps(report, indent=2))
    return report


class _Run:
    """One run: its processes, what they tell, and what the server tells meanwhile."""

    def __init__(
        self,
        request: LoadRequest,
        *,
        crowd: dict[str, Any],
        server: Transport,
        show: Callable[[Moment], None] | None,
    ) -> None:
        self._request = request
        self._server = server
        self._show = show
        context = multiprocessing.get_context("spawn")
        self._inbox: Any = context.Queue()
        self._signals = Signals(
            alone=context.Event(),
            alone_over=context.Event(),
            together=context.Event(),
            stop=context.Event(),
        )
        name = secrets.token_hex(4)
        self._workers: list[Any] = []
        for process in range(min(request.processes, request.users)):
            mine = Crowd(
                process=process,
                run=name,
                numbers=tuple(range(process, request.users, request.processes)),
                problem=request.problem,
                seed=request.seed,
                patience=request.patience,
                allow_insecure=request.allow_insecure,
                out=request.out,
                **crowd,
            )
            arguments = {"signals": self._signals, "outbox": self._inbox}
            worker = context.Process(target=join_crowd, args=(mine,), kwargs=arguments, daemon=True)
            self._workers.append(worker)
        self._over: set[int] = set()
        self._alone_over = False
        self._interrupted = False
        self._enrolled = 0
        self._unsure = 0
        self._tally = Tally()
        self._metrics: Metrics | None = None
        self._samples: list[dict[str, Any]] = []
        self._sampled_at = 0.0
        self._started_at = time.monotonic()

    def execute(self) -> dict[str, Any]:
        """Enrol, play, and return what was measured."""
        report: dict[str, Any] = {}
        with _one_thread_each():
            for worker in self._workers:
                worker.start()
        try:
            self._phase("enrolling", lambda _: self._enrolled >= self._request.users)
            report["enrol_seconds"] = round(time.monotonic() - self._started_at, 3)
            if self._request.alone_seconds is not None:
                report["alone"] = self._play_alone(self._request.alone_seconds)
            if not self._interrupted:
                report["together"] = self._play_together()
        except KeyboardInterrupt:
            self._interrupted = True
        finally:
            self._stop()
        report["interrupted"] = self._interrupted
        report["unsure_rewards"] = self._unsure
        report["memory"] = self._samples
        alone, together = (report.get(name, {}) for name in ("alone", "together"))
        speeds = [each.get("rounds_per_second") for each in (together, alone)]
        report["speedup"] = speeds[0] / speeds[1] if all(speeds) else None
        return report

    # -- phases

    def _play_alone(self, seconds: float) -> dict[str, Any]:
        def end(spent: float) -> bool:
            if spent >= seconds:
                self._signals.alone_over.set()
            return self._alone_over

        return self._measure("one at a time", self._signals.alone, end)

    def _play_together(self) -> dict[str, Any]:
        def end(spent: float) -> bool:
            if spent >= self._request.seconds:
                self._signals.stop.set()
            return len(self._over) == len(self._workers)

        return self._measure("together", self._signals.together, end)

    def _measure(self, phase: str, begin: Any, end: Callable[[float], bool]) -> dict[str, Any]:
        """The report of a phase; one that is interrupted counts until then."""
        self._take(0.0)
        self._tally, before, start = Tally(), self._sample(), time.monotonic()
        begin.set()
        try:
            self._phase(phase, end)
        except KeyboardInterrupt:
            self._interrupted = True
            self._stop()
        report = self._tally.describe(seconds=time.monotonic() - start)
        after = self._sample()
        if before is not None and after is not None:
            report["server_cpu_seconds"] = {
                name: round(used - before.cpu_seconds.get(name, 0.0), 3)
                for name, used in after.cpu_seconds.items()
            }
        return report

    def _phase(self, name: str, end: Callable[[float], bool]) -> None:
        """Take in what the processes tell until the phase ends; even a short one is shown once."""
        start, shown_at = time.monotonic(), -math.inf
        while not end(time.monotonic() - start):
            self._take(SHOW_SECONDS)
            self._require_alive()
            now = time.monotonic()
            if now - self._sampled_at >= SAMPLE_SECONDS:
                self._sample()
            if self._show is not None and now - shown_at >= SHOW_SECONDS:
                shown_at = now
                self._show(
                    Moment(
                        phase=name,
                        seconds=now - start,
                        enrolled=self._enrolled,
                        tally=self._tally,
                        metrics=self._metrics,
                    )
                )

    # -- processes

    def _take(self, seconds: float) -> None:
        """Take in everything that was told, and wait `seconds` for the first of it."""
        with suppress(Empty):
            item = self._inbox.get(timeout=seconds) if seconds else self._inbox.get_nowait()
            while True:
                self._hear(*item)
                item = self._inbox.get_nowait()

    def _hear(self, process: int, kind: str, value: Any) -> None:
        if kind == "tally":
            self._tally.add(value)
        elif kind == "enrolled":
            self._enrolled += value
        elif kind == "unsure":
            self._unsure += value
        elif kind == "alone over":
            self._alone_over = True
        elif kind == "done":
            self._over.add(process)
        elif kind == "failed":
            raise RunFailed(f"a process of the load generator: {value}")

    def _require_alive(self) -> None:
        for number, worker in enumerate(self._workers):
            if worker.exitcode not in (None, 0):
                raise RunFailed(f"process {number} of the load generator died")

    def _stop(self) -> None:
        """Let every process finish its rounds, and end those that do not."""
        self._signals.stop.set()
        until = time.monotonic() + self._request.patience.deadline_seconds
        while len(self._over) < len(self._workers) and time.monotonic() < until:
            with suppress(RunFailed):
                self._take(SHOW_SECONDS)
            if not any(worker.is_alive() for worker in self._workers):
                break
        for worker in self._workers:
            worker.join(1.0)
            if worker.is_alive():
                worker.kill()
                worker.join()

    def _sample(self) -> Metrics | None:
        """What the server says of its processes now; None where it says nothing."""
        self._sampled_at = time.monotonic()
        try:
            page = self._server.request("GET", "metrics", deadline_seconds=METRIC_SECONDS)
            self._metrics = read_metrics(page.body.decode(errors="replace"))
        except HelbaError:
            return None
        if self._metrics.resident_bytes:
            at = round(self._sampled_at - self._started_at, 1)
            self._samples.append({"at": at, "server_bytes": dict(self._metrics.resident_bytes)})
        return self._metrics


def _describe(request: LoadRequest, *, server: str, tenant: str) -> dict[str, Any]:
    return {
        "authority": request.authority,
        "server": server,
        "tenant": tenant,
        "users": request.users,
        "processes": min(request.processes, request.users),
        "problem": request.problem,
        "seed": request.seed,
    }


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """An environment in which spawned processes use one core each."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _prepare_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("acknowledged*.jsonl"):
            path.unlink()
    except OSError as error:
        raise RunFailed(f"cannot write to {folder}: {error.strerror}") from error


def _merge(folder: Path) -> None:
    """Put what the processes wrote into one file."""
    parts = sorted(folder.glob("acknowledged-*.jsonl"))
    with (folder / ACKNOWLEDGED).open("w") as file:
        for part in parts:
            file.write(part.read_text())
            part.unlink()
