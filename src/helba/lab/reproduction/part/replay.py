"""Real data on ciphertexts: handwritten digits, replayed, beside the same in the clear.

The encrypted run and the algorithms in the clear see the same images in the same order. Which arm
is right is data and not a model: no bound applies, and regret counts mistakes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from helba.lab.reproduction.contention import say_disturbed
from helba.lab.reproduction.drawing.panel import Panel, draw_panels, regret_curve, write_table
from helba.lab.reproduction.plaintext import clear_unit
from helba.lab.reproduction.play import command_of, play_single, run_of
from helba.lab.reproduction.scope import Scope
from helba.lab.reproduction.section import Figure, Section, Table
from helba.lab.reproduction.unit import Results, Unit

PROBLEM = "replay"
# The whole problem: all ten labels, and as many components as it offers.
DIM, ARMS = 16, 10
HORIZON, QUICK_ROUNDS = 200, 10
PLAIN = {
    "helba": "HELBA, in the clear",
    "oful": "OFUL, theoretical radius",
    "oful-tuned": "OFUL, tuned radius",
    "uniform": "uniform choice",
}
ENCRYPTED = "replay-encrypted"
# Expected on two cores: set-up, and a round with its share of updates.
SETUP_SECONDS, ROUND_SECONDS, EARLY_SECONDS = 15.0, 2.0, 5.0


def units(scope: Scope) -> list[Unit]:
    """Return the encrypted run and those in the clear."""
    return [_encrypted_unit(scope), *(_clear_unit(name, scope=scope) for name in PLAIN)]


def assemble(results: Results, *, scope: Scope, folder: Path) -> Section:
    """Return the section; the table and the figure go to `folder`."""
    table = _table(results, scope=scope)
    write_table(table, folder=folder)
    return Section(
        name="replay",
        title="Real data: handwritten digits",
        paragraphs=_paragraphs(results[ENCRYPTED], scope=scope),
        tables=(table,),
        figures=(_figure(results, scope=scope, folder=folder),),
        runs=[
            run_of(results[unit.name], title=unit.title, command=unit.command)
            for unit in units(scope)
        ],
    )


def _rounds(scope: Scope) -> int:
    return QUICK_ROUNDS if scope.quick else HORIZON


def _engine(scope: Scope) -> str:
    return "CKKS" if scope.really_encrypted else "simulator"


def _encrypted_unit(scope: Scope) -> Unit:
    rounds = _rounds(scope)
    arguments = {
        "problem": PROBLEM,
        "dim": DIM,
        "arms": ARMS,
        "horizon": HORIZON,
        "engine": scope.engine,
        "seed": scope.seed,
        "rounds": rounds,
    }
    seconds = SETUP_SECONDS + rounds * (EARLY_SECONDS if scope.quick else ROUND_SECONDS)
    return Unit(
        name=ENCRYPTED,
        title=f"HELBA on handwritten digits: {rounds} rounds, {scope.engine}",
        work=play_single,
        arguments=arguments,
        kind="ckks" if scope.really_encrypted else "light",
        seconds=seconds if scope.really_encrypted else 5.0,
        command=command_of(arguments),
    )


def _clear_unit(algorithm: str, *, scope: Scope) -> Unit:
    return clear_unit(
        f"replay-clear-{algorithm}",
        problem=PROBLEM,
        horizon=HORIZON,
        algorithm=algorithm,
        seed=scope.seed,
        repetitions=scope.repetitions,
        dim=DIM,
        arms=ARMS,
    )


def _table(results: Results, *, scope: Scope) -> Table:
    played = results[ENCRYPTED]
    rounds = played["rounds"]
    rows: list[list[Any]] = [
        [
            f"HELBA, {_engine(scope)}",
            played["regret"],
            None,
            None,
            played["updates"],
            played["agreement"],
            played["disagreements_outside_ties"],
            played["seconds_per_round"],
            played["bytes_up_per_round"] + played["bytes_down_per_round"],
        ]
    ]
    for name, label in PLAIN.items():
        found = results[f"replay-clear-{name}"]
        same = _regret_after(found["rows"], rounds=rounds)
        rows.append(
            [
                label,
                same,
                found["regret"],
                found["regret_se"],
                found["updates"],
                None,
                None,
                found["seconds_per_round"],
                None,
            ]
        )
    return Table(
        name="replay",
        caption=(
            f"Handwritten digits, d = {DIM}, K = {ARMS}. Mistakes of the first {rounds} rounds on "
            f"the draw of seed {scope.seed}, which the encrypted run played; and of {HORIZON} "
            f"rounds in the clear, mean over {scope.repetitions} draws ± standard error. Updates, "
            "seconds and bytes are those of the run itself, or means over the draws."
        ),
        columns=(
            "algorithm",
            f"mistakes in {rounds} rounds, this draw",
            f"mistakes in {HORIZON} rounds, mean",
            "± se",
            "updates",
            "agreement with the twin",
            "disagreements outside ties",
            "seconds a round",
            "bytes a round",
        ),
        rows=rows,
    )


def _regret_after(rows: list[dict[str, Any]], *, rounds: int) -> float:
    """Return the regret of the first draw after so many rounds."""
    return float(next(row["first_regret"] for row in rows if row["round"] == rounds))


def _paragraphs(played: dict[str, Any], *, scope: Scope) -> list[str]:
    rounds, regret = played["rounds"], played["regret"]
    paragraphs = [
        (
            "A user sees an image and is to be told its digit; the server learns from right and "
            f"wrong answers that it cannot read. The whole problem is played: {ARMS} labels, "
            f"{DIM} principal components. A linear model cannot equal a reward of 0 or 1, so the "
            "model is misspecified on purpose and no regret bound applies."
        ),
        (
            f"Over {rounds} rounds on {_engine(scope)} HELBA made {regret:.0f} mistakes, with "
            f"{played['updates']} updates of the model; its plaintext twin, on the same history, "
            f"played the same arm in {played['agreement']:.1%} of the rounds, and "
            f"{played['disagreements_outside_ties']} differed outside certified ties. The tuned "
            "radius of OFUL was tuned on other orders of the same images."
        ),
    ]
    if rounds < HORIZON:
        paragraphs.append(
            f"A quick report plays {rounds} rounds of a run that is planned for {HORIZON}; those "
            "in the clear play them all."
        )
    if not scope.really_encrypted:
        paragraphs.append("This run was simulated: nothing was encrypted.")
    return paragraphs + say_disturbed({"the encrypted run": played})


def _figure(results: Results, *, scope: Scope, folder: Path) -> Figure:
    played = results[ENCRYPTED]["rows"]
    encrypted = regret_curve(f"HELBA, {_engine(scope)}", played, style="rsoful", wide=True)
    found = {name: results[f"replay-clear-{name}"]["rows"] for name in PLAIN}
    draw = [
        regret_curve(PLAIN[name], rows, style=name, column="first_regret")
        for name, rows in found.items()
    ]
    means = [regret_curve(PLAIN[name], rows, style=name) for name, rows in found.items()]
    return draw_panels(
        [
            Panel(
                curves=[encrypted, *draw],
                title=f"the draw of seed {scope.seed}",
                y="mistakes so far",
            ),
            Panel(
                curves=means, title=f"mean of {scope.repetitions} draws ± 2 se", y="mistakes so far"
            ),
        ],
        name="replay-regret",
        title=f"handwritten digits, d = {DIM}, K = {ARMS}",
        caption=(
            f"Mistakes so far. Left: the run on {_engine(scope)} (wide and pale) and algorithms in "
            "the clear on the same images. Right: means over draws, in the clear."
        ),
        folder=folder,
    )
