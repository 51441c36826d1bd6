"""The users that a server serves, and its line to each of them.

A line reads what its user sends and writes what it gets. In the shared-key mode everybody uses the
collective key and there is one line. Otherwise what leaves is re-encrypted to the user's own key
and flooded under it; what comes in is under the collective key, or, where data arrives `switched`,
under the user's own and is re-encrypted to the collective one.

Re-encryption keys are opened for the users who were served last. Those of the others are kept as
bytes, or lie where they can be read again: they are megabytes each.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from threading import Lock

from helba.errors import DamagedData, Refused
from helba.reference.engine import (
    EncryptedVector,
    Engine,
    PublicKey,
    Recipient,
    ReencryptionKey,
    Scheme,
)
from helba.reference.planning.sizes import outward_level
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import SHARED_ID, Enrolment, Rotation, name_key

# Lines that are open at once: some megabytes each, and more where data arrives switched.
OPEN_LINES = 64


@dataclass(frozen=True, kw_only=True)
class Line:
    """One user's: `engine` is that of its key, `recipient` None if that is the collective key."""

    engine: Engine
    recipient: Recipient | None = None
    inward: ReencryptionKey | None = None

    def read(self, data: bytes, *, collective: Engine, slots: int, level: int) -> EncryptedVector:
        """Return what the user sent, under the collective key."""
        if self.inward is None:
            return collective.vector_from_bytes(data, slots=slots, level=level)
        vector = self.engine.vector_from_bytes(data, slots=slots, level=level)
        return self.engine.reencrypt(vector, key=self.inward)

    def send(self, vector: EncryptedVector, *, collective: Engine, flood: float) -> bytes:
        """Return the bytes for the user: under its key, re-randomised, off by `flood` at most."""
        if self.recipient is not None:
            vector = collective.reencrypt(vector, key=self.recipient.key)
        return self.engine.vector_to_bytes(self.engine.flood(vector, amount=flood))

    def __repr__(self) -> str:
        return "<Line>"


@dataclass(frozen=True, kw_only=True)
class _Entry:
    """How to read a user's enrolment, and its inward key if there is one."""

    enrolment: Callable[[], Enrolment] = field(repr=False)
    inward_key: Callable[[], bytes] | None = field(default=None, repr=False)


