"""The key authority: makes the keys of a deployment and hands each party its own.

It never receives a ciphertext. The server gets the public and the evaluation key, a user the public
key and, in this shared-key mode (that of the paper), the secret key.
"""

from __future__ import annotations

from helba.engine import KeySet, Scheme, get_scheme
from helba.protocol.deployment import Deployment
from helba.protocol.server import Server
from helba.protocol.user import User

__all__ = ["Authority"]


class Authority:
    """Holds the keys of one deployment; `scheme` may be a variant of the one it names."""

    def __init__(self, deployment: Deployment, *, scheme: Scheme | None = None) -> None:
        self.deployment = deployment
        self._scheme = get_scheme(deployment.scheme) if scheme is None else scheme
        self._keys: KeySet = self._scheme.generate_keys(
            deployment.parameters,
            rotations=deployment.rotations,
            bootstrap_slots=deployment.bootstrap_slots,
        )

    def make_server(self) -> Server:
        """Return a server in this process, without the secret key."""
        engine = self._scheme.engine(self._keys.public, evaluation_key=self._keys.evaluation)
        return Server(self.deployment, engine=engine)

    def make_user(self) -> User:
        """Return a user."""
        engine = self._scheme.engine(self._keys.public)
        return User(self.deployment, engine=engine, secret_key=self._keys.secret)

    def public_key_bytes(self) -> bytes:
        """Return what anybody may have."""
        return self._scheme.public_key_to_bytes(self._keys.public)

    def evaluation_key_bytes(self) -> bytes:
        """Return what the server computes with."""
        return self._scheme.evaluation_key_to_bytes(self._keys.evaluation)

    def secret_key_bytes(self) -> bytes:
        """Return what decrypts, for a user in another process."""
        return self._scheme.secret_key_to_bytes(self._keys.secret)

    def __repr__(self) -> str:
        return f"<Authority of {self.deployment.fingerprint}>"
