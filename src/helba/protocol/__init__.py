"""The parties and what they say to each other.

`Authority` makes the keys, `User` encrypts, decrypts and acts, `Server` computes on ciphertexts.
They exchange bytes only (`messages`). `ReferenceBandit` plays all three in one process:

    bandit = ReferenceBandit(settings, engine="ckks")
    arm = bandit.select(contexts)
    bandit.update(contexts[arm], reward)

Each is kept in a folder of its own, as `helba keys` makes them:

    authority = open_authority(folder, passphrase=words)
    user = open_user(folder, passphrase=words)
    server = ServerProcess(folder)

A name is loaded when it is first used, so that a user's device loads no code of the server.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helba.protocol.authority import Authority, Member
    from helba.protocol.bandit import ReferenceBandit
    from helba.protocol.deployment import Deployment
    from helba.protocol.keystore import create_authority, open_authority
    from helba.protocol.process import ServerProcess
    from helba.protocol.server import Server
    from helba.protocol.serverfiles import open_server
    from helba.protocol.user import Recommendation, User
    from helba.protocol.userstore import create_user, open_user

__all__ = [
    "Authority",
    "Deployment",
    "Member",
    "Recommendation",
    "ReferenceBandit",
    "Server",
    "ServerProcess",
    "User",
    "create_authority",
    "create_user",
    "open_authority",
    "open_server",
    "open_user",
]

_HOMES = {
    "Authority": "authority",
    "Deployment": "deployment",
    "ReferenceBandit": "bandit",
    "Member": "authority",
    "Recommendation": "user",
    "Server": "server",
    "ServerProcess": "process",
    "User": "user",
    "create_authority": "keystore",
    "create_user": "userstore",
    "open_authority": "keystore",
    "open_server": "serverfiles",
    "open_user": "userstore",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used."""
    if name in _HOMES:
        return getattr(import_module(f"helba.protocol.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
