"""The authority: it makes the keys and says who takes part. It may be the opener, too."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

import nacl.public

from helba.errors import InvalidInput
from helba.protocol.deployment import SharesDeployment
from helba.protocol.effects import SERVER, Effects, Transition
from helba.protocol.message import Admission, Enrol, Message, Refusal
from helba.randomness import Draw, draw_bytes
from helba.ring import Recipient, Ring
from helba.ring.key import find_backend
from helba.ring.secret import KeyPair, Opener, make_keys, make_reencryption_key


@dataclass(frozen=True, kw_only=True)
class Enrolled:
    """A user takes part; in the setting `users` with the key of that name."""

    user: bytes
    key_id: bytes

    def apply(self, state: AuthorityState) -> None:
        """Add the member."""
        state.members[self.user] = self.key_id


@dataclass(kw_only=True)
class AuthorityState:
    """Names of the users' own keys by user; they are empty in the setting `authority`."""

    members: dict[bytes, bytes] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class AuthorityKeys:
    """The collective keys of the ring, and in the setting `authority` the key that opens seeds."""

    ring: KeyPair
    sealing: nacl.public.PrivateKey = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("keys of an authority are secret: they are neither pickled nor copied")


def make_authority_keys(deployment: SharesDeployment, *, seed: int | None = None) -> AuthorityKeys:
    """Draw an authority's keys: OpenFHE's and libsodium's own.

    `seed` fixes the noise of the simulator, and so which way ties go; with OpenFHE there is none.
    """
    plan = deployment.plan
    backend = find_backend(deployment.backend, plan.parameters, seed=seed)
    ring = make_keys(plan.parameters, backend=backend, automorphism=plan.automorphism)
    return AuthorityKeys(ring=ring, sealing=nacl.public.PrivateKey.generate())


class Authority:
    """Holds the collective secret key, and in `authority` the key that seeds are sealed to.

    `handle` enrols whoever asks: who may ask is a matter of the channel. `public_key` is the
    collective key, `sealing_key` the one that users seal seeds to; `private_sealing_key`, which
    stays with the opener, opens them. With a `state` it goes on from there, with the same keys, and
    the state is the authority's from then on.
    """

    def __init__(
        self,
        deployment: SharesDeployment,
        *,
        keys: AuthorityKeys,
        state: AuthorityState | None = None,
        draw: Draw = draw_bytes,
    ) -> None:
        self.deployment = deployment
        self.state = AuthorityState() if state is None else state
        self._transition = Transition(self.state)
        self._draw = draw
        self._keys = keys.ring
        self.public_key = keys.ring.public
        self.private_sealing_key = keys.sealing
        self.sealing_key = bytes(keys.sealing.public_key)

    def __repr__(self) -> str:
        return f"Authority(opener={self.deployment.plan.opener!r})"

    def handle(self, message: Message, *, sender: bytes) -> Effects:
        """Enrol who asks to take part; the same again is told to the server again."""
        if not isinstance(message, Enrol):
            raise InvalidInput("message", type(message).__name__, "one for an authority")
        key, members = message.public_key, self.state.members
        key_id = b"" if key is None else key.key_id
        if (key is None) == (self.deployment.plan.opener == "users"):
            self._refuse(sender, "a user has a key of its own in the setting 'users' only")
        elif key_id == self.public_key.key_id:
            self._refuse(sender, "the key is the collective one, not the user's own")
        elif members.get(sender, key_id) != key_id:
            self._refuse(sender, "the user is enrolled with another key")
        else:
            if sender not in members:
                self._transition.commit(Enrolled(user=sender, key_id=key_id))
            recipient = None
            if key is not None:
                way = make_reencryption_key(self._keys.secret, to=key)
                recipient = Recipient(public=key, reencryption=way)
            self._transition.send(Admission(user=sender, recipient=recipient), to=SERVER)
        return self._transition.take()

    def _refuse(self, user: bytes, reason: str) -> None:
        self._transition.send(Refusal(name=user, reason=reason), to=user)

    def make_ring(self) -> Ring:
        """Return what the server computes with: public keys."""
        return Ring(self._keys.public, evaluation_key=self._keys.evaluation, draw=self._draw)

    def make_opener(self) -> Opener:
        """Return the opener under the collective key, for the setting `authority`."""
        return Opener(self._keys.secret, public_key=self._keys.public)
