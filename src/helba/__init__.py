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

Importing helba loads nothing of it: a name is loaded when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helba.bandits import HorizonWarning, Policy, Settings
    from helba.errors import HelbaError, InvalidInput, RunFailed
    from helba.in_process.bandit import EncryptedBandit
    from helba.lab.algorithm import ALGORITHMS, make_policy
    from helba.lab.runner import run_policy, settings_for
    from helba.problems import PROBLEMS, Problem, Round, make_problem
    from helba.service.client import Client

    __version__: str

__all__ = [
    "ALGORITHMS",
    "PROBLEMS",
    "Client",
    "EncryptedBandit",
    "HelbaError",
    "HorizonWarning",
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

_NAMES = {
    "bandits": ("HorizonWarning", "Policy", "Settings"),
    "errors": ("HelbaError", "InvalidInput", "RunFailed"),
    "in_process.bandit": ("EncryptedBandit",),
    "lab.algorithm": ("ALGORITHMS", "make_policy"),
    "lab.runner": ("run_policy", "settings_for"),
    "problems": ("PROBLEMS", "Problem", "Round", "make_problem"),
    "service.client": ("Client",),
}
_HOMES = {name: home for home, names in _NAMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used."""
    if name == "__version__":
        from importlib.metadata import version

        return version("helba")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the public names, loaded or not, and nothing else."""
    return sorted(__all__)
