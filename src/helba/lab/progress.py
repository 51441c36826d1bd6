"""Progress of a long run, on stderr: a live bar in a terminal, a few plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

SECONDS_BETWEEN_LINES = 5.0
MOST_SECONDS_WITHOUT_A_LINE = 30.0
SECONDS_BETWEEN_STATES = 0.1


def note(text: str) -> None:
    """Say one line on stderr, if there is one."""
    if sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


class Progress:
    """Counts up to `total`; use it as a context manager and call `advance`.

    Where stderr is not a terminal it prints a line at most every 5 s and every tenth of the way (on
    a long way every 30 s), so that a short run prints none.
    """

    def __init__(self, title: str, *, total: int, unit: str) -> None:
        self._title = title
        self._total = total
        self._unit = unit
        self._done = 0
        self._said = 0
        self._said_at = time.monotonic()
        self._bar: Bar | None = None

    def __enter__(self) -> Progress:
        if sys.stderr is not None and sys.stderr.isatty() and self._total:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(self._unit),
                TimeRemainingColumn(),
                TextColumn("{task.fields[state]}"),
                console=Console(stderr=True),
                transient=True,
            )
            with _stopping(self._bar):
                self._task = self._bar.add_task(self._title, total=self._total, state="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, count: int = 1, *, describe: Callable[[], str] | None = None) -> None:
        """Count `count` more steps as done; `describe` is asked for a few words when it shows."""
        self._done += count
        now = time.monotonic()
        waited = now - self._said_at
        if self._bar is not None:
            self._bar.advance(self._task, count)
            if describe is not None and waited >= SECONDS_BETWEEN_STATES:
                self._bar.update(self._task, state=describe())
                self._said_at = now
        elif waited >= SECONDS_BETWEEN_LINES and (
            (self._done - self._said) * 10 >= self._total or waited >= MOST_SECONDS_WITHOUT_A_LINE
        ):
            text = f"{self._title}: {self._done} of {self._total} {self._unit}"
            note(text if describe is None else f"{text}: {describe()}")
            self._said, self._said_at = self._done, now


class WorkProgress:
    """Counts pieces of work of unequal length; use it as a context manager.

    Every finished piece is a line where stderr is not a terminal: they are few, and each may have
    taken minutes. `estimate` returns the seconds left.
    """

    def __init__(self, title: str, *, total: int, unit: str, estimate: Callable[[], float]) -> None:
        self._title = title
        self._total = total
        self._unit = unit
        self._estimate = estimate
        self._done = 0
        self._bar: Bar | None = None

    def __enter__(self) -> WorkProgress:
        if sys.stderr is not None and sys.stderr.isatty() and self._total:
            self._bar = Bar(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn(self._unit),
                TextColumn("{task.fields[left]}"),
                TextColumn("{task.fields[state]}"),
                console=Console(stderr=True),
                transient=True,
            )
            left = self._describe_left()
            with _stopping(self._bar):
                self._task = self._bar.add_task(self._title, total=self._total, left=left, state="")
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def start(self, text: str) -> None:
        """Say what begins now."""
        if self._bar is not None:
            self._bar.update(self._task, state=text)
        else:
            note(f"{self._title}: {text}, {self._describe_left()}")

    def finish(self, text: str) -> None:
        """Count one more piece as done, and say which."""
        self._done += 1
        if self._bar is not None:
            self._bar.advance(self._task)
            self._bar.update(self._task, left=self._describe_left(), state=text)
        else:
            done = f"{self._done} of {self._total} {self._unit}"
            note(f"{self._title}: {done}, {self._describe_left()}; {text}")

    def say(self, text: str) -> None:
        """Say how far the piece is that is being worked on."""
        if self._bar is not None:
            self._bar.update(self._task, left=self._describe_left(), state=text)
        else:
            note(f"  {text}")

    def tick(self) -> None:
        """Show the time left anew, where it is shown all the time."""
        if self._bar is not None:
            self._bar.update(self._task, left=self._describe_left())

    def _describe_left(self) -> str:
        return f"about {describe_seconds(self._estimate())} left"


@contextlib.contextmanager
def _stopping(bar: Bar) -> Iterator[None]:
    """Start the bar, and stop it again if that is interrupted: the cursor is hidden while it is."""
    try:
        bar.start()
        yield
    except BaseException:
        bar.stop()
        raise


def describe_seconds(seconds: float) -> str:
    """Return a length of time as people say it: 40 s, 12 min, 3 h 5 min."""
    if seconds < 99.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    if minutes < 100:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
