"""Linear contextual bandits that learn from encrypted data.

A few lines run a policy on a problem:

    problem = helba.make_problem("toy", seed=0)
    policy = helba.make_policy("helba", settings=helba.settings_for(problem, horizon=130))
    for round in problem.rounds(130):
        arm = policy.select(round.contexts)
        policy.update(round.contexts[arm], round.rewards[arm])

The same encrypted, at 128 bits of security, by a server that sees no number:

    policy = helba.EncryptedBandit(helba.settings_for(problem, horizon=130))

Over HTTP, where authority, server and users are programs of their own:

    with helba.Client.open(Path("alice"), passphrase=words) as client:
        round = client.recommend(contexts)
        client.reward(round.round, reward)

Importing helba loads neither OpenFHE nor matplotlib nor scikit-learn; the parties of the encrypted
bandit and the client are loaded when they are first named.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from helba.bandits import ALGORITHMS, Policy, Settings, make_policy
from helba.errors import HelbaError, InvalidInput, RunFailed
from helba.experiments.runner import run_policy, settings_for
from helba.problems import PROBLEMS, Problem, Round, make_problem

if TYPE_CHECKING:
    from helba.service.client import Client
    from helba.shares.bandit import EncryptedBandit

__version__ = version("helba")

__all__ = [
    "ALGORITHMS",
    "PROBLEMS",
    "Client",
    "EncryptedBandit",
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


def __getattr__(name: str) -> Any:
    """Load the encrypted bandit, or the client."""
    if name == "EncryptedBandit":
        return import_module("helba.shares.bandit").EncryptedBandit
    if name == "Client":
        return import_module("helba.service.client").Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
