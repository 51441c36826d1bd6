"""Linear contextual bandits that learn from encrypted data.

A few lines run a policy on a problem:

    problem = helba.make_problem("toy", seed=0)
    policy = helba.make_policy("helba", settings=helba.settings_for(problem, horizon=130))
    for round in problem.rounds(130):
        arm = policy.select(round.contexts)
        policy.update(round.contexts[arm], round.rewards[arm])

The same on ciphertexts, at 128 bits of security:

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
    from helba.protocol import Authority, Deployment, EncryptedBandit, Server, User
    from helba.service.client import Client

__version__ = version("helba")

__all__ = [
    "ALGORITHMS",
    "PROBLEMS",
    "Authority",
    "Client",
    "Deployment",
    "EncryptedBandit",
    "HelbaError",
    "InvalidInput",
    "Policy",
    "Problem",
    "Round",
    "RunFailed",
    "Server",
    "Settings",
    "User",
    "__version__",
    "make_policy",
    "make_problem",
    "run_policy",
    "settings_for",
]

_PARTIES = ("Authority", "Deployment", "EncryptedBandit", "Server", "User")


def __getattr__(name: str) -> Any:
    """Load a party of the encrypted bandit."""
    if name in _PARTIES:
        return getattr(import_module("helba.protocol"), name)
    if name == "Client":
        return import_module("helba.service.client").Client
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
