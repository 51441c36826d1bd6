"""HELBA at every level of security: the units that Figure 2 and Table 1 share."""

from __future__ import annotations

from dataclasses import dataclass

from helba.lab.reproduction.part.toy import Play, encrypted_unit, play_of
from helba.lab.reproduction.scope import KAPPAS, Scope
from helba.lab.reproduction.unit import Results, Unit


@dataclass(frozen=True, kw_only=True)
class LevelPlay:
    """The rounds that were played at one level; `seconds` are those of the parties up to there."""

    kappa: int
    play: Play
    seconds: float
    round_seconds: float
    update_seconds: float

    @property
    def rounds(self) -> int:
        """The number of rounds that were played."""
        return len(self.play.arms)

    @property
    def updates(self) -> int:
        """The number of updates in them."""
        return self.play.updates[-1]


def level_units(scope: Scope) -> dict[int, Unit]:
    """Return the unit of each level; that of 128 bits is Figure 1's first one if it is encrypted.

    Its first rounds serve where the other levels play fewer.
    """
    return {
        kappa: encrypted_unit(
            "helba",
            scope=scope,
            engine=scope.engine,
            security=kappa,
            rounds=None if kappa == 128 and scope.encrypted_repetitions else scope.kappa_rounds,
        )
        for kappa in KAPPAS
    }


def level_plays(results: Results, *, scope: Scope) -> list[LevelPlay]:
    """Return the same rounds at every level."""
    count = scope.kappa_rounds
    found = []
    for kappa, unit in level_units(scope).items():
        play = play_of(unit, results=results)
        spent = results[unit.name]["rows"][count - 1]
        found.append(
            LevelPlay(
                kappa=kappa,
                play=Play(
                    algorithm=play.algorithm,
                    engine=play.engine,
                    seed=play.seed,
                    arms=play.arms[:count],
                    regrets=play.regrets[:count],
                    updates=play.updates[:count],
                    report=play.report,
                ),
                seconds=spent["seconds"],
                round_seconds=spent["round_seconds"],
                update_seconds=spent["update_seconds"],
            )
        )
    return found


def say_how_much(scope: Scope) -> str:
    """Return which rounds were played, and on what."""
    part = f"all {scope.horizon} rounds"
    if scope.kappa_rounds < scope.horizon:
        part = (
            f"the first {scope.kappa_rounds} of {scope.horizon} rounds only, which nearly all "
            "update the model: a quick reproduction spares the rest. Parameters are those of the "
            "whole horizon"
        )
    if scope.really_encrypted:
        where = "One draw of the toy problem on CKKS ciphertexts at every level of security"
    else:
        where = "One draw of the toy problem in the simulator, nothing encrypted, at every level"
    return f"{where}: {part}."
