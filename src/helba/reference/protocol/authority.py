"""The key authority: makes the collective keys, enrols users, and hands each party its own.

It never receives a ciphertext. The server gets the public and the evaluation key, and for every
user a re-encryption key; a user gets the public key, and only in the shared-key mode (that of the
paper) the secret key as well. Users make their own pairs: the authority sees their public keys.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from helba.errors import DamagedData, InvalidInput, Refused
from helba.reference.engine import KeyPair, KeySet, PublicKey, Scheme, get_scheme
from helba.reference.planning.sizes import outward_level
from helba.reference.protocol.deployment import Deployment
from helba.reference.protocol.enrolment import Enrolment, Rotation, name_key
from helba.reference.protocol.serving.directory import Directory
from helba.reference.protocol.serving.server import Server
from helba.reference.protocol.user import User

MOST_NAME = 64


@dataclass(frozen=True, kw_only=True)
class Member:
    """A user whom the authority knows: by name, and by the id of its public key."""

    name: str
    id: bytes
    public_key: bytes
    revoked: bool = False

    def __repr__(self) -> str:
        return f"<Member {self.name!r}, {'revoked' if self.revoked else 'enrolled'}>"


class Authority:
    """Holds the keys of one deployment; `scheme` may be a variant of the one it names.

    Without `keys` it makes them, which takes seconds.
    """

    def __init__(
        self,
        deployment: Deployment,
        *,
        scheme: Scheme | None = None,
        keys: KeySet | None = None,
        members: Iterable[Member] = (),
    ) -> None:
        self.deployment = deployment
        self._scheme = get_scheme(deployment.scheme) if scheme is None else scheme
        self._keys = self._make_keys() if keys is None else keys
        self._members: dict[str, Member] = {member.name: member for member in members}

    def __repr__(self) -> str:
        return f"<Authority of {self.deployment.fingerprint}>"

    # -- users

    @property
    def members(self) -> tuple[Member, ...]:
        """All users that were ever enrolled, revoked ones included."""
        return tuple(self._members.values())

    def enrol(self, public_key: bytes, *, name: str, replace: bool = False) -> bytes:
        """Take a user in by its public key, and return the enrolment for the server.

        A revoked user may enrol again; an enrolled one only with `replace`, and its old key must
        then be revoked at the server.
        """
        self._require_own_keys()
        _require_name(name)
        known = self._members.get(name)
        if known is not None and not known.revoked and not replace:
            raise Refused(f"{name} is enrolled already: revoke first, or replace the key")
        key = self._read_public(public_key)
        if key.tag == self._keys.public.tag:
            raise InvalidInput("public_key", "the collective key", "a user's own")
        member = Member(name=name, id=name_key(key), public_key=public_key)
        if any(each.id == member.id and each.name != name for each in self.members):
            # whose it is stays untold: the server, which has all public keys, could ask for names
            raise Refused("this key is enrolled under another name: every user makes its own")
        self._members[name] = member
        return self._enrolment(member)

    def revoke(self, name: str) -> bytes:
        """Mark a user as revoked; return the id that the server must refuse and forget."""
        member = self.member(name)
        if member.revoked:
            raise Refused(f"{name} is revoked already")
        self._members[name] = replace(member, revoked=True)
        return member.id

    def member(self, name: str) -> Member:
        """Return the user of that name, or raise `Refused`."""
        if name not in self._members:
            raise Refused(f"nobody of the name {name} was enrolled")
        return self._members[name]

    def enrolment_of(self, user: bytes) -> bytes:
        """Return the enrolment of an enrolled user once more, with a new re-encryption key."""
        for member in self.members:
            if member.id == user and not member.revoked:
                return self._enrolment(member)
        raise Refused("nobody of this id is enrolled")

    def rotate(self) -> bytes:
        """Make new collective keys, forget the old ones, and return the rotation for the server.

        Users get the new public key; their own keys stay.
        """
        old, new = self._keys, self._make_keys()
        switching = self._scheme.make_reencryption_key(old.secret, recipient=new.secret)
        self._keys = new
        enrolled = () if self.deployment.keys == "shared" else self.members
        rotation = Rotation(
            public_key=self.public_key_bytes(),
            evaluation_key=self.evaluation_key_bytes(),
            switching_key=self._scheme.reencryption_key_to_bytes(switching),
            enrolments=tuple(self._enrolment(each) for each in enrolled if not each.revoked),
        )
        return rotation.to_bytes(deployment=self.deployment)

    # -- parties in this process

    def make_server(self) -> Server:
        """Return a server for all who are enrolled, without any secret key."""
        engine = self._scheme.engine(self._keys.public, evaluation_key=self._keys.evaluation)
        directory = Directory(self.deployment, scheme=self._scheme, engine=engine)
        server = Server(self.deployment, engine=engine, directory=directory)
        if self.deployment.keys != "shared":
            for member in self.members:
                if not member.revoked:
                    server.enrol(self._enrolment(member))
        return server

    def make_user(self, name: str | None = None) -> User:
        """Return a user who makes its keys here, and enrol it.

        A server that is there already learns of it by `enrolment_of`. In the shared-key mode all
        users have the collective key.
        """
        engine = self._scheme.engine(self._keys.public)
        if self.deployment.keys == "shared":
            keys = KeyPair(public=self._keys.public, secret=self._keys.secret)
        else:
            keys = self._scheme.generate_pair(self.deployment.parameters)
        user = User(self.deployment, scheme=self._scheme, engine=engine, keys=keys)
        if self.deployment.keys != "shared":
            named = f"user {len(self._members) + 1}" if name is None else name
            self.enrol(user.public_key_bytes(), name=named)
        return user

    # -- keys as bytes

    def public_key_bytes(self) -> bytes:
        """Return what anybody may have."""
        return self._scheme.public_key_to_bytes(self._keys.public)

    def evaluation_key_bytes(self) -> bytes:
        """Return what the server computes with."""
        return self._scheme.evaluation_key_to_bytes(self._keys.evaluation)

    def secret_key_bytes(self) -> bytes:
        """Return the collective secret key: for the authority's own store only."""
        return self._scheme.secret_key_to_bytes(self._keys.secret)

    # -- parts

    def _make_keys(self) -> KeySet:
        return self._scheme.generate_keys(
            self.deployment.parameters,
            rotations=self.deployment.rotations,
            bootstrap_slots=self.deployment.bootstrap_slots,
        )

    def _enrolment(self, member: Member) -> bytes:
        recipient = self._read_public(member.public_key)
        if name_key(recipient) != member.id:  # or the collective key would go to somebody else
            raise DamagedData(f"the public key of {member.name} is not the one that was enrolled")
        outward = self._scheme.make_reencryption_key(
            self._keys.secret,
            recipient=recipient,
            level=outward_level(self.deployment.parameters),
        )
        enrolment = Enrolment(
            user=member.id,
            public_key=member.public_key,
            outward_key=self._scheme.reencryption_key_to_bytes(outward),
        )
        return enrolment.to_bytes(deployment=self.deployment)

    def _read_public(self, data: bytes) -> PublicKey:
        return self._scheme.public_key_from_bytes(data, parameters=self.deployment.parameters)

    def _require_own_keys(self) -> None:
        if self.deployment.keys == "shared":
            raise Refused("in this deployment all users share one key: nobody enrols")


def _require_name(name: str) -> None:
    if not 1 <= len(name) <= MOST_NAME or not name.isprintable() or name != name.strip():
        shown = repr(name) if len(name) <= MOST_NAME else f"{len(name)} characters"
        raise InvalidInput("name", shown, f"1 to {MOST_NAME} printable characters")
