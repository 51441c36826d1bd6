"""Linear contextual bandits that learn from data nobody can read.

A few lines run a policy on a problem:

    problem = helba.make_problem("toy", seed=0)
    policy = helba.make_policy("helba", settings=helba.settings_for(problem, horizon=130))
    for round in problem.rounds(130):
        arm = policy.select(round.contexts)
        policy.update(round.contexts[arm], round.rewards[arm])

Importing helba loads neither OpenFHE nor matplotlib nor scikit-learn.
"""

from __future__ import annotations

from importlib.metadata import version

from helba.bandits import ALGORITHMS, Policy, Settings, make_policy
from helba.errors import HelbaError, InvalidInput, RunFailed
from helba.experiments.runner import run_policy, settings_for
from helba.problems import PROBLEMS, Problem, Round, make_problem

__version__ = version("helba")

__all__ = [
    "ALGORITHMS",
    "PROBLEMS",
    "HelbaError",
    "InvalidInput",
    "Policy",
    "Problem",
    "Round",
    "RunFailed",
    "Settings",
    "__version__",
    "make_policy",
    "make_problem",
    "run_policy",
    "settings_for",
]
