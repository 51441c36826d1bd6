"""One run for people: what it did, what it cost, and the other algorithms on the same draw."""

from __future__ import annotations

from helba.lab.play.single import SingleRun
from helba.lab.report import flatten, print_table


def print_run(run: SingleRun) -> None:
    """Print the report as a table, and a comparison if others played beside."""
    report = run.as_json()
    beside = report.pop("beside")
    rows = [(name, value) for name, value in flatten(report).items() if value is not None]
    print_table(None, columns=("", ""), rows=rows)
    if not beside:
        return
    own = {name: report[name] for name in ("regret", "updates", "seconds")}
    print_table(
        f"{run.request.problem}, {run.request.horizon} rounds, seed {run.request.seed}",
        columns=("algorithm", *own),
        rows=[
            (run.request.label, *own.values()),
            *((f"{name}, in the clear", *found.values()) for name, found in beside.items()),
        ],
    )
    if run.rows is not None:
        print(f"rows: {run.rows}")
    if run.plot is not None:
        print(f"plot: {run.plot}")
