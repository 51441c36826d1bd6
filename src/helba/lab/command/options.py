"""Options that several commands share. Numbers are parsed here, so that an error is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from helba.lab.algorithm import ALGORITHMS
from helba.lab.command.completion import Completion, values_of

NAMES = ", ".join(ALGORITHMS)
TOY_HORIZON = 130
HORIZON = 1000


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a whole number") from None


def whole_number(
    name: str | None = None, *, text: str, completion: Completion | None = None
) -> Any:
    """Return an option that is a whole number."""
    names = [] if name is None else [name]
    return typer.Option(
        *names, help=text, parser=_whole, metavar="NUMBER", autocompletion=completion
    )


ProblemName = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="toy, synthetic, fixed-arms or replay",
        autocompletion=values_of("problem"),
    ),
]
Dim = Annotated[int | None, whole_number(text="features of an arm")]
Arms = Annotated[int | None, whole_number(text="arms of a round")]
Horizon = Annotated[
    int | None,
    whole_number(text=f"rounds: {TOY_HORIZON} on toy and {HORIZON} elsewhere unless told"),
]
Repetitions = Annotated[int, whole_number(text="draws of the problem")]
Security = Annotated[
    int,
    whole_number(text="bits of security: 128, 192 or 256", completion=values_of("security")),
]
Schedule = Annotated[
    str,
    typer.Option(
        help="when models are updated: trace, by tests, or public, by counts alone",
        autocompletion=values_of("schedule"),
    ),
]
Growth = Annotated[
    float,
    typer.Option(help="update at the latest when rounds have grown by this share", metavar="SHARE"),
]
Seed = Annotated[int, whole_number(text="fixes the problem, the rounds and the luck")]
Jobs = Annotated[int | None, whole_number(text="processes: one a core unless told")]
Out = Annotated[Path | None, typer.Option(help="folder for rows and plot")]
Json = Annotated[bool, typer.Option("--json", help="print exactly one JSON object")]


def choose_horizon(given: int | None, *, problem: str) -> int:
    """Return the horizon that was given, or that of the problem."""
    return given if given is not None else TOY_HORIZON if problem == "toy" else HORIZON


def split(names: str) -> tuple[str, ...]:
    """Return the names between commas."""
    return tuple(name.strip() for name in names.split(",") if name.strip())
