"""Which collective key a client encrypts under, and who vouches for it.

Whoever chooses that key reads what is encrypted under it. The server says in every notice which one
counts. When that is another one than the client has, it was rotated: the new key is taken from the
server only if the authority, at the URL that the client was enrolled with, names the same id. Where
the user pinned the key at enrolment not even then, but by `adopt` with an id that the user compared
by itself.
"""

from __future__ import annotations

from pathlib import Path

from helba.errors import DamagedData, Refused
from helba.reference.engine import get_scheme
from helba.reference.protocol.enrolment import name_key
from helba.reference.protocol.user import User
from helba.reference.protocol.wire.codec import Codec
from helba.reference.protocol.wire.messages import Notice
from helba.reference.twin.terms import BatchTerms
from helba.service.client.account import Account
from helba.service.client.link import ServerLink
from helba.service.client.registry import Registry
from helba.service.client.transport import Patience
from helba.service.protocol.keyinfo import id_of_file
from helba.service.protocol.userstore import COLLECTIVE_KEY, adopt_key


class Keyring:
    """The keys of one user; `key` is the id of the collective one, None while it is not known."""

    def __init__(
        self,
        user: User,
        *,
        account: Account,
        link: ServerLink,
        folder: Path | None = None,
        patience: Patience | None = None,
        allow_insecure: bool = False,
    ) -> None:
        self.key = None if folder is None else id_of_file(folder / COLLECTIVE_KEY).hex()
        self._user = user
        self._account = account
        self._link = link
        self._folder = folder
        self._patience = patience
        self._allow_insecure = allow_insecure
        self._codec = Codec(user.deployment)

    def __repr__(self) -> str:
        return f"<Keyring under {self.key}>"

    def terms(self) -> BatchTerms:
        """Return the terms that the server serves; a rotated key is adopted first."""
        notice = self._link.terms()
        try:
            terms = self._user.read_notice(notice)
        except Refused:
            new = self._key_of(notice)
            if self._account.pinned:
                raise Refused(
                    f"the collective key was rotated, and is {new} now: compare this id with the "
                    "authority's, then adopt it (helba client adopt DIR --key ID)"
                ) from None
            self.adopt(new)
            notice = self._link.terms()
            terms = self._user.read_notice(notice)
        self.key = self._key_of(notice)
        return terms

    def adopt(self, key: str | None = None) -> str:
        """Take the server's collective key, and return its id.

        It must be the one that the authority names; and `key`, if given.
        """
        data, deployment = self._link.public_key(), self._user.deployment
        scheme = get_scheme(deployment.scheme)
        new = name_key(scheme.public_key_from_bytes(data, parameters=deployment.parameters))
        with Registry(self._account, patience=self._patience) as registry:
            named = registry.home().key
        if named != new.hex():
            raise Refused(f"the server has the key {new.hex()}, but the authority names {named}")
        if key is not None and key != new.hex():
            raise Refused(f"the collective key is {new.hex()}, not {key}")
        if self._folder is not None:
            adopt_key(self._folder, data, key=new, allow_insecure=self._allow_insecure)
        self._user.adopt(data)
        self.key = new.hex()
        if deployment.keys == "switched":
            self.introduce()
        return self.key

    def introduce(self) -> None:
        """Give the server the key that switches this user's data to the collective key."""
        self._link.introduce(self._user.inward_key_bytes())

    def _key_of(self, notice: bytes) -> str:
        message = self._codec.decode(notice)
        if not isinstance(message, Notice):
            raise DamagedData("terms are a notice")
        return message.key.hex()
