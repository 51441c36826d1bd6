"""`helba paper`: what the paper says, recomputed."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from helba.lab.command.completion import values_of
from helba.lab.command.options import Jobs, Json, Repetitions, Seed, whole_number

app = typer.Typer(help="Recompute what the paper says.")

DEFAULT_OUT = Path("results") / "paper"
SECTIONS = {
    "figure1": "Figure 1: regret on the toy problem, in the clear and encrypted.",
    "figure2": "Figure 2: regret at 128, 192 and 256 bits of security, encrypted.",
    "table1": "Table 1: time at 128, 192 and 256 bits of security, encrypted.",
    "bounds": "Bounds on updates and regret beside observations, and the paper's depth.",
    "comparison": "HELBA beside plaintext and local differential privacy.",
    "scaling": "How time and bytes grow with features and arms.",
    "replay": "A replay of logged data.",
}
# Options that a section does not read: its command has none of them.
UNREAD = {
    "figure2": {"repetitions"},
    "table1": {"repetitions"},
    "comparison": {"encrypted"},
    "scaling": {"repetitions", "horizon", "encrypted"},
    "replay": {"horizon", "encrypted"},
}

Out = Annotated[
    Path, typer.Option(help="folder for the report and all it is made of; resumes what it holds")
]
Quick = Annotated[
    bool, typer.Option("--quick", help="within 15 minutes on 2 cores: spares ciphertexts")
]
Rounds = Annotated[int, whole_number("--horizon", text="rounds of the toy problem")]
Encrypted = Annotated[
    int | None,
    whole_number(
        text="repetitions of Figure 1 on ciphertexts, the rest simulated: 2, or 1 if quick"
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        help="ckks, or simulate: nothing is encrypted, where OpenFHE is not at hand",
        autocompletion=values_of("engine", but=("plain",)),
    ),
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="make again what another version made")
]


@app.callback()
def start_paper() -> None:
    """Recompute what the paper says."""


@app.command("depth")
def paper_depth(
    number: Annotated[int, whole_number("--round", text="the round it is computed for")] = 130,
    dim: Annotated[int, whole_number(text="features of an arm")] = 2,
    arms: Annotated[int, whole_number(text="arms of a round")] = 2,
    as_json: Json = False,
) -> None:
    """Show how many levels each step of the paper's algorithm needs in a round."""
    from helba.lab.plan.depth import tabulate_depth
    from helba.lab.report import print_json, print_table

    rows = tabulate_depth(number, dim=dim, arms=arms)
    if as_json:
        print_json({"round": number, "dim": dim, "arms": arms, "steps": rows})
    else:
        columns = ("step", "iterations", "levels", "note")
        values = [[row[column] for column in columns] for row in rows]
        print_table(f"round {number}, d = {dim}, K = {arms}", columns=columns, rows=values)


def _command(names: Sequence[str], *, text: str) -> Any:
    """Return the command that reproduces these sections; it has the options that they read."""

    def reproduce_sections(
        out: Out = DEFAULT_OUT,
        quick: Quick = False,
        engine: Engine = "ckks",
        repetitions: Repetitions = 25,
        horizon: Rounds = 130,
        encrypted: Encrypted = None,
        seed: Seed = 0,
        jobs: Jobs = None,
        overwrite: Overwrite = False,
        as_json: Json = False,
    ) -> None:
        from helba.lab.report import print_json, print_table
        from helba.lab.reproduction.run import reproduce
        from helba.lab.reproduction.scope import Scope, ciphertext_repetitions

        wanted = encrypted
        if wanted is None:
            wanted = ciphertext_repetitions(quick=quick, repetitions=repetitions)
        scope = Scope(
            quick=quick,
            seed=seed,
            repetitions=repetitions,
            horizon=horizon,
            encrypted_repetitions=wanted,
            engine=engine,
        )
        report = reproduce(names, scope=scope, out=out, jobs=jobs, overwrite=overwrite)
        if as_json:
            print_json(report)
            return
        for section in report["sections"]:
            for table in section["tables"]:
                print_table(table["caption"], columns=table["columns"], rows=table["rows"])
        print(f"report: {out / report['report']}")

    unread = set.intersection(*(UNREAD.get(name, set()) for name in names))
    signature = inspect.signature(reproduce_sections, eval_str=True)
    read = [option for name, option in signature.parameters.items() if name not in unread]
    command: Any = reproduce_sections
    command.__doc__, command.__signature__ = text, signature.replace(parameters=read)
    return command


for _name, _text in SECTIONS.items():
    app.command(_name)(_command([_name], text=_text))
app.command("all")(_command(list(SECTIONS), text="All of it, as one report."))
