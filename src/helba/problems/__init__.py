"""Problems to learn on: the paper's toy, synthetic linear problems, a replay of real data."""

from __future__ import annotations

from collections.abc import Callable

from helba.errors import require_choice
from helba.problems.problem import Problem, Round
from helba.problems.replay import Replay
from helba.problems.synthetic import FixedArms, Synthetic
from helba.problems.toy import Toy

__all__ = ["PROBLEMS", "Problem", "Round", "make_problem"]

_MAKERS: dict[str, Callable[..., Problem]] = {
    problem.name: problem for problem in (Toy, Synthetic, FixedArms, Replay)
}

PROBLEMS = tuple(_MAKERS)


def make_problem(
    name: str, *, dim: int | None = None, arms: int | None = None, seed: int = 0
) -> Problem:
    """Return the problem called `name`; sizes that are not given are the problem's own.

    Raise `InvalidInput` for a name that is not in `PROBLEMS`, a size that the problem cannot have,
    or a negative seed. The same arguments give the same rounds.
    """
    require_choice("problem", name, PROBLEMS)
    return _MAKERS[name](dim=dim, arms=arms, seed=seed)
