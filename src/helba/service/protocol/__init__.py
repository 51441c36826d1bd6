"""Files of the reference protocol: folders of keys, snapshots, processes.

authority = open_authority(folder, passphrase=words)
user = open_user(folder, passphrase=words)
server = ServerProcess(folder)

Only the HTTP service needs them, and they go with it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from helba.service.protocol.keystore import create_authority, open_authority
    from helba.service.protocol.process import ServerProcess
    from helba.service.protocol.serverfiles import open_server
    from helba.service.protocol.userstore import create_user, open_user

__all__ = [
    "ServerProcess",
    "create_authority",
    "create_user",
    "open_authority",
    "open_server",
    "open_user",
]

_HOMES = {
    "ServerProcess": "process",
    "create_authority": "keystore",
    "create_user": "userstore",
    "open_authority": "keystore",
    "open_server": "serverfiles",
    "open_user": "userstore",
}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used."""
    if name in _HOMES:
        return getattr(import_module(f"helba.service.protocol.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
