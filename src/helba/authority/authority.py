"""The authority: it makes the keys and says who takes part. It may be the opener, too."""

from __future__ import annotations

from dataclasses import dataclass

import nacl.public

from helba.protocol.deployment import SharesDeployment
from helba.protocol.message import ID_BYTES
from helba.randomness import Draw, draw_bytes
from helba.ring import PublicKey, Recipient, Ring
from helba.ring.key import find_backend
from helba.ring.secret import KeyPair, Opener, make_keys, make_reencryption_key


@dataclass(frozen=True, kw_only=True)
class Enrolment:
    """A user's name, and in the setting `users` the keys by which the server reaches it."""

    id: bytes
    recipient: Recipient | None = None


class Authority:
    """Holds the collective secret key, and in `authority` the key that seeds are sealed to.

    `public_key` is the collective one, `sealing_key` the one that users seal seeds to, and
    `private_sealing_key`, which stays with the opener, opens them. `seed` fixes the noise of the
    simulator, and so which way ties go there; with OpenFHE there is none.
    """

    def __init__(
        self, deployment: SharesDeployment, *, seed: int | None = None, draw: Draw = draw_bytes
    ) -> None:
        self.deployment = deployment
        plan = deployment.plan
        self._draw = draw
        self._backend = find_backend(deployment.backend, plan.parameters, seed=seed)
        self._keys: KeyPair = make_keys(
            plan.parameters, backend=self._backend, automorphism=plan.automorphism
        )
        self.public_key = self._keys.public
        self.private_sealing_key = nacl.public.PrivateKey.generate()
        self.sealing_key = bytes(self.private_sealing_key.public_key)

    def __repr__(self) -> str:
        return f"Authority(opener={self.deployment.plan.opener!r})"

    def make_ring(self) -> Ring:
        """Return what the server computes with: public keys."""
        return Ring(self._keys.public, evaluation_key=self._keys.evaluation, draw=self._draw)

    def make_opener(self) -> Opener:
        """Return the opener under the collective key, for the setting `authority`."""
        return Opener(self._keys.secret, public_key=self._keys.public)

    def make_user_keys(self) -> KeyPair:
        """Return a key pair of one's own, as a user makes it."""
        return make_keys(self.deployment.plan.parameters, backend=self._backend)

    def enrol(self, public_key: PublicKey | None = None) -> Enrolment:
        """Take a user in; with its own public key in the setting `users`."""
        name = self._draw(ID_BYTES)
        if public_key is None:
            return Enrolment(id=name)
        way = make_reencryption_key(self._keys.secret, to=public_key)
        return Enrolment(id=name, recipient=Recipient(public=public_key, reencryption=way))
