"""HELBA beside its alternatives on the paper's toy problem, in one run on one machine.

Regret is the mean over draws, played in the clear: HELBA by its plaintext twins, which play what
the encrypted runs play (those say how far they agree). Seconds and bytes of HELBA are measured on
the encrypted engine, on the first of these draws. A run that plays fewer rounds than the horizon is
planned for all of them; its cost over the horizon is that of its rounds and updates, with as many
updates as the twins had.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from helba.lab.reproduction.contention import say_disturbed
from helba.lab.reproduction.cost import split_cost
from helba.lab.reproduction.drawing.panel import (
    Curve,
    Panel,
    draw_panels,
    regret_curve,
    write_table,
)
from helba.lab.reproduction.part.privacy import (
    EPSILONS,
    NUMBER_BYTES,
    private_bytes,
    private_name,
    private_table,
    private_units,
)
from helba.lab.reproduction.part.toy import BONUSES, encrypted_unit
from helba.lab.reproduction.plaintext import clear_unit
from helba.lab.reproduction.play import command_of, play_single, run_of
from helba.lab.reproduction.scope import QUICK_SQRT_ROUNDS, Scope
from helba.lab.reproduction.section import Figure, Section, Table
from helba.lab.reproduction.unit import Results, Unit

PROBLEM, DIM, ARMS = "toy", 2, 2
SIMULATED_SECONDS = 5.0
PLAIN = ("helba", "helba-sqrt", "helba-paper", "oful", "oful-tuned", "uniform")


@dataclass(frozen=True, kw_only=True)
class Encrypted:
    """One encrypted run; `rounds` are those of a full and of a quick report, None for all.

    `options` change what it costs, never what it decides.
    """

    key: str
    label: str
    algorithm: str
    trust: str
    rounds: tuple[int | None, int | None]
    seconds: tuple[float, float] = (60.0, 60.0)
    options: dict[str, Any] = field(default_factory=dict)

    def count(self, scope: Scope) -> int:
        """Return how many rounds it plays."""
        wanted = self.rounds[scope.quick]
        return scope.horizon if wanted is None else min(wanted, scope.horizon)


TRUST = (
    "nobody with data; server, authority and users follow the protocol, and the server colludes "
    "with neither a user nor the authority"
)
ENCRYPTED = (
    Encrypted(
        key="ciphertext",
        label="HELBA, profile ciphertext",
        algorithm="helba",
        trust=f"{TRUST}; the server learns one bit a round at most",
        rounds=(40, 4),
        seconds=(120.0, 30.0),
    ),
    Encrypted(
        key="sqrt",
        label="HELBA, profile ciphertext, square-root bonus",
        algorithm="helba-sqrt",
        trust=f"{TRUST}; the server learns one bit a round at most",
        rounds=(None, QUICK_SQRT_ROUNDS),
    ),
    Encrypted(
        key="paper",
        label="HELBA, paper profile",
        algorithm="helba-paper",
        trust=f"{TRUST}; the server learns a number in [0, 1] a round",
        rounds=(20, 12),
        seconds=(100.0, 70.0),
    ),
)


def units(scope: Scope) -> list[Unit]:
    """Return the encrypted runs, which are timed, and those in the clear."""
    return [
        *(_encrypted_unit(run, scope=scope) for run in ENCRYPTED),
        *(_clear_unit(name, scope=scope) for name in PLAIN),
        *private_units(scope),
    ]


def assemble(results: Results, *, scope: Scope, folder: Path) -> Section:
    """Return the section; tables and figures go to `folder`."""
    tables = (
        _costs(results, scope=scope),
        _runs_table(results, scope=scope),
        private_table(results),
    )
    for table in tables:
        write_table(table, folder=folder)
    return Section(
        name="comparison",
        title="Comparison with plaintext and with local differential privacy",
        paragraphs=_paragraphs(results, scope=scope),
        tables=tables,
        figures=(_figure(results, scope=scope, folder=folder),),
        runs=[
            run_of(results[unit.name], title=unit.title, command=unit.command)
            for unit in units(scope)
        ],
    )


def plain_bytes(*, dim: int, arms: int) -> tuple[int, int]:
    """Return the bytes of a round in the clear, up and down: contexts and a reward, then an arm."""
    return NUMBER_BYTES * (arms * dim + 1), NUMBER_BYTES


def _encrypted_unit(run: Encrypted, *, scope: Scope) -> Unit:
    """Return the run: that of the toy problem's own sections where they have it, as is."""
    rounds = run.count(scope)
    if run.algorithm in BONUSES and not run.options:
        return encrypted_unit(run.algorithm, scope=scope, engine=scope.engine, rounds=rounds)
    arguments = {
        "problem": PROBLEM,
        "horizon": scope.horizon,
        "algorithm": run.algorithm,
        "engine": scope.engine,
        "seed": scope.seed,
        "rounds": rounds,
        **run.options,
    }
    return Unit(
        name=f"comparison-{run.key}-encrypted",
        title=f"{run.label}: {rounds} rounds, {scope.engine}",
        work=play_single,
        arguments=arguments,
        kind="ckks" if scope.really_encrypted else "light",
        seconds=run.seconds[scope.quick] if scope.really_encrypted else SIMULATED_SECONDS,
        command=command_of(arguments),
    )


