"""The parties and what they say to each other.

`Authority` makes the keys, `User` encrypts, decrypts and acts, `Server` computes on ciphertexts.
They exchange bytes only (`messages`). `ReferenceBandit` plays all three in one process:

    bandit = ReferenceBandit(settings, engine="ckks")
    arm = bandit.select(contexts)
    bandit.update(contexts[arm], reward)

A name is loaded when it is first used, so that a user's device loads no code of the server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helba.reference.protocol.authority import Authority, Member
    from helba.reference.protocol.bandit import ReferenceBandit
    from helba.reference.protocol.deployment import Deployment
    from helba.reference.protocol.serving.server import Server
    from helba.reference.protocol.user import Recommendation, User

__all__ = [
    "Authority",
    "Deployment",
    "Member",
    "Recommendation",
    "ReferenceBandit",
    "Server",
    "User",
]

_HOMES = {
    "Authority": "authority",
    "Deployment": "deployment",
    "ReferenceBandit": "bandit",
    "Member": "authority",
    "Recommendation": "user",
    "Server": "serving.server",
    "User": "user",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used."""
    if name in _HOMES:
        return getattr(import_module(f"helba.reference.protocol.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