class Directory:
    """Who is enrolled, and who was revoked; `engine` is that of the collective key."""

    def __init__(self, deployment: Deployment, *, scheme: Scheme, engine: Engine) -> None:
        self.deployment = deployment
        self._scheme = scheme
        self._engine = engine
        self._entries: dict[bytes, _Entry] = {}
        self._revoked: set[bytes] = set()
        self._lines: OrderedDict[bytes, Line] = OrderedDict()
        self._lock = Lock()

    @property
    def users(self) -> tuple[bytes, ...]:
        """The ids of those who are enrolled."""
        return tuple(self._entries)

    def enrol(self, enrolment: Enrolment) -> None:
        """Take a user in, or a user's new keys; whatever does not fit changes nothing."""
        if self.deployment.keys == "shared":
            raise Refused("in this deployment all users share one key: nobody enrols")
        known = self._entries.get(enrolment.user)
        entry = _Entry(
            enrolment=lambda: enrolment, inward_key=None if known is None else known.inward_key
        )
        line = self._open(entry, user=enrolment.user)
        self._entries[enrolment.user] = entry
        self._revoked.discard(enrolment.user)
        self._keep(enrolment.user, line)

    def admit(
        self,
        user: bytes,
        *,
        enrolment: Callable[[], Enrolment],
        inward_key: Callable[[], bytes] | None = None,
    ) -> None:
        """Take a user in whose keys lie elsewhere; they are read, and checked, when needed."""
        self._entries[user] = _Entry(enrolment=enrolment, inward_key=inward_key)
        self._revoked.discard(user)

    def hold(self, user: bytes) -> None:
        """Read a user's keys now, check them, and keep them: they may not be there later."""
        entry = self._entries[user]
        enrolment = entry.enrolment()
        inward = None if entry.inward_key is None else entry.inward_key()
        held = _Entry(
            enrolment=lambda: enrolment, inward_key=None if inward is None else lambda: inward
        )
        line = self._open(held, user=user)
        self._entries[user] = held
        self._keep(user, line)

    def introduce(self, user: bytes, *, inward_key: bytes) -> None:
        """Take the key by which a user's own ciphertexts become the collective key's."""
        self.require(user)
        if self.deployment.keys != "switched":
            raise Refused("in this deployment data arrives under the collective key")
        entry = replace(self._entries[user], inward_key=lambda: inward_key)
        line = self._open(entry, user=user)
        self._entries[user] = entry
        self._keep(user, line)

    def revoke(self, user: bytes) -> None:
        """Delete a user's keys; `Refused` if nobody of this id is enrolled."""
        self.require(user)
        del self._entries[user]
        self._lines.pop(user, None)
        self._revoked.add(user)

    def bar(self, users: Iterable[bytes]) -> None:
        """Remember as revoked those of `users` who are not enrolled."""
        self._revoked |= set(users) - set(self._entries)

    def require(self, user: bytes) -> None:
        """Raise `Refused`, with a reason, unless the user is enrolled."""
        if self.deployment.keys == "shared":
            if user != SHARED_ID:
                raise Refused("in this deployment all users share one key, and this is another")
        elif user in self._revoked:
            raise Refused("this key was revoked: enrol again with the authority")
        elif user not in self._entries:
            raise Refused("this key is not enrolled: enrol it with the authority")

    def line(self, user: bytes) -> Line:
        """Return the line to a user, or raise `Refused`."""
        self.require(user)
        if self.deployment.keys == "shared":
            return Line(engine=self._engine)
        with self._lock:  # answers of a batch are made side by side
            line = self._lines.get(user)
        if line is None:
            line = self._open(self._entries[user], user=user)
        self._keep(user, line)
        if self.deployment.keys == "switched" and line.inward is None:
            raise Refused("the key that switches this user's data has not arrived yet")
        return line

    def under(
        self, rotation: Rotation, *, old: Engine
    ) -> tuple[Engine, Directory, ReencryptionKey]:
        """Return engine and directory under a new collective key, and the key that leads there.

        Who was revoked stays so, whatever the rotation has for it; for whom it has nothing, is
        revoked by it. Keys for data that arrives switched lead to the old key: users bring new
        ones.
        """
        deployment, scheme = self.deployment, self._scheme
        parameters = deployment.parameters
        public = scheme.public_key_from_bytes(rotation.public_key, parameters=parameters)
        key = self._way(rotation.switching_key, level=0)
        if not key.belongs_to(old.public_key) or not key.leads_to(public):
            raise DamagedData("the rotation does not lead from this collective key to the new one")
        evaluation = scheme.evaluation_key_from_bytes(
            rotation.evaluation_key,
            parameters=parameters,
            rotations=deployment.rotations,
            bootstrap_slots=deployment.bootstrap_slots,
        )
        engine = scheme.engine(public, evaluation_key=evaluation)
        new = Directory(deployment, scheme=scheme, engine=engine)
        for data in rotation.enrolments:
            enrolment = Enrolment.from_bytes(data, deployment=deployment)
            if enrolment.user not in self._revoked:
                new.enrol(enrolment)
        new.bar({*self._revoked, *self.users})
        return engine, new, key

    def _keep(self, user: bytes, line: Line) -> None:
        with self._lock:
            self._lines[user] = line
            self._lines.move_to_end(user)
            while len(self._lines) > OPEN_LINES:
                self._lines.popitem(last=False)

    def _open(self, entry: _Entry, *, user: bytes) -> Line:
        parameters, scheme, enrolment = self.deployment.parameters, self._scheme, entry.enrolment()
        own: PublicKey = scheme.public_key_from_bytes(enrolment.public_key, parameters=parameters)
        if enrolment.user != user or name_key(own) != user:
            raise DamagedData("the enrolment names another public key")
        outward = self._way(enrolment.outward_key, level=outward_level(parameters))
        inward = None
        if not outward.belongs_to(self._engine.public_key) or not outward.leads_to(own):
            raise DamagedData("the re-encryption key does not lead from here to this user")
        if entry.inward_key is not None:
            inward = self._way(entry.inward_key(), level=0)
            if not inward.belongs_to(own) or not inward.leads_to(self._engine.public_key):
                raise DamagedData("the re-encryption key does not lead from this user to here")
        return Line(
            engine=scheme.engine(own),
            recipient=Recipient(key=outward, public_key=own),
            inward=inward,
        )

    def _way(self, data: bytes, *, level: int) -> ReencryptionKey:
        key = self._scheme.reencryption_key_from_bytes(data, parameters=self.deployment.parameters)
        if key.level != level:
            raise DamagedData(f"the re-encryption key is for level {key.level}, not {level}")
        return key