def _timed(run: Encrypted, *, results: Results, scope: Scope) -> dict[str, Any]:
    return results[_encrypted_unit(run, scope=scope).name]


def _clear_unit(algorithm: str, *, scope: Scope) -> Unit:
    return clear_unit(
        f"comparison-clear-{algorithm}",
        problem=PROBLEM,
        horizon=scope.horizon,
        algorithm=algorithm,
        seed=scope.seed,
        repetitions=scope.repetitions,
    )


def _costs(results: Results, *, scope: Scope) -> Table:
    rows = [_encrypted_row(run, results=results, scope=scope) for run in ENCRYPTED]
    up, down = plain_bytes(dim=DIM, arms=ARMS)
    everything = "the server, with contexts, rewards and the model"
    labels = {
        "oful": ("OFUL in the clear, theoretical radius", up, down, everything),
        "oful-tuned": ("OFUL in the clear, tuned radius", up, down, everything),
    }
    for name, (label, sent, got, trust) in labels.items():
        found = results[f"comparison-clear-{name}"]
        rows.append(_plain_row(label, found, sent, got, "none", trust))
    for epsilon in EPSILONS:
        found = results[private_name(epsilon)]
        security = f"({epsilon:g}, {found['privacy_delta']:g})-LDP a report; no bits"
        trust = "nobody but the user's own device; what is private is spent with every report"
        sent, got = private_bytes(dim=DIM)
        rows.append(_plain_row(f"LDP, epsilon = {epsilon:g}", found, sent, got, security, trust))
    chance = results["comparison-clear-uniform"]
    rows.append(
        _plain_row("uniform choice (no learning)", chance, 0, 0, "nothing is sent", "nobody")
    )
    return Table(
        name="comparison",
        caption=(
            f"Toy problem, T = {scope.horizon}. Regret (of HELBA that of its plaintext twin, with "
            f"which the encrypted runs agree as the next table says): mean over "
            f"{scope.repetitions} draws (seeds "
            f"{scope.seed} to {scope.seed + scope.repetitions - 1}) ± standard error. Seconds and "
            "bytes a round count the updates' share. Bytes of HELBA are those of the messages, "
            "measured; in the clear a number counts 8 bytes: up K d contexts and a reward, down an "
            "arm; with LDP up x x^T and r x with noise, down estimate, inverse and radius. "
            "Seconds of "
            "HELBA are those of all parties in one process: no network, and no set-up."
        ),
        columns=(
            "algorithm",
            "regret",
            "± se",
            "seconds a round",
            "bytes up a round",
            "bytes down a round",
            "security",
            "who must be trusted with what",
            "how the cost was found",
        ),
        rows=rows,
    )


def _encrypted_row(run: Encrypted, *, results: Results, scope: Scope) -> list[Any]:
    timed = _timed(run, results=results, scope=scope)
    twin = results[f"comparison-clear-{run.algorithm}"]
    cost = split_cost(timed["rows"])
    updates, rounds = twin["updates"], timed["rounds"]
    whole = rounds == scope.horizon
    if whole:
        seconds = timed["seconds_per_round"]
        up, down = timed["bytes_up_per_round"], timed["bytes_down_per_round"]
        how = f"measured over all {rounds} rounds"
    else:
        seconds = cost.seconds_per_round(updates=updates, horizon=scope.horizon)
        up, down = cost.bytes_per_round(updates=updates, horizon=scope.horizon)
        how = f"{rounds} rounds measured, {cost.updates} with an update; computed for all"
        if up is None or down is None:
            up, down = timed["bytes_up_per_round"], timed["bytes_down_per_round"]
            how += "; bytes are those of rounds with an update each"
    security = f"{timed['security']} bits"
    if timed["nothing_was_encrypted"]:
        security = "none: simulated, nothing was encrypted"
        how = f"simulated, no ciphertexts; {how}"
    return [
        run.label,
        twin["regret"],
        twin["regret_se"],
        seconds,
        up,
        down,
        security,
        run.trust,
        how,
    ]


