from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from helba.bandits.policy import Decision, Policy
from helba.errors import RunFailed
from helba.lab.algorithm import ALGORITHMS
from helba.lab.rows import COLUMNS, read_column, write_rows
from helba.lab.runner import policy_for, run_policy, run_repetition, settings_for
from helba.problems import Problem, Round, make_problem


class Spiky(Problem):
    """Two arms with means 0 and 1; every third reward of the first is far out of range."""

    name = "spiky"
    dim = 1
    arms = 2
    length = 1.0
    parameter_bound = 1.0
    noise = 1.0
    reward_max = 2.0

    def rounds(self, horizon: int) -> Iterator[Round]:
        for index in range(horizon):
            spike = 50.0 if index % 3 == 0 else 0.5
            yield Round(
                contexts=np.array([[0.0], [1.0]]),
                means=np.array([0.0, 1.0]),
                rewards=np.array([spike, -spike]),
            )


class First(Policy):
    """Always plays the first arm, and says that an exact policy would have played the second."""

    def _choose(self, contexts: np.ndarray) -> int:  # noqa: ARG002
        self.decision = Decision(arm=0, exact_arm=self.round % 2, gap=1.0, loss=0.0, tolerance=2.0)
        return 0

    def _learn(self, context: np.ndarray, reward: float) -> None:
        self.seen = [*getattr(self, "seen", []), (float(context[0]), reward)]
        self.updates += 1


def first_on_spiky(*, horizon: int) -> tuple[Spiky, First]:
    problem = Spiky()
    return problem, First(settings_for(problem, horizon=horizon))


def test_runner_clips_rewards_before_the_policy_sees_them():
    problem, policy = first_on_spiky(horizon=6)
    rows = list(run_policy(problem, policy, horizon=6))
    assert [reward for _, reward in policy.seen] == [2.0, 0.5, 0.5, 2.0, 0.5, 0.5]
    assert [row.reward for row in rows] == [2.0, 0.5, 0.5, 2.0, 0.5, 0.5]
    assert [row.clipped for row in rows] == [1, 1, 1, 2, 2, 2]


def test_runner_regret_adds_up_the_gaps_of_the_means():
    problem, policy = first_on_spiky(horizon=6)
    assert [row.regret for row in run_policy(problem, policy, horizon=6)] == [1, 2, 3, 4, 5, 6]


def test_runner_counts_agreement_and_ties():
    problem, policy = first_on_spiky(horizon=6)
    rows = []
    outcome = run_repetition(problem, policy, horizon=6, watch=rows.append)
    assert [row.agrees for row in rows] == [False, True] * 3
    assert (outcome.decided, outcome.agreed, outcome.ties) == (6, 3, 6)
    assert outcome.agreement == 0.5
    assert outcome.updates == 6
    assert outcome.clipped == 2


def test_runner_policy_without_counterpart_has_no_agreement():
    problem = make_problem("toy")
    policy = policy_for("uniform", settings=settings_for(problem, horizon=10), problem_seed=0)
    rows = []
    outcome = run_repetition(problem, policy, horizon=10, watch=rows.append)
    assert {row.agrees for row in rows} == {None}
    assert outcome.agreement is None


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_runner_rows_repeat_for_the_same_seed(algorithm):
    def play() -> list[object]:
        problem = make_problem("toy", seed=7)
        settings = settings_for(problem, horizon=25)
        policy = policy_for(algorithm, settings=settings, problem_seed=7)
        return list(run_policy(problem, policy, horizon=25))

    assert play() == play()


def test_rows_on_disk_give_every_number_back(tmp_path):
    problem, policy = first_on_spiky(horizon=6)
    rows = list(run_policy(problem, policy, horizon=6))
    path = tmp_path / "deep" / "rows.csv"
    write_rows(path, rows=rows)
    for column in COLUMNS:
        expected = [float(getattr(row, column)) for row in rows]
        assert read_column(path, column=column).tolist() == expected
    assert [entry.name for entry in path.parent.iterdir()] == ["rows.csv"]


def test_rows_that_are_damaged_name_their_file(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("round,regret\n1\n")
    with pytest.raises(RunFailed, match=r"rows\.csv"):
        read_column(path, column="regret")
