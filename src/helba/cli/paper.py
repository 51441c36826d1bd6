"""`helba paper`: what the paper says, recomputed."""

from __future__ import annotations

from typing import Annotated

import typer

from helba.cli.options import Json, whole_number

__all__ = ["app"]

app = typer.Typer(help="What the paper says, recomputed.")


@app.callback()
def start_paper() -> None:
    """What the paper says, recomputed."""


@app.command("depth")
def paper_depth(
    number: Annotated[int, whole_number("--round", text="the round it is computed for")] = 130,
    dim: Annotated[int, whole_number(text="features of an arm")] = 2,
    arms: Annotated[int, whole_number(text="arms of a round")] = 2,
    as_json: Json = False,
) -> None:
    """Show how many levels each step of the paper's algorithm needs in a round."""
    from helba.experiments.depth import tabulate_depth
    from helba.experiments.report import print_json, print_table

    rows = tabulate_depth(number, dim=dim, arms=arms)
    if as_json:
        print_json({"round": number, "dim": dim, "arms": arms, "steps": rows})
    else:
        columns = ("step", "iterations", "levels", "note")
        values = [[row[column] for column in columns] for row in rows]
        print_table(f"round {number}, d = {dim}, K = {arms}", columns=columns, rows=values)