def _plain_row(
    label: str, found: dict[str, Any], sent: int, got: int, security: str, trust: str
) -> list[Any]:
    how = f"mean of {found['repetitions']} draws, all rounds, one thread"
    cost = [found["seconds_per_round"], sent, got]
    return [label, found["regret"], found["regret_se"], *cost, security, trust, how]


def _runs_table(results: Results, *, scope: Scope) -> Table:
    columns = (
        "encrypted run",
        "engine",
        "rounds",
        "updates",
        "agreement with the twin",
        "disagreements outside ties",
        "regret of this draw",
        "seconds of a round without update",
        "seconds of an update",
        "seconds to set up",
    )
    rows = []
    for run in ENCRYPTED:
        timed = _timed(run, results=results, scope=scope)
        rows.append(
            [
                run.label,
                timed["engine"],
                timed["rounds"],
                timed["updates"],
                timed["agreement"],
                timed["disagreements_outside_ties"],
                timed["regret"],
                timed["seconds_per_round_without_updates"],
                timed["seconds_per_update"],
                timed["seconds_setup"],
            ]
        )
    caption = "The runs behind seconds and bytes, on the first draw, each with its twin beside it."
    return Table(name="comparison-runs", caption=caption, columns=columns, rows=rows)


def _paragraphs(results: Results, *, scope: Scope) -> list[str]:
    chance = results["comparison-clear-uniform"]["regret"]
    shares = [results[private_name(epsilon)]["regret"] / chance for epsilon in EPSILONS]
    quadratic, oful = (results[f"comparison-clear-{name}"]["regret"] for name in ("helba", "oful"))
    paragraphs = [
        (
            f"All on one machine. Over {scope.horizon} rounds HELBA (profile ciphertext) has a "
            f"mean regret of {quadratic:.3g}, OFUL in the clear {oful:.3g}: the quadratic bonus "
            f"explores less, encryption has no part in it. LDP has between {min(shares):.1%} and "
            f"{max(shares):.1%} of the regret of choosing at random, within its standard error: "
            "at this horizon its radius is so large that the estimate hardly matters, whatever "
            "epsilon is. Its noise is scaled to the bound L that everybody is told, 5.5 in the "
            "paper, and no context of this problem is longer than the square root of 2: a better "
            "bound would help it more than the others. What LDP protects differs: each report is "
            "private by itself and nobody need be trusted, while encryption hides everything but "
            "the stated bits from a server that follows the "
            "protocol, and adds no noise on purpose to what the model learns from."
        )
    ]
    if any(run.count(scope) < scope.horizon for run in ENCRYPTED):
        paragraphs.append(
            "Encrypted runs that stop early are planned for the whole horizon. Early rounds update "
            "the model nearly every time, so a round and an update are timed apart and put "
            "together with the number of updates that the twins had; the last column says so."
        )
    if not scope.really_encrypted:
        paragraphs.append(
            "This report was made with the simulator: nothing was encrypted, and seconds and bytes "
            "of HELBA are not those of ciphertexts."
        )
    timed = {run.label: _timed(run, results=results, scope=scope) for run in ENCRYPTED}
    return paragraphs + say_disturbed(timed)


def _figure(results: Results, *, scope: Scope, folder: Path) -> Figure:
    means = [
        regret_curve(name, results[f"comparison-clear-{name}"]["rows"], style=name)
        for name in PLAIN
    ]
    means += [
        regret_curve(f"ldp, ε = {epsilon:g}", results[private_name(epsilon)]["rows"], style="ldp")
        for epsilon in (EPSILONS[0], EPSILONS[-1])
    ]
    engine = "CKKS" if scope.really_encrypted else "simulated"
    first: list[Curve] = []
    for run in ENCRYPTED:
        if run.options:
            continue  # the same decisions, at another cost
        rows = _timed(run, results=results, scope=scope)["rows"]
        first.append(
            regret_curve(f"{run.algorithm}, {engine}", rows, style=run.algorithm, wide=True)
        )
    for name in ("helba", "helba-sqrt", "helba-paper", "oful", "oful-tuned"):
        rows = results[f"comparison-clear-{name}"]["rows"]
        label = f"{name}, in the clear"
        first.append(regret_curve(label, rows, style=name, column="first_regret"))
    return draw_panels(
        [
            Panel(
                curves=means,
                title=f"mean of {scope.repetitions} draws ± 2 se",
                y="cumulative regret",
            ),
            Panel(
                curves=first, title=f"the draw of seed {scope.seed} alone", y="cumulative regret"
            ),
        ],
        name="comparison-regret",
        title=f"toy problem, T = {scope.horizon}",
        caption=(
            "Cumulative regret on the toy problem. Left: means over draws, in the clear, with "
            "bands of two standard errors. Right: the encrypted runs (wide and pale, as far as "
            "they went) and plaintext algorithms on one draw."
        ),
        folder=folder,
    )
